"""The HTTP server: a port, HTTP/1.1 with or without TLS, and graceful shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from rollq.base.errors import ErrorCode, LocalError
from rollq.net.addresses import is_loopback
from rollq.security.tls import tls_files
from rollq.web.app import Web, make_app
from rollq.web.limits import (
    CONNECTIONS_MAX,
    HEAD_BYTES_MAX,
    HEAD_S,
    KEEP_ALIVE_S,
    STOP_S,
)
from rollq.web.setup import WebSetup


class WebServer:
    """A web process. Inside an event loop: `start`, then `wait` or `stop`.

    Attributes:
        url: Its URL.
        web: The state that requests share.
    """

    def __init__(self, setup: WebSetup) -> None:
        self._socket = _listen(setup.host, setup.port)
        port = self._socket.getsockname()[1]
        self.setup = replace(setup, port=port)
        scheme = "https" if setup.speaks_tls else "http"
        host = f"[{setup.host}]" if ":" in setup.host else setup.host or "0.0.0.0"
        self.url = f"{scheme}://{host}:{port}/"
        self.web = Web(self.setup)
        config = uvicorn.Config(
            make_app(self.web),
            http=_Http,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=CONNECTIONS_MAX,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=int(STOP_S),
            h11_max_incomplete_event_size=HEAD_BYTES_MAX,
        )
        config.load()
        config.ssl = _tls(setup)
        self._server = _Server(config)
        self._serving: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start serving."""
        self._serving = asyncio.create_task(self._server.serve(sockets=[self._socket]))

    async def wait(self) -> None:
        """Wait until it ends."""
        assert self._serving is not None
        await self._serving

    async def stop(self) -> None:
        """Finish running responses, and close all connections."""
        self.web.closing.set()
        self._server.should_exit = True
        if self._serving is not None:
            await self._serving
        await self.web.stop()


class _Server(uvicorn.Server):
    """Uvicorn without signal handlers: the process has its own."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Http(H11Protocol):
    """HTTP/1.1 with a timeout for request heads, against slow clients that hold connections."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._late = self.loop.call_later(HEAD_S, self._close_late)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        is_answering = self.cycle is not None and not self.cycle.response_complete
        if is_answering:
            self._cancel_late()
        elif self._late is None:
            self._late = self.loop.call_later(HEAD_S, self._close_late)

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_late()
        super().connection_lost(exc)

    def _cancel_late(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _close_late(self) -> None:
        self._late = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise LocalError(
            ErrorCode.CANNOT_LISTEN,
            f"cannot listen on {host or '0.0.0.0'}:{port}: {error.strerror or error}",
            "use another port or --host",
        ) from None
    return listener


def _tls(setup: WebSetup) -> ssl.SSLContext | None:
    """The TLS context; client certificates are not requested from browsers."""
    if setup.credentials.certificate is None:
        return None
    tls_files(setup.credentials)  # raises if the files are invalid
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(*setup.credentials.certificate)
    return context


def check_protected(setup: WebSetup) -> None:
    """Refuse to listen for other machines without TLS, unless --unsafe-no-auth is set. Whether the
    group requires logins is checked at every login.

    Raises:
        LocalError: UNPROTECTED.
    """
    if is_loopback(setup.host) or setup.is_unprotected or setup.speaks_tls:
        return
    raise LocalError(
        ErrorCode.UNPROTECTED,
        f"other machines would reach the pages on {setup.host or 'all addresses'} without TLS",
        "give --credentials made by `rollq init`, listen on 127.0.0.1, or use --unsafe-no-auth",
    )

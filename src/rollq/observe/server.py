"""`/metrics` and `/healthz` of a process without web pages, served by WSGI on threads. The
figures are collected on the event loop of the process."""

from __future__ import annotations

import asyncio
import concurrent.futures
import socket
import threading
from collections.abc import Callable, Iterable
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

from rollq.base.counters import Family
from rollq.base.errors import ErrorCode, LocalError
from rollq.observe.text import registry_of

ANSWER_S: Final = 5.0  # a loop that is blocked for longer is unhealthy
SOCKET_S: Final = 10.0  # socket timeout of a request
NOT_FOUND: Final = "404 Not Found", b"there are /metrics and /healthz\n"
HEALTHY: Final = "200 OK", b"ok\n"
UNHEALTHY: Final = "503 Service Unavailable", b"the loop of the process does not answer\n"


class MetricsServer:
    """Serves from construction until `stop`. Constructed on the loop of the process.

    Args:
        host: Where to listen.
        port: Likewise; 0: any.
        families: Returns the metrics; called on the loop.

    Attributes:
        address: Where it listens.

    Raises:
        LocalError: CANNOT_LISTEN.
    """

    def __init__(self, host: str, port: int, families: Callable[[], list[Family]]) -> None:
        self._loop = asyncio.get_running_loop()
        self._families = families
        try:
            self._server = make_server(host, port, self._answer, _server_for(host), _Handler)
        except OSError as error:
            raise LocalError(
                ErrorCode.CANNOT_LISTEN,
                f"cannot listen on {host}:{port}: {error.strerror or error}",
                "use another port with --http",
            ) from None
        port = self._server.server_port
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="metrics", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        """Handle one request, on a thread."""
        path = environ["PATH_INFO"]
        if path not in ("/metrics", "/healthz"):
            return _respond(start, NOT_FOUND)
        try:
            families = self._collect()
        except (TimeoutError, RuntimeError):  # RuntimeError: the loop is closed
            return _respond(start, UNHEALTHY)
        if path == "/healthz":
            return _respond(start, HEALTHY)
        answer: Iterable[bytes] = make_wsgi_app(registry_of(families))(environ, start)
        return answer

    def _collect(self) -> list[Family]:
        collected: concurrent.futures.Future[list[Family]] = concurrent.futures.Future()

        def collect() -> None:
            try:
                collected.set_result(self._families())
            except Exception as error:  # raised in the waiting thread, not on the loop
                collected.set_exception(error)

        self._loop.call_soon_threadsafe(collect)
        return collected.result(ANSWER_S)


class _Handler(WSGIRequestHandler):
    """Does not log requests; limits the time of each."""

    timeout = SOCKET_S

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


def _server_for(host: str) -> type[ThreadingWSGIServer]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return type("_Server", (ThreadingWSGIServer,), {"address_family": family})


def _respond(start: Callable[..., Any], what: tuple[str, bytes]) -> Iterable[bytes]:
    status, text = what
    start(status, [("Content-Type", "text/plain; charset=utf-8")])
    return (text,)

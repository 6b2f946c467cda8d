"""The first bytes of an accepted socket on a TLS listener: they show whether the peer uses TLS."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import cast

from rollq.net.handshake_turns import HandshakeTurns
from rollq.net.link import TLS_HEAD_BYTES, TLS_RECORD, Link, is_tls
from rollq.net.tls_layer import TlsLayer


class Arrival(asyncio.Protocol):
    """The protocol of a socket until its first bytes arrive; then the link, or a TLS layer, takes
    over.

    Args:
        link: The link of this socket.
        context: The TLS context.
        turns: Schedules the handshakes of the listener.
        on_plain: Called before `connection_made` of a link without TLS.
        on_shaken: As for `TlsLayer`.
        wait_ms_max: How long the first bytes and the handshake may take.
    """

    def __init__(
        self,
        link: Link,
        context: ssl.SSLContext,
        turns: HandshakeTurns,
        on_plain: Callable[[Link], None],
        on_shaken: Callable[[TlsLayer], None],
        *,
        wait_ms_max: int,
    ) -> None:
        self._link = link
        self._context = context
        self._turns = turns
        self._on_plain = on_plain
        self._on_shaken = on_shaken
        self._wait_ms_max = wait_ms_max
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._head = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is open."""
        self._transport = cast(asyncio.Transport, transport)
        self._link.arrive(transport)
        self._timer = self._link.loop.call_later(self._wait_ms_max / 1000, self._overdue)
        if self._link.is_refused:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """The first bytes arrived."""
        transport = cast(asyncio.Transport, self._transport)
        self._head += data
        head = self._head
        if len(head) < TLS_HEAD_BYTES and TLS_RECORD.startswith(head):
            return  # undecided: wait for more bytes
        if is_tls(head):
            layer = TlsLayer(self._context, self._link, self._shaken, self._failed, self._turns)
            transport.set_protocol(layer)
            layer.connection_made(transport)
            layer.data_received(head)
            return
        self._settle()
        transport.set_protocol(self._link)
        self._on_plain(self._link)
        self._link.connection_made(transport)
        self._link.data_received(head)

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket closed before the first bytes."""
        self._settle()
        self._link.connection_lost(exc)

    def abort(self, reason: str) -> None:
        """Close the socket, or the layer that took over."""
        self._settle()
        self._link.abort(reason)
        if self._transport is not None:
            self._transport.abort()

    def _shaken(self, layer: TlsLayer) -> None:
        self._settle()
        self._on_shaken(layer)

    def _failed(self, why: str, speaks_tls: bool) -> None:
        self._settle()
        self._link.abort(why)

    def _settle(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _overdue(self) -> None:
        self.abort(f"no TLS handshake within {self._wait_ms_max} ms")

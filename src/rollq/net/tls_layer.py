"""TLS between a socket and its link: the protocol of the socket, and the transport of the link.

Replaces the TLS layers of the loops, which differ: nothing is buffered here, so that bounds and
pauses of a link apply to the socket, on every loop; the first bytes may have been read before; and
handshakes of accepted sockets are scheduled (`handshake_turns`).
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable, Iterable
from typing import Any, Final, cast

from rollq.base.limits import HANG_UP_MS_MAX
from rollq.net.handshake_turns import HandshakeTurns
from rollq.net.link import Link
from rollq.security.tls import describe_tls_error

READ_BYTES: Final = 16 * 1024  # of one record, at most
RECORDS: Final = b"\x14\x15\x16\x17"  # first byte of a record


class TlsLayer(asyncio.Transport, asyncio.Protocol):
    """TLS on one socket. The link has its `connection_made` when the handshake is over.

    Args:
        context: The TLS context.
        link: The link above.
        on_shaken: Called when the handshake is over, to check the certificate. `connection_made` of
            the link follows, unless the layer was closed.
        on_failed: Called if the handshake fails, with the reason and whether the peer uses TLS at
            all.
        turns: Schedules handshakes of accepted sockets. None: we dialed.
    """

    def __init__(
        self,
        context: ssl.SSLContext,
        link: Link,
        on_shaken: Callable[[TlsLayer], None],
        on_failed: Callable[[str, bool], None],
        turns: HandshakeTurns | None = None,
    ) -> None:
        super().__init__()
        self.link = link
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=turns is not None)
        self._on_shaken = on_shaken
        self._on_failed = on_failed
        self._turns = turns
        self._raw: asyncio.Transport | None = None
        self._first = b""  # of the peer
        self._is_waiting = False  # a handshake step is queued
        self._has_begun = False  # a step of the handshake was done
        self._is_shaken = False
        self._is_made = False  # `connection_made` of the link was called
        self._is_over = False  # nothing more is read or written
        self._loop = link.loop

    @property
    def certificate(self) -> dict[str, Any] | None:
        """The peer's verified certificate; None: it has none."""
        return cast("dict[str, Any] | None", self._tls.getpeercert())

    # --- the protocol of the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is open."""
        self._raw = cast(asyncio.Transport, transport)
        if self._turns is None:
            self._shake()

    def data_received(self, data: bytes) -> None:
        """TLS records arrived, whole or partial."""
        if self._is_over:
            return
        self._first = self._first or data[:1]
        self._incoming.write(data)
        if self._is_shaken:
            self._pass_on()
        elif self._turns is None:
            self._shake()
        elif not self._is_waiting:
            self._is_waiting = True
            self._turns.enter(self._host, self._shake, has_begun=self._has_begun)

    def pause_writing(self) -> None:
        """The write buffer of the transport is full."""
        self.link.pause_writing()

    def resume_writing(self) -> None:
        """The write buffer of the transport is empty."""
        self.link.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is closed."""
        if not self._is_shaken and not self._is_over:
            self._is_over = True
            why = self._alert() or (str(exc) if exc else "it hung up in the handshake")
            self._on_failed(why, bool(self._first))
        self._is_waiting = False
        self._is_over = True
        # else we dialed, and the link is not in use yet
        if self._is_made or self._turns is not None:
            self.link.connection_lost(exc)

    # --- the transport of the link

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """Send."""
        if self._is_over or not data:
            return
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._tls.write(rest) :]
        except ssl.SSLError as error:
            self._break(error)
        else:
            self._flush()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview[Any]]) -> None:
        """Send several."""
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        """Send close_notify, and close when all is sent."""
        raw = self._raw
        if raw is None or raw.is_closing():
            return
        if self._is_shaken and not self._is_over:
            self._is_over = True
            with contextlib.suppress(ssl.SSLError):  # the peer has not sent its own, and need not
                self._tls.unwrap()
            self._flush()
        raw.close()

    def abort(self) -> None:
        """Close now."""
        self._is_over = True
        if self._raw is not None:
            self._raw.abort()

    def is_closing(self) -> bool:
        """Whether it is closed, or about to be."""
        return self._raw is None or self._raw.is_closing()

    def pause_reading(self) -> None:
        """Read nothing from the socket."""
        cast(asyncio.Transport, self._raw).pause_reading()

    def resume_reading(self) -> None:
        """Read on."""
        cast(asyncio.Transport, self._raw).resume_reading()

    def get_write_buffer_size(self) -> int:
        """Bytes that the system has not taken."""
        return cast(asyncio.Transport, self._raw).get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set when `resume_writing` is called."""
        cast(asyncio.Transport, self._raw).set_write_buffer_limits(high, low)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Information about the socket."""
        return self._tls if name == "ssl_object" else self._raw_info(name, default)

    # --- helpers

    @property
    def _host(self) -> str:
        """The address of the peer."""
        name = self._raw_info("peername", None)
        return str(name[0]) if name else ""

    def _raw_info(self, name: str, default: Any) -> Any:
        return default if self._raw is None else self._raw.get_extra_info(name, default)

    def _shake(self) -> None:
        """One step of the handshake."""
        self._is_waiting = False
        if self._is_over or self._is_shaken:
            return
        self._has_begun = True
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return
        except ssl.SSLError as error:
            self._refuse(error)
            return
        self._is_shaken = True
        self._flush()
        self._on_shaken(self)
        if self._is_over or self.is_closing():
            return
        self._is_made = True
        self.link.connection_made(self)
        self._pass_on()  # data may follow in the same record batch

    def _refuse(self, error: ssl.SSLError) -> None:
        """Send an alert and let the peer close: unread data of the peer would reset the connection
        before it reads the alert."""
        self._is_over = True
        raw = cast(asyncio.Transport, self._raw)
        speaks_tls = self._first in RECORDS
        is_ours = not self._is_alert(error)
        self._flush()
        if raw.can_write_eof() and not raw.is_closing():
            raw.write_eof()
        self._loop.call_later(HANG_UP_MS_MAX / 1000, raw.abort)
        self._on_failed(describe_tls_error(error, is_ours=is_ours), speaks_tls)

    def _alert(self) -> str:
        """The peer's alert, if it is in the queued bytes; else empty."""
        if self._is_waiting and self._has_begun:
            try:
                self._tls.do_handshake()
            except ssl.SSLError as error:
                if self._is_alert(error):
                    return describe_tls_error(error, is_ours=False)
        return ""

    def _break(self, error: ssl.SSLError) -> None:
        """An error on an open link. In TLS 1.3 a dialer learns here that its certificate was
        refused."""
        self._flush()
        self.link.abort(describe_tls_error(error, is_ours=not self._is_alert(error)))

    def _is_alert(self, error: ssl.SSLError) -> bool:
        return not isinstance(error, ssl.SSLCertVerificationError) and "ALERT" in (
            error.reason or ""
        )

    def _pass_on(self) -> None:
        """Pass decrypted data to the link, as one piece."""
        chunks: list[bytes] = []
        is_end = False
        try:
            while chunk := self._tls.read(READ_BYTES):
                chunks.append(chunk)
            is_end = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            is_end = True
        except ssl.SSLError as error:
            self._break(error)
            return
        if self._outgoing.pending:
            self._flush()
        if chunks:
            self.link.data_received(chunks[0] if len(chunks) == 1 else b"".join(chunks))
        if is_end:
            self.close()

    def _flush(self) -> None:
        raw = self._raw
        if self._outgoing.pending and raw is not None and not raw.is_closing():
            raw.write(self._outgoing.read())

"""One TCP connection with a `wire.Connection` on it.

An asyncio protocol: no task and no future per message. The messages of one read are delivered as
one list; messages sent in one turn of the loop are one write. Buffers are bounded: a link whose
peer does not read is aborted with a reason, and so is one without a hello in time.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, cast

from rollq.base.errors import ErrorCode, LocalError, RollqError
from rollq.base.ids import NIL_ID, MessageId
from rollq.base.limits import (
    HALF_OPEN_MAX,
    HELLO_MS_MAX,
    KEEPALIVE_IDLE_S,
    KEEPALIVE_TRIES,
    LINK_OUTBOX_BYTES_MAX,
    LINK_UNACKED_MS_MAX,
    LINKS_MAX,
    PARTIAL_FRAMES_BYTES_MAX,
)
from rollq.base.repeats import Repeats
from rollq.net.addresses import is_loopback
from rollq.net.counted import LINKS
from rollq.net.half_open import HalfOpen
from rollq.net.packing import PACKING, Compress, Pace, prepare
from rollq.net.partial_frames import PartialFrames
from rollq.security.identity import CertificateIdentity
from rollq.wire.checks import request_id_of
from rollq.wire.compact import Message
from rollq.wire.connection import Connection
from rollq.wire.handshake import BEFORE_HELLO, Side, Stage

log = logging.getLogger("rollq.net")

CUT_OFF: Final = Repeats()  # of all links of this process
# The start of a TLS handshake record. A frame that begins so is longer than a first frame may be;
# one that begins with the first two of these bytes need not be.
TLS_RECORD: Final = b"\x16\x03"
TLS_MINORS: Final = (1, 2, 3, 4)
TLS_HEAD_BYTES: Final = 3
HTTP_VERBS: Final = (b"GET /", b"HEAD /", b"POST /", b"PUT /", b"OPTIONS ")
HTTP_IS_ELSEWHERE: Final = "it speaks HTTP: pages, API and metrics are on the port of --http"
TLS_IS_OFF: Final = (
    "it speaks TLS, which is off here; start this process with --credentials and --tls allow, or "
    "the other without ca.pem"
)
CLOSE_WAIT_S: Final = 1.0  # time for a peer to read the last bytes before the loop ends


@dataclass(slots=True, frozen=True)
class LinkLimits:
    """Timeouts and buffer bounds after which a link is closed."""

    hello_ms_max: int = HELLO_MS_MAX
    outbox_bytes_max: int = LINK_OUTBOX_BYTES_MAX
    links_max: int = LINKS_MAX
    partial_bytes_max: int = PARTIAL_FRAMES_BYTES_MAX
    unacked_ms_max: int = LINK_UNACKED_MS_MAX
    half_open_max: int = HALF_OPEN_MAX


DEFAULT_LIMITS = LinkLimits()


class Link(asyncio.Protocol):
    """Messages over one socket.

    Args:
        connection: Frames, handshake and dialect of this link.
        on_messages: Called with the messages that one read completed; never with an empty list.
        on_closed: Called exactly once, with the reason why the link closed.
        limits: When the link of a slow or silent peer is closed.
        partial_frames: The incomplete frames of all links of a listener.
        half_open: The links of a listener without a hello.
    """

    def __init__(
        self,
        connection: Connection,
        on_messages: Callable[[Link, list[Message]], None],
        on_closed: Callable[[Link, str], None],
        limits: LinkLimits = DEFAULT_LIMITS,
        *,
        partial_frames: PartialFrames | None = None,
        half_open: HalfOpen | None = None,
    ) -> None:
        self.connection = connection
        self._partial_frames = partial_frames
        self._has_partial = False
        self._has_skipped = False  # whether skipped frames were logged
        self.address = ""
        self._pace: Pace | None = None  # of a link to another host, if compression depends on it
        self.certificate: CertificateIdentity | None = None  # of the peer, checked
        self._on_messages = on_messages
        self._on_closed = on_closed
        self._half_open = half_open
        self._host = ""  # the address as counted in `half_open`
        self._limits = limits
        self._outbox: list[Message] = []
        # Encoded before what is in `_outbox`, and not written: frames that go to many links.
        self._encoded: list[bytes] = []
        self._encoded_bytes = 0
        self._on_drained: Callable[[Link], None] | None = None
        self._on_unsent: Callable[[MessageId, Exception], None] | None = None
        self._flush_due = False
        self._on_written: Callable[[int], None] | None = None
        self._unwritten_bytes = 0  # passed to `write`, and not known to be with the system
        self.loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        # Resolved when the socket is closed; created by waiters.
        self._gone: asyncio.Future[None] | None = None
        self._arrived_s = 0.0  # when the socket was opened: the start of the hello timeout
        self._hello_timer: asyncio.TimerHandle | None = None
        self._reason = ""
        self._was_heard = False  # at least one message was decoded
        self._first_bytes = b""  # to recognise a peer with another protocol

    @property
    def is_open(self) -> bool:
        """Whether messages can still be sent."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def waiting_bytes(self) -> int:
        """Bytes of messages sent in earlier turns of the loop, or of posted frames, that are not
        written yet."""
        if self._transport is None:
            return 0
        return self._transport.get_write_buffer_size() + self._encoded_bytes

    def send(self, message: Message) -> None:
        """Queue a message; it is written with all others of this turn of the loop."""
        self.send_all((message,))

    def send_all(self, messages: Iterable[Message]) -> None:
        """Queue several messages, as `send`."""
        self.post_all(messages)
        if not self._flush_due:
            self._flush_due = True
            self.loop.call_soon(self.flush)

    def post_all(self, messages: Iterable[Message]) -> None:
        """Queue messages; the caller must `flush`."""
        if self._transport is not None:
            self._outbox += messages

    def post_frames(self, data: bytes) -> None:
        """Queue encoded frames behind queued messages; the caller must `flush`."""
        if self._transport is None:
            return
        if self._outbox:
            self._encode_outbox()
        self._encoded.append(data)
        self._encoded_bytes += len(data)

    def write_now(self, data: bytes) -> None:
        """Write encoded frames behind queued messages."""
        if self._outbox or self._encoded:
            self.flush()
        transport = self._transport
        if transport is not None and not transport.is_closing():
            transport.write(data)
            LINKS.writes += 1
            LINKS.written_bytes += len(data)

    def flush(self) -> None:
        """Write all queued messages."""
        self._flush_due = False
        if self._outbox:
            self._encode_outbox()
        encoded = self._encoded
        if not encoded:
            return
        self._encoded, self._encoded_bytes = [], 0
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        data = encoded[0] if len(encoded) == 1 else b"".join(encoded)
        if self._pace is not None:
            # Before `pause_writing`, which counts it too.
            self._pace.wrote(self.loop.time(), len(data), self.waiting_bytes)
        transport.write(data)
        LINKS.writes += 1
        LINKS.written_bytes += len(data)
        if transport.get_write_buffer_size() > self._limits.outbox_bytes_max:
            bytes_max = self._limits.outbox_bytes_max
            self.abort(f"the peer does not read: more than {bytes_max} bytes are unsent")

    def _encode_outbox(self) -> None:
        outbox, self._outbox = self._outbox, []
        if not self.is_open or self.connection.state is Stage.CLOSED:
            return  # the peer closed the connection meanwhile
        packs = self._packs()
        saved_bytes = self.connection.saved_bytes
        try:
            data = self.connection.send_all(outbox, packs=packs)
        except RollqError as error:  # a message would be lost: reconnect
            self.abort(str(error))
            return
        for message, why in self.connection.take_unsendable():
            self._not_sent(message, why)
        if packs:
            LINKS.saved_bytes += self.connection.saved_bytes - saved_bytes
        self._encoded.append(data)
        self._encoded_bytes += len(data)

    def _not_sent(self, message: Message, error: Exception) -> None:
        """A message cannot be encoded. The user of the link fails a request, which would be sent
        again after every reconnect; anything else is a bug of ours, and closes this connection."""
        request_id = request_id_of(message)
        if self._on_unsent is not None and request_id != NIL_ID:
            self.loop.call_soon(self._on_unsent, request_id, error)
            return
        log.error("%s: cannot send", self.address, exc_info=error)
        self.abort(f"what was to be sent cannot be encoded: {error!r}")

    def close(self, reason: str) -> None:
        """Flush, then close."""
        if self.is_open:
            self.flush()
            self._reason = self._reason or reason
            cast(asyncio.Transport, self._transport).close()

    async def close_within(self, reason: str, wait_s: float = CLOSE_WAIT_S) -> None:
        """Flush, then close. Bytes that the peer has not read in time are dropped, so that no
        socket is left when the loop ends."""
        self.close(reason)
        if self._transport is not None:
            self._gone = self.loop.create_future()
            await asyncio.wait((self._gone,), timeout=wait_s)
            self.abort(reason)
            await self._gone

    def hang_up(self, reason: str) -> None:
        """Close a link whose peer may not read: queued messages are sent if the socket is
        writable."""
        if self.waiting_bytes:
            self.abort(reason)
        else:
            self._warn(reason)
            self.close(reason)

    @property
    def is_refused(self) -> bool:
        """Whether it was aborted before there was a socket, or closed since."""
        return bool(self._reason)

    def abort(self, reason: str) -> None:
        """Close without flushing, now or as soon as there is a socket."""
        if not self._reason:
            self._reason = reason
            self._warn(reason)
        if self._transport is not None:
            self._transport.abort()

    def refuse(self, error: RollqError) -> None:
        """Close a link whose peer is not permitted, with the reason if it understands it."""
        self.connection.break_off(error)
        self._maybe_hang_up()

    def notify_written(self, on_written: Callable[[int], None]) -> None:
        """Call `on_written` with the sizes of writes of `write`, once the system has taken them."""
        self._on_written = on_written
        cast(asyncio.Transport, self._transport).set_write_buffer_limits(0)

    def notify_unsent(self, on_unsent: Callable[[MessageId, Exception], None]) -> None:
        """Call `on_unsent` with the ids of requests that cannot be encoded, and why."""
        self._on_unsent = on_unsent

    def notify_drained(self, on_drained: Callable[[Link], None]) -> None:
        """Call `on_drained` once, when almost all bytes that wait now are taken by the system."""
        self._on_drained = on_drained

    def write(self, data: bytes) -> None:
        """Write encoded frames."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        self.flush()
        transport.write(data)
        LINKS.writes += 1
        LINKS.written_bytes += len(data)
        self._unwritten_bytes += len(data)
        if not transport.get_write_buffer_size():
            self.resume_writing()

    def pause(self) -> None:
        """Stop reading: back-pressure to the peer."""
        if self.is_open:
            cast(asyncio.Transport, self._transport).pause_reading()

    def resume(self) -> None:
        """Read again."""
        if self.is_open:
            cast(asyncio.Transport, self._transport).resume_reading()

    def hand_to(
        self,
        on_messages: Callable[[Link, list[Message]], None],
        on_closed: Callable[[Link, str], None],
    ) -> None:
        """Replace the handlers of messages and of the end."""
        self._on_messages = on_messages
        self._on_closed = on_closed

    def hand_over(self, messages: list[Message]) -> None:
        """Pass messages to their handler: those of a read, or delayed ones. A failing handler
        closes only this connection."""
        try:
            self._on_messages(self, messages)
        except Exception as error:
            names = ", ".join(dict.fromkeys(type(message).__name__ for message in messages))
            log.error("%s: cannot handle %s", self.address, names, exc_info=error)
            self.connection.break_off(
                LocalError(ErrorCode.BUG, f"cannot handle {names}: {error!r}", "report the log")
            )
            self._maybe_hang_up()

    # --- asyncio's side

    def pause_writing(self) -> None:
        """The write buffer of the transport is full."""
        if self._pace is not None:
            self._pace.began(self.loop.time(), self.waiting_bytes)

    def resume_writing(self) -> None:
        """The write buffer of the transport is empty, or almost."""
        if self._pace is not None:
            self._pace.ended(self.loop.time(), self.waiting_bytes)
        if self._on_drained is not None:
            on_drained, self._on_drained = self._on_drained, None
            on_drained(self)
        size_bytes, self._unwritten_bytes = self._unwritten_bytes, 0
        if size_bytes and self._on_written is not None:
            self._on_written(size_bytes)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is open."""
        self._transport = cast(asyncio.Transport, transport)
        self.arrive(transport)
        sock = transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in (
                ("TCP_KEEPIDLE", KEEPALIVE_IDLE_S),
                ("TCP_KEEPINTVL", KEEPALIVE_IDLE_S // KEEPALIVE_TRIES),
                ("TCP_KEEPCNT", KEEPALIVE_TRIES),
                ("TCP_USER_TIMEOUT", self._limits.unacked_ms_max),
            ):
                if hasattr(socket, option):  # not available on every system
                    sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
            if self._pace is not None:
                prepare(sock)
        if self._reason:
            self._transport.abort()
        elif self.connection.side is Side.ACCEPTER:
            self._hello_timer = self.loop.call_at(
                self._arrived_s + self._limits.hello_ms_max / 1000, self._hello_overdue
            )

    def arrive(self, transport: asyncio.BaseTransport) -> None:
        """A socket was accepted, perhaps before `connection_made`: count it by its address."""
        if self.address:
            return
        self._arrived_s = self.loop.time()
        name = transport.get_extra_info("peername")
        host = str(name[0]) if isinstance(name, tuple) else str(name)
        self.address = f"{host}:{name[1]}" if isinstance(name, tuple) else host
        if PACKING.mode is Compress.AUTO and not is_loopback(host):
            self._pace = Pace()
        if self._half_open is not None:
            self._host = host
            excess = self._half_open.enter(self._host)
            if excess:
                self.abort(excess)

    def data_received(self, data: bytes) -> None:
        """Bytes arrived."""
        connection = self.connection
        LINKS.reads += 1
        LINKS.read_bytes += len(data)
        if not self._was_heard and not self._first_bytes:
            self._first_bytes = data[:64]
        messages = connection.receive_data(data)
        refusals = connection.take_refusals()
        if refusals:
            log.info("%s: refused: %s", self.address, refusals[0])
            self.send_all(refusals)
        if messages:
            self._was_heard = True
            if self._hello_timer is not None and connection.state not in BEFORE_HELLO:
                self._hello_timer.cancel()
                self._hello_timer = None
                self._leave_half_open()
            self.hand_over(messages)
        if connection.skipped_count and not self._has_skipped:
            self._has_skipped = True
            log.warning("%s sends frames of an unknown type: ignored", self.address)
        self._maybe_hang_up()
        partial_bytes = connection.partial_bytes
        if (partial_bytes or self._has_partial) and self._partial_frames is not None:
            self._has_partial = partial_bytes > 0
            self._partial_frames.note(self, partial_bytes, has_begun_anew=bool(messages))

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is closed."""
        if self._hello_timer is not None:
            self._hello_timer.cancel()
        self._transport = None
        if self._gone is not None and not self._gone.done():
            self._gone.set_result(None)
        self._outbox.clear()
        self._encoded.clear()
        self._leave_half_open()
        if self._partial_frames is not None:
            self._partial_frames.forget(self)
        self._on_closed(self, self._reason or (str(exc) if exc else "the peer hung up"))

    # --- helpers

    def _packs(self) -> bool:
        """Whether to compress writes now, if the peer supports it."""
        if self._pace is not None:
            return self._pace.is_slow(self.loop.time())
        return PACKING.mode is Compress.ALWAYS

    def _leave_half_open(self) -> None:
        if self._half_open is not None and self._host:
            self._half_open.leave(self._host)
            self._half_open = None

    def _maybe_hang_up(self) -> None:
        """Close a connection after an error, which is sent to the peer."""
        error, transport = self.connection.error, self._transport
        if error is not None and transport is not None and not transport.is_closing():
            self.flush()
            transport.write(self.connection.farewell())
            self._reason = self._foreign_protocol() or str(error)
            self._warn(self._reason)
            transport.close()

    def _foreign_protocol(self) -> str:
        """A description of a peer with another protocol; else empty."""
        if self._was_heard or not self._first_bytes:
            return ""
        if self.connection.side is Side.ACCEPTER:
            if self._first_bytes.startswith(HTTP_VERBS):
                return HTTP_IS_ELSEWHERE
            return TLS_IS_OFF if is_tls(self._first_bytes) else ""
        text = self._first_bytes[:40].decode("latin-1")
        return f"no rollq member at {self.address}: it answered {text!a}"

    def _warn(self, reason: str) -> None:
        """Log a peer that reconnects repeatedly once, then only count it, by its address without
        the port."""
        LINKS.cut_off += 1
        address = self.address or "a connection"
        is_dialer = self.connection.side is Side.ACCEPTER
        kind = f"{address.rpartition(':')[0] if is_dialer else address} {reason}"
        line = CUT_OFF.line(kind, f"{address} is cut off: {reason}", int(self.loop.time() * 1000))
        if line:  # dialed links are reported by their user
            log.log(logging.WARNING if is_dialer else logging.INFO, "%s", line)

    def _hello_overdue(self) -> None:
        if self.connection.state in BEFORE_HELLO:
            self.abort(f"no hello within {self._limits.hello_ms_max} ms")


def is_tls(head: bytes) -> bool:
    """Whether the first bytes of a connection are those of TLS."""
    is_record = len(head) >= TLS_HEAD_BYTES and head.startswith(TLS_RECORD)
    return is_record and head[TLS_HEAD_BYTES - 1] in TLS_MINORS

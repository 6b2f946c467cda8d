"""The sending half of a link: schedules the transfers. Pure.

All transfers of a link share one window, which bounds the bytes in flight and read ahead. They are
served round robin.
"""

from __future__ import annotations

from collections.abc import Iterator

from rollq.base.digests import Digest
from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.limits import (
    BLOB_CHUNK_BYTES,
    BLOB_READ_BYTES,
    BLOB_STALL_TICKS_MAX,
    BLOB_WINDOW_BYTES,
)
from rollq.roles.blobs.orders import Read


class OutgoingTransfer:
    """One outgoing blob. `ready` is how much of it can be read: less than `size` while it is itself
    being received."""

    __slots__ = (
        "acked",
        "digest",
        "idle_ticks",
        "number",
        "reading",
        "ready",
        "requested",
        "sent",
        "size",
    )

    def __init__(
        self, number: int, digest: Digest, size: int, offset: int, ready: int | None = None
    ) -> None:
        self.number = number
        self.digest = digest
        self.size = size
        self.ready = size if ready is None else ready
        self.acked = offset  # written by the receiver
        self.sent = offset
        self.requested = offset  # read, or being read
        self.reading = False
        self.idle_ticks = 0


class Sending:
    """All outgoing blobs of one link.

    Attributes:
        ahead_bytes: Bytes read or being read, and not acknowledged; at most the window.
    """

    def __init__(self) -> None:
        self._queue: dict[Digest, OutgoingTransfer] = {}  # in round-robin order, the next one first
        self.ahead_bytes = 0

    def __len__(self) -> int:
        return len(self._queue)

    def get(self, digest: Digest) -> OutgoingTransfer | None:
        """The transfer of this blob; None if there is none."""
        return self._queue.get(digest)

    def add(self, departure: OutgoingTransfer) -> None:
        """Start a transfer."""
        self._queue[departure.digest] = departure

    def remove(self, digest: Digest) -> None:
        """End a transfer."""
        departure = self._queue.pop(digest)
        self.ahead_bytes -= departure.requested - departure.acked

    def acknowledge(self, departure: OutgoingTransfer, offset: int) -> bool:
        """The receiver has written all before `offset`; returns whether that is the whole blob.

        Raises:
            RemoteError: BAD_PAYLOAD, if the offset is impossible.
        """
        if not departure.acked <= offset <= departure.sent:
            raise RemoteError(
                ErrorCode.BAD_PAYLOAD,
                f"BlobMore: {offset} is not between {departure.acked} and {departure.sent}",
            )
        if offset > departure.acked:
            self.ahead_bytes -= offset - departure.acked
            departure.acked = offset
            departure.idle_ticks = 0
        return offset == departure.size

    def has_sent(self, departure: OutgoingTransfer, length: int) -> None:
        """The pending read is done and sent."""
        departure.reading = False
        departure.sent += length

    def reads(self) -> Iterator[Read]:
        """The next reads: one for each transfer that can proceed, until the window is full."""
        for departure in list(self._queue.values()):
            rest = departure.ready - departure.requested
            if departure.reading or rest <= 0:
                continue
            if rest < BLOB_CHUNK_BYTES and departure.ready < departure.size:
                continue  # wait for a full chunk
            length = min(rest, BLOB_WINDOW_BYTES - self.ahead_bytes, BLOB_READ_BYTES)
            if length < min(rest, BLOB_CHUNK_BYTES):
                return  # a fragment costs as much as a chunk; the transfers behind it wait as well
            offset = departure.requested
            departure.reading = True
            departure.requested += length
            self.ahead_bytes += length
            self._queue[departure.digest] = self._queue.pop(departure.digest)
            yield Read(departure.number, departure.digest, offset, length)

    def tick(self) -> bool:
        """Called each second; whether a receiver has made no progress for too long."""
        stalled = False
        for departure in self._queue.values():
            if not departure.reading and departure.sent > departure.acked:
                departure.idle_ticks += 1
                stalled = stalled or departure.idle_ticks > BLOB_STALL_TICKS_MAX
        return stalled

"""The sending half of a link: who may send how much next. Pure.

All transfers of a link share one window, so that what is on its way or read ahead is bounded
whatever their number. They take turns: the one that was served goes to the end of the queue.
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


class Departure:
    """One blob on its way out. `ready` is how much of it can be read: less than all if it is still
    coming in here."""

    __slots__ = (
        "acked",
        "asked",
        "digest",
        "idle_ticks",
        "number",
        "reading",
        "ready",
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
        self.acked = offset  # the receiver has written so much
        self.sent = offset
        self.asked = offset  # read, or being read
        self.reading = False
        self.idle_ticks = 0


class Sending:
    """All blobs that leave on one link.

    Attributes:
        ahead_bytes: What of them all is read or being read, and not acknowledged.
    """

    def __init__(self) -> None:
        self._row: dict[Digest, Departure] = {}  # the first is the next to be served
        self.ahead_bytes = 0

    def __len__(self) -> int:
        return len(self._row)

    def get(self, digest: Digest) -> Departure | None:
        """The transfer of this blob, if there is one."""
        return self._row.get(digest)

    def add(self, departure: Departure) -> None:
        """Begin to send."""
        self._row[departure.digest] = departure

    def remove(self, digest: Digest) -> None:
        """It has ended, or is given up."""
        departure = self._row.pop(digest)
        self.ahead_bytes -= departure.asked - departure.acked

    def acknowledge(self, departure: Departure, offset: int) -> bool:
        """The receiver has written all before `offset`; returns whether that is the whole.

        Raises:
            RemoteError: BAD_PAYLOAD, if that cannot be.
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

    def has_sent(self, departure: Departure, length: int) -> None:
        """What was asked for last is read and sent."""
        departure.reading = False
        departure.sent += length

    def reads(self) -> Iterator[Read]:
        """What to read next: a bite for each that may go on, in turn, until the window is full."""
        for departure in list(self._row.values()):
            rest = departure.ready - departure.asked
            if departure.reading or rest <= 0:
                continue
            if rest < BLOB_CHUNK_BYTES and departure.ready < departure.size:
                continue  # there will be more
            length = min(rest, BLOB_WINDOW_BYTES - self.ahead_bytes, BLOB_READ_BYTES)
            if length < min(rest, BLOB_CHUNK_BYTES):
                return  # crumbs cost as much as chunks; all others have to wait as well
            offset = departure.asked
            departure.reading = True
            departure.asked += length
            self.ahead_bytes += length
            self._row[departure.digest] = self._row.pop(departure.digest)
            yield Read(departure.number, departure.digest, offset, length)

    def tick(self) -> bool:
        """A while has passed; returns whether a receiver has not written anything for too long."""
        stalled = False
        for departure in self._row.values():
            if not departure.reading and departure.sent > departure.acked:
                departure.idle_ticks += 1
                stalled = stalled or departure.idle_ticks > BLOB_STALL_TICKS_MAX
        return stalled

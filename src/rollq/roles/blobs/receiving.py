"""The receiving half of a transfer: what came, what of it is written, what the sender is told.
Pure.

What came and is not written is held, and is never more than the window: a peer that sends more
breaks the rules.
"""

from __future__ import annotations

from rollq.base.digests import Digest
from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.limits import (
    BLOB_CHUNK_BYTES_MAX,
    BLOB_CHUNKS_HELD_MAX,
    BLOB_SLOW_BYTES,
    BLOB_SLOW_TICKS_MAX,
    BLOB_STALL_TICKS_MAX,
    BLOB_WINDOW_BYTES,
    BLOB_WRITE_BYTES,
)
from rollq.roles.blobs.orders import Write
from rollq.wire.blob_messages import BlobChunk, BlobMore


class Arrival:
    """One blob that comes in. `is_begun` from when it is known where it goes on."""

    __slots__ = (
        "_chunks",
        "_idle_ticks",
        "_received_before",
        "_slow_ticks",
        "_told",
        "_writing_bytes",
        "digest",
        "is_begun",
        "number",
        "received",
        "size",
        "written",
    )

    def __init__(self, number: int, digest: Digest, size: int) -> None:
        self.number = number
        self.digest = digest
        self.size = size
        self.is_begun = False
        self.received = 0
        self.written = 0
        self._told = 0
        self._chunks: list[BlobChunk] = []
        self._writing_bytes = 0
        self._idle_ticks = 0
        self._slow_ticks = 0
        self._received_before = 0  # a tick ago

    @property
    def is_slow(self) -> bool:
        """Whether the sender has brought next to nothing for a while."""
        return self._slow_ticks >= BLOB_SLOW_TICKS_MAX

    @property
    def is_whole(self) -> bool:
        """Whether everything is written."""
        return self.is_begun and self.written == self.size

    @property
    def held_bytes(self) -> int:
        """What came and is not written."""
        return self.received - self.written

    def begin(self, offset: int) -> None:
        """So much is there from an earlier time."""
        self.is_begun = True
        self.received = self.written = self._told = offset

    def take(self, chunk: BlobChunk) -> None:
        """Bytes came.

        Raises:
            RemoteError: BAD_PAYLOAD, if they are not what may come next.
        """
        length = chunk.packed or len(chunk.data)
        if not self.is_begun or chunk.offset != self.received:
            raise _refused(chunk, f"the next one begins at {self.received}")
        if not 0 < length <= BLOB_CHUNK_BYTES_MAX or len(chunk.data) > length:
            raise _refused(chunk, f"it has {length} bytes; 1 to {BLOB_CHUNK_BYTES_MAX} may be")
        if self.received + length > self.size:
            raise _refused(chunk, f"the blob has {self.size} bytes")
        if self.received + length > self._told + BLOB_WINDOW_BYTES:
            raise _refused(chunk, f"only {self._told} bytes are written, the window is full")
        if len(self._chunks) >= BLOB_CHUNKS_HELD_MAX:
            raise _refused(chunk, f"{BLOB_CHUNKS_HELD_MAX} wait to be written; send larger ones")
        self.received += length
        self._idle_ticks = 0
        self._chunks.append(chunk)

    def next_write(self) -> Write | None:
        """What came meanwhile, up to a bound, once what came before is written."""
        if self._writing_bytes or not self._chunks:
            return None
        count = 0
        for chunk in self._chunks:
            if self._writing_bytes >= BLOB_WRITE_BYTES:
                break
            self._writing_bytes += chunk.packed or len(chunk.data)
            count += 1
        chunks, self._chunks = tuple(self._chunks[:count]), self._chunks[count:]
        return Write(self.number, chunks)

    def has_written(self) -> BlobMore | None:
        """What `next_write` asked for is done; what the sender must be told, if it is time."""
        self.written += self._writing_bytes
        self._writing_bytes = 0
        if self.written == self.size or self.written - self._told >= BLOB_WINDOW_BYTES // 8:
            return self.more()
        return None

    def more(self) -> BlobMore:
        """How far we are."""
        self._told = self.written
        return BlobMore(self.digest, self.written)

    def tick(self) -> bool:
        """A while has passed; returns whether the sender has been silent for too long."""
        if self.is_begun and not self.held_bytes and self.received < self.size:
            self._idle_ticks += 1
            is_slow = self.received - self._received_before < BLOB_SLOW_BYTES
            self._slow_ticks = self._slow_ticks + 1 if is_slow else 0
        else:
            self._slow_ticks = 0
        self._received_before = self.received
        return self._idle_ticks > BLOB_STALL_TICKS_MAX


def _refused(chunk: BlobChunk, reason: str) -> RemoteError:
    return RemoteError(ErrorCode.BAD_PAYLOAD, f"BlobChunk at {chunk.offset}: {reason}")

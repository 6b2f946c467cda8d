"""The receiving half of a transfer: chunks received, chunks written, and acknowledgements. Pure.

Received chunks that are not written yet are held in memory, at most one window of them: a peer that
sends more violates the protocol.
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


class IncomingTransfer:
    """One incoming blob. `is_begun` is set once the start offset is known."""

    __slots__ = (
        "_acknowledged",
        "_chunks",
        "_idle_ticks",
        "_received_before",
        "_slow_ticks",
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
        self._acknowledged = 0
        self._chunks: list[BlobChunk] = []
        self._writing_bytes = 0
        self._idle_ticks = 0
        self._slow_ticks = 0
        self._received_before = 0  # at the last tick

    @property
    def is_slow(self) -> bool:
        """Whether the sender has been almost silent for several ticks."""
        return self._slow_ticks >= BLOB_SLOW_TICKS_MAX

    @property
    def is_whole(self) -> bool:
        """Whether all bytes are written."""
        return self.is_begun and self.written == self.size

    @property
    def held_bytes(self) -> int:
        """Bytes received and not written."""
        return self.received - self.written

    def begin(self, offset: int) -> None:
        """Start at this offset: the bytes before it are stored already."""
        self.is_begun = True
        self.received = self.written = self._acknowledged = offset

    def take(self, chunk: BlobChunk) -> None:
        """Accept a chunk.

        Raises:
            RemoteError: BAD_PAYLOAD, if it is not a valid next chunk.
        """
        length = chunk.packed or len(chunk.data)
        if not self.is_begun or chunk.offset != self.received:
            raise _refused(chunk, f"the next one begins at {self.received}")
        if not 0 < length <= BLOB_CHUNK_BYTES_MAX or len(chunk.data) > length:
            raise _refused(chunk, f"it has {length} bytes; 1 to {BLOB_CHUNK_BYTES_MAX} may be")
        if self.received + length > self.size:
            raise _refused(chunk, f"the blob has {self.size} bytes")
        if self.received + length > self._acknowledged + BLOB_WINDOW_BYTES:
            raise _refused(
                chunk, f"only {self._acknowledged} bytes are written, the window is full"
            )
        if len(self._chunks) >= BLOB_CHUNKS_HELD_MAX:
            raise _refused(chunk, f"{BLOB_CHUNKS_HELD_MAX} wait to be written; send larger ones")
        self.received += length
        self._idle_ticks = 0
        self._chunks.append(chunk)

    def next_write(self) -> Write | None:
        """The next write: held chunks, up to a limit; None while a write is pending."""
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
        """The pending write is done; returns an acknowledgement if one is due."""
        self.written += self._writing_bytes
        self._writing_bytes = 0
        if self.written == self.size or self.written - self._acknowledged >= BLOB_WINDOW_BYTES // 8:
            return self.more()
        return None

    def more(self) -> BlobMore:
        """An acknowledgement of what is written."""
        self._acknowledged = self.written
        return BlobMore(self.digest, self.written)

    def tick(self) -> bool:
        """Called each second; whether the sender has been silent for too long."""
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

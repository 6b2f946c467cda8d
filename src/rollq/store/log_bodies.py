"""Large bodies of one state, left in the log.

A token encodes segment, offset, length and checksum of a body. The segment is held (`body_files`)
while one of its bodies is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from zlib import crc32

from rollq.base.errors import DiskError, ErrorCode
from rollq.base.limits import (
    INLINE_BYTES_MAX,
    LARGE_BODY_BYTES_MIN,
    SEGMENT_BYTES,
    SPARSE_MOVED_BYTES_MAX,
    SPARSE_SHARE,
)
from rollq.store.body_files import BodyFiles
from rollq.store.snapshot_layout import LargeBody

SIZE_BITS: Final = INLINE_BYTES_MAX.bit_length()
OFFSET_BITS: Final = 40
SEGMENT_BITS: Final = 40
CRC_BITS: Final = 32
# Every token here is this or more; those of other bodies are less.
FIRST_TOKEN: Final = 1 << SIZE_BITS + OFFSET_BITS + SEGMENT_BITS + CRC_BITS
PROBE_BYTES: Final = 32  # prefix of a body that is searched before comparing all of it


@dataclass(slots=True, frozen=True)
class BodyLog:
    """The log as a store of bodies.

    Attributes:
        files: Its segments.
        data_of: The segment and offset of the data of an entry (`Wal.data_of`).
        bytes_min: Shorter bodies are not left there.
        segment_bytes: The size of a segment.
    """

    files: BodyFiles
    data_of: Callable[[int], tuple[int, int] | None]
    bytes_min: int = LARGE_BODY_BYTES_MIN
    segment_bytes: int = SEGMENT_BYTES


class LogBodies:
    """Used by one thread."""

    def __init__(self, log: BodyLog) -> None:
        self._log = log
        self._live: dict[int, dict[int, None]] = {}  # tokens, by segment
        self._index = 0  # index of the entry that is being applied
        self._data = b""  # its data
        self._searched = 0  # offset up to which bodies were found in it

    def segments(self) -> list[int]:
        """The segments with live bodies."""
        return list(self._live)

    def entering(self, index: int, data: bytes) -> None:
        """The bodies that are kept next came with this entry."""
        self._index, self._data, self._searched = index, data, 0

    def keep(self, body: bytes) -> int:
        """A token for a large body of the present entry; 0 if the log does not hold it verbatim."""
        found = self._log.data_of(self._index)
        if found is None:
            return 0
        at = _find(self._data, body, self._searched)
        if at < 0:
            return 0
        self._searched = at + len(body)
        segment, offset = found
        return self.adopt(LargeBody(len(body), crc32(body), segment, offset + at))

    def adopt(self, large: LargeBody) -> int:
        """A token for a body that is known to be in the log."""
        token = 1 << CRC_BITS | large.crc
        token = token << SEGMENT_BITS | large.segment
        token = token << OFFSET_BITS | large.offset
        token = token << SIZE_BITS | large.size
        if large.segment not in self._live:
            self._live[large.segment] = {}
            self._log.files.state.hold((large.segment,))
        self._live[large.segment][token] = None
        return token

    def load(self, token: int) -> bytes:
        """Load a body. Raises DiskError DISK_CORRUPT if it is corrupt."""
        return self.read(large_of(token))

    def read(self, large: LargeBody) -> bytes:
        """As `load`."""
        body = self._log.files.read(large.segment, large.offset, large.size)
        if len(body) != large.size or crc32(body) != large.crc:
            raise corrupt_body(f"segment {large.segment} of the log")
        return body

    def drop(self, token: int) -> None:
        """Delete a body; releases its segment with the last one."""
        segment = large_of(token).segment
        del self._live[segment][token]
        if not self._live[segment]:
            del self._live[segment]
            self._log.files.state.release((segment,))

    def sparse(self) -> list[int]:
        """Tokens of bodies in segments that are held for very few of them; a bounded number."""
        found: list[int] = []
        left_bytes = SPARSE_MOVED_BYTES_MAX
        for segment, tokens in self._live.items():
            if not self._log.files.is_given_up(segment):
                continue
            size = sum([token & (1 << SIZE_BITS) - 1 for token in tokens])
            if size <= min(self._log.segment_bytes // SPARSE_SHARE, left_bytes):
                left_bytes -= size
                found += tokens
        return found

    def close(self) -> None:
        """Drop all bodies."""
        self._log.files.state.release(self._live)
        self._live.clear()


def large_of(token: int) -> LargeBody:
    """The decoded token."""
    size = token & (1 << SIZE_BITS) - 1
    token >>= SIZE_BITS
    offset = token & (1 << OFFSET_BITS) - 1
    token >>= OFFSET_BITS
    segment = token & (1 << SEGMENT_BITS) - 1
    return LargeBody(size, token >> SEGMENT_BITS & (1 << CRC_BITS) - 1, segment, offset)


def _find(data: bytes, body: bytes, start: int) -> int:
    """The offset of the body in the data of its entry, at or after `start`; -1 if it is not found,
    or follows one with the same prefix."""
    head, probe = _bytes_head(len(body)), body[:PROBE_BYTES]
    at = data.find(head + probe, start)
    at = at + len(head) if at >= 0 else data.find(probe, start)
    return at if at >= 0 and data.startswith(body, at) else -1


def _bytes_head(size: int) -> bytes:
    """The msgpack prefix of a byte string."""
    if size < 1 << 8:
        return bytes((0xC4, size))
    if size < 1 << 16:
        return b"\xc5" + size.to_bytes(2, "big")
    return b"\xc6" + size.to_bytes(4, "big")


def corrupt_body(name: str) -> DiskError:
    """The error for a corrupt body of a waiting job."""
    return DiskError(
        ErrorCode.DISK_CORRUPT,
        f"the body of a waiting job in {name} does not match its checksum",
        "start the member again: it reads the job anew from its log, from an older snapshot or "
        "from another member; if this happens again, check the disk",
    )

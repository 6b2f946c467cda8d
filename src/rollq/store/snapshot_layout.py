"""The positions of large bodies in a snapshot, and of their bytes on disk. Pure.

What is sent to a peer, and what a digest is made of, is a *stream*: the snapshot as the grid writes
it, then a table with a row for each large body:

    offset in the stream 8 | size 4                          little-endian

Large bodies are not part of the digest; their checksums are, which follow each of them in the
stream (`rollq.base.sealed`), and so is the table. In a file of our own making the large bodies are
left out of the stream, and behind the table stands where each of them is:

    segment of the log 8 | offset in it 8 | crc 4 of the body

and at the very end a checksum of these places.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final
from zlib import crc32

import msgspec

from rollq.base.sealed import SEAL_BYTES

_ROW: Final = struct.Struct("<QI")
_PLACE: Final = struct.Struct("<QQI")
_CRC: Final = struct.Struct("<I")
ROW_BYTES: Final = _ROW.size


class LargeBody(msgspec.Struct, frozen=True, gc=False):
    """A body in the log that a snapshot refers to."""

    size: int
    crc: int
    segment: int
    offset: int


class BodySpan(msgspec.Struct, frozen=True, gc=False):
    """A range of a stream: a large body, or bytes between two of them."""

    begin: int
    end: int
    body: int  # which large body; -1: none


class SnapshotLayout:
    """Of one stream.

    Attributes:
        offsets: Of the large bodies in the stream, ascending.
        sizes: Of each.
        bodies: Where each is, if they are not in the file.
    """

    def __init__(
        self,
        size_bytes: int,
        offsets: Sequence[int] = (),
        sizes: Sequence[int] = (),
        bodies: Sequence[LargeBody] = (),
    ) -> None:
        self.size_bytes = size_bytes  # of the stream, its table included
        self.offsets = offsets
        self.sizes = sizes
        self.bodies = bodies
        # Bytes of large bodies that the file lacks, before each of them and after all.
        self._left_out = list(accumulate(sizes if bodies else [0] * len(sizes), initial=0))

    @property
    def file_bytes(self) -> int:
        """The length of the stream in the file, without the places after it."""
        return self.size_bytes - self._left_out[-1]

    @property
    def segments(self) -> set[int]:
        """Those of the log that are referred to."""
        return {body.segment for body in self.bodies}

    def file_offset(self, offset: int) -> int:
        """Where a byte of the stream, which is not of a body that was left out, is in the file."""
        return offset - self._left_out[bisect_right(self.offsets, offset)]

    def spans(self, begin: int = 0, end: int = -1) -> Iterator[BodySpan]:
        """The parts of [begin, end) of the stream, in order."""
        end = self.size_bytes if end < 0 else min(end, self.size_bytes)
        at = max(bisect_right(self.offsets, begin) - 1, 0)
        for number in range(at, len(self.offsets)):
            offset = self.offsets[number]
            stop = offset + self.sizes[number]
            if begin < min(offset, end):
                yield BodySpan(begin, min(offset, end), -1)
                begin = offset
            if begin < min(stop, end):
                yield BodySpan(begin, min(stop, end), number)
                begin = stop
            if begin >= end:
                return
        if begin < end:
            yield BodySpan(begin, end, -1)


def encode_table(offsets: Sequence[int], sizes: Sequence[int]) -> bytes:
    """The table at the end of a stream."""
    return b"".join(map(_ROW.pack, offsets, sizes))


def encode_places(bodies: Sequence[LargeBody]) -> bytes:
    """The places after the stream in a file that refers to the log."""
    data = b"".join([_PLACE.pack(body.segment, body.offset, body.crc) for body in bodies])
    return data + _CRC.pack(crc32(data))


def places_bytes(count: int) -> int:
    """The length of the places."""
    return _PLACE.size * count + _CRC.size


def decode_layout(
    size_bytes: int, table: bytes, places: bytes | None = None
) -> SnapshotLayout | None:
    """The layout of a stream of this size. The table is covered by its digest.

    Args:
        size_bytes: of the stream.
        table: its end.
        places: if the file refers to the log.

    Returns:
        None if it is damaged.
    """
    rows = list(_ROW.iter_unpack(table)) if len(table) % ROW_BYTES == 0 else []
    offsets, sizes = [row[0] for row in rows], [row[1] for row in rows]
    end = 0
    for offset, size in rows:
        if offset < end:
            return None
        end = offset + size + SEAL_BYTES
    if end > size_bytes - len(table):
        return None
    if places is None:
        return SnapshotLayout(size_bytes, offsets, sizes)
    data, crc = places[: -_CRC.size], places[-_CRC.size :]
    if len(places) != places_bytes(len(rows)) or _CRC.pack(crc32(data)) != crc:
        return None
    bodies = [
        LargeBody(size, body_crc, segment, offset)
        for size, (segment, offset, body_crc) in zip(sizes, _PLACE.iter_unpack(data), strict=True)
    ]
    return SnapshotLayout(size_bytes, offsets, sizes, bodies)

"""Cuts a sealed segment into pieces of whole log indexes, as bytes: nothing is decoded.

Lines are ordered by index, so an index is found by binary search.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rollq.history.lines_file import FOOTER_BYTES_MAX, LAST_ROW_BYTES_MAX, index_of
from rollq.history.segments import name_of
from rollq.store.disk import Disk

_NEAR_BYTES: Final = 4 * LAST_ROW_BYTES_MAX  # holds the end of one line and another whole one


class SegmentFile:
    """The lines of a verified segment."""

    def __init__(self, disk: Disk, first: int, last: int) -> None:
        self._disk = disk
        self._name = name_of(first, last)
        self._last = last
        self._end = self._footer_at()

    def pieces(self, first: int, last: int, piece_bytes: int) -> Iterator[tuple[int, int, bytes]]:
        """First index, last index and lines of pieces that follow each other without a gap, from
        `first` to `last` or to the end of the segment. A piece is no longer than `piece_bytes`
        unless one index is."""
        last = min(last, self._last)
        offset = self._offset_of(first)
        rest = b""
        while first <= last:
            room = max(piece_bytes - len(rest), piece_bytes // 2, 1)
            rest += self._disk.read(self._name, offset, min(room, self._end - offset))
            offset = min(offset + room, self._end)
            whole = rest.rfind(b"\n") + 1
            final = _line_before(rest, whole)
            if offset >= self._end or (final and final[1] > last):
                yield first, last, rest[: _end_of(rest, whole, last)]
                return
            begin = _begin_of(rest, final[1]) if final else 0
            if begin:
                assert final is not None
                yield first, final[1] - 1, rest[:begin]
                first, rest = final[1], rest[begin:]

    def _footer_at(self) -> int:
        size = self._disk.size(self._name)
        start = max(0, size - FOOTER_BYTES_MAX)
        tail = self._disk.read(self._name, start, size - start)
        return start + tail.rfind(b"\n", 0, -1) + 1

    def _offset_of(self, index: int) -> int:
        """Where the first line of this index or of a later one begins."""
        low, high = 0, self._end  # the line at `low` is before it, or is the first
        while high - low > _NEAR_BYTES:
            middle = (low + high) // 2
            begin, found = self._line_after(middle)
            if found is not None and found < index:
                low = begin
            else:
                high = middle
        # What is sought begins after `low`, and at the latest with the line after `high`.
        near = self._disk.read(self._name, low, min(high + _NEAR_BYTES, self._end) - low)
        at = 0
        while at < len(near) and index_of(near[at : at + 64]) < index:
            at = near.find(b"\n", at) + 1
        return low + at

    def _line_after(self, offset: int) -> tuple[int, int | None]:
        """Where the first line begins that begins after an offset, and its index; None: none."""
        near = self._disk.read(self._name, offset, min(_NEAR_BYTES, self._end - offset))
        begin = near.find(b"\n") + 1
        if not begin or begin >= len(near):
            return self._end, None
        return offset + begin, index_of(near[begin : begin + 64])


def _line_before(lines: bytes, end: int) -> tuple[int, int] | None:
    """Where the last line before `end` begins, and its index; None: there is no line."""
    if not end:
        return None
    begin = lines.rfind(b"\n", 0, end - 1) + 1
    return begin, index_of(lines[begin : begin + 64])


def _begin_of(lines: bytes, index: int) -> int:
    """The offset of the first line of an index; 0 also if there is none before it."""
    return 0 if _starts(lines, index) else lines.find(b'\n{"index":%d,' % index) + 1


def _starts(lines: bytes, index: int) -> bool:
    return lines.startswith(b'{"index":%d,' % index)


def _end_of(lines: bytes, end: int, last: int) -> int:
    """The end of the lines of indexes up to `last`."""
    while (line := _line_before(lines, end)) is not None and line[1] > last:
        end = line[0]
    return end

"""The position of each log entry in the segments, and reading it back.

A member keeps only the newest entries in memory. A follower that lags further behind is sent older
ones from here: entries that are durable and applied, so no record that could still be replaced.
The persist thread appends while the loop reads: the list grows at its end, and anything
else makes a new one.

Of entries that are large enough for a large body it is also known where their data stands, so that
bodies can be left there (`spill`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import itemgetter
from typing import Final

from rollq.base.errors import DiskError, ErrorCode
from rollq.base.limits import LARGE_BODY_BYTES_MIN
from rollq.raft.types import Entry
from rollq.store.disk import Disk
from rollq.store.record import (
    HEADER_BYTES,
    Kind,
    data_offsets,
    decode_body,
    decode_entries,
    decode_header,
)

FOLDER: Final = "wal"
SUFFIX: Final = ".log"
READ_BYTES: Final = 256 * 1024  # bytes per read: many records, or one that is read again as a whole
ENTRY_OVERHEAD_BYTES: Final = 16
_first_of = itemgetter(0)


def segment_name(number: int) -> str:
    """The file of a segment."""
    return f"{FOLDER}/{number:012d}{SUFFIX}"


class LogPlaces:
    """The position of each record with entries: its first index, segment and offset."""

    def __init__(self, large_bytes_min: int = LARGE_BODY_BYTES_MIN) -> None:
        self._large_bytes_min = large_bytes_min
        self._places: list[tuple[int, int, int]] = []
        self._large: dict[
            int, tuple[int, int]
        ] = {}  # by index, ascending: segment, offset of the data

    def put(self, entries: Sequence[Entry], segment: int, offset: int, body_bytes: int) -> None:
        """A record was written whose entries replace all from its first index on.

        Args:
            entries: at least one.
            segment: where the record is.
            offset: where it begins.
            body_bytes: how long its body is.
        """
        first = entries[0].index
        if self._places and self._places[-1][0] >= first:
            self._places = self._places[: bisect_left(self._places, first, key=_first_of)]
        if next(reversed(self._large), 0) >= first:
            self._large = {at: place for at, place in self._large.items() if at < first}
        self._places.append((first, segment, offset))
        if body_bytes >= self._large_bytes_min:
            begin = offset + HEADER_BYTES
            offsets = data_offsets(entries, body_bytes)
            for entry, at in zip(entries, offsets, strict=False):
                if len(entry.data) >= self._large_bytes_min:
                    self._large[entry.index] = (segment, begin + at)

    def reset(self) -> None:
        """The log was voided."""
        self._places = []
        self._large = {}

    def forget(self, segment: int) -> None:
        """This segment is about to be deleted; all before it are deleted."""
        self._places = [place for place in self._places if place[1] > segment]
        self._large = {at: place for at, place in self._large.items() if place[0] > segment}

    def data_of(self, index: int) -> tuple[int, int] | None:
        """The segment and the offset of the data of an entry; None if it is too small to matter, or
        not stored verbatim."""
        return self._large.get(index)

    def read(self, disk: Disk, low: int, high: int, bytes_max: int) -> list[Entry]:
        """Entries of [low, high): at least one, then while they fit.

        Raises:
            DiskError: DISK_CORRUPT if one of them is damaged or not there.
        """
        places = self._places
        at = bisect_right(places, low, key=_first_of) - 1
        found: list[Entry] = []
        ahead = _Ahead(disk)
        while low < high:
            if not 0 <= at < len(places):
                raise _lost(low)
            first, segment, offset = places[at]
            end = min(high, places[at + 1][0]) if at + 1 < len(places) else high
            batch = ahead.entries(segment, offset)
            if batch is None or batch[0].index != first or batch[-1].index < low:
                raise _lost(low)
            for entry in batch[low - first : end - first]:
                bytes_max -= len(entry.data) + ENTRY_OVERHEAD_BYTES
                if found and bytes_max < 0:
                    return found
                found.append(entry)
            low = found[-1].index + 1
            at += 1
        return found


class _Ahead:
    """Read-ahead for consecutive records."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._segment = 0
        self._begin = 0
        self._data = b""

    def entries(self, segment: int, offset: int) -> list[Entry] | None:
        """The entries of a record; None if there is no valid one."""
        if segment != self._segment or not self._holds(offset, HEADER_BYTES):
            self._read(segment, offset, READ_BYTES)
        header = decode_header(self._data, offset - self._begin, segment)
        if header is None or header.kind != Kind.ENTRIES:
            return None
        if not self._holds(offset, header.record_bytes):
            self._read(segment, offset, max(READ_BYTES, header.record_bytes))
        body = decode_body(header, self._data, offset - self._begin)
        return (decode_entries(header, body) or None) if body is not None else None

    def _holds(self, offset: int, length: int) -> bool:
        return self._begin <= offset and offset + length <= self._begin + len(self._data)

    def _read(self, segment: int, offset: int, length: int) -> None:
        self._segment, self._begin = segment, offset
        self._data = self._disk.read(segment_name(segment), offset, length)


def _lost(index: int) -> DiskError:
    return DiskError(
        ErrorCode.DISK_CORRUPT,
        f"entry {index} of the log cannot be read back for a member that lacks it",
        "start the member again: it repairs its log, from its peers if need be",
    )

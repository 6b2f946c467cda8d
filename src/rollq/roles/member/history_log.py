"""The member's side of the history: events since the last seal, sealing, and filling of gaps.

Apply is deterministic, so every member makes the same rows. A member that installed a snapshot
never applied what the snapshot covers: it asks its peers for those rows. Events are turned into
lines only when they are sealed or sent, which happens beside the loop or rarely.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import chain
from typing import Final

import msgspec

from rollq.base.errors import DiskError, ErrorCode, LocalError
from rollq.base.limits import HISTORY_REPLY_BYTES_MAX, INFLATED_BYTES_MAX
from rollq.grid.effects import Applied
from rollq.grid.events import Event, each_of
from rollq.history.schema import to_lines
from rollq.history.segments import Segments, index_of
from rollq.wire.compression import ZSTD, inflate, shrink
from rollq.wire.messages import HistoryRows


class Recent(msgspec.Struct, frozen=True, gc=False):
    """The events of one index, packed: they wait by the hundred thousand."""

    index: int
    stamp_ms: int
    packed: bytes  # compressed if they are many
    packed_bytes: int  # before that

    def lines(self) -> list[bytes]:
        """As they are sealed."""
        return to_lines(self.index, self.stamp_ms, self.events())

    def events(self) -> list[Event]:
        """As they were made, with runs."""
        if not self.packed:
            return []
        packed = self.packed
        if len(packed) != self.packed_bytes:
            packed = inflate(packed, ZSTD)
        return _unpack(packed)

    def without_runs(self) -> Recent:
        """The same facts for a reader that may not know runs."""
        events = self.events()
        if all(event.run is None for event in events):
            return self
        return _recent(self.index, self.stamp_ms, list(each_of(events)))


def _recent(index: int, stamp_ms: int, events: list[Event]) -> Recent:
    packed = _pack(events) if events else b""
    size = len(packed)
    if size in SHRINK_BYTES:
        packed = shrink(packed, ZSTD) or packed
    return Recent(index, stamp_ms, packed, size)


# Some hundred events of one kind are much alike; what is larger could not be inflated again.
SHRINK_BYTES: Final = range(16 * 1024, INFLATED_BYTES_MAX + 1)
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(list[Event]).decode


class HistoryLog:
    """Rows by log index: sealed ones in segments, newer ones in memory."""

    def __init__(self, segments: Segments) -> None:
        self.segments = segments
        self._recent: list[Recent] = []  # ascending by index, not sealed yet
        self._covered_to = segments.covered_to()  # sealed when we began: a replay does not count

    def add(self, applied: Applied) -> int:
        """An entry was applied; returns how many bytes it takes here until it is sealed."""
        if applied.index <= self._covered_to:
            return 0
        recent = _recent(applied.index, applied.stamp_ms, applied.events)
        self._recent.append(recent)
        return recent.packed_bytes

    def unsealed(self, last: int) -> list[Recent]:
        """Everything up to `last` that no segment holds: what to seal next."""
        return self._recent[: bisect_left(self._recent, last + 1, key=_index_of)]

    def sealed(self, last: int) -> None:
        """Everything up to `last` is in segments."""
        del self._recent[: bisect_left(self._recent, last + 1, key=_index_of)]

    def recent(self, first: int, count_max: int) -> list[Recent]:
        """What is in memory from an index on, if that index is: so many of them at most."""
        begin = bisect_left(self._recent, first, key=_index_of)
        found = self._recent[begin : begin + count_max]
        return found if found and found[0].index == first else []

    def seal_rest(self) -> None:
        """Seal what is in memory: a member that stops in good order leaves its history whole."""
        if not self._recent:
            return
        for first, last in self.segments.gaps(self._recent[-1].index):
            rows = self._recent[
                bisect_left(self._recent, first, key=_index_of) : bisect_left(
                    self._recent, last + 1, key=_index_of
                )
            ]
            if rows:
                lines = chain.from_iterable(row.lines() for row in rows)
                self.segments.seal(rows[0].index, rows[-1].index, lines)

    def gaps(self, applied_index: int) -> list[tuple[int, int]]:
        """Ranges of log indexes that neither a segment nor memory holds."""
        memory_from = self._recent[0].index if self._recent else applied_index + 1
        return self.segments.gaps(memory_from - 1)

    def accepts(self, rows: HistoryRows, applied_index: int) -> bool:
        """Whether a peer's rows are what we lack, and nothing else."""
        wanted = any(
            first <= rows.first <= rows.last <= last for first, last in self.gaps(applied_index)
        )
        try:
            return wanted and all(rows.first <= index_of(line) <= rows.last for line in rows.lines)
        except LocalError:
            return False  # not a line of any history

    def rows(self, first: int, last: int) -> HistoryRows | None:
        """As many whole indexes from `first` on as fit an answer; None if we lack the first."""
        try:
            return self._rows(first, last)
        except DiskError as error:
            if error.code is not ErrorCode.DISK_CORRUPT:
                raise
            return None  # what is damaged is a gap of our own from now on

    def _rows(self, first: int, last: int) -> HistoryRows | None:
        lines: list[bytes] = []
        size_bytes = 0
        reached = first - 1
        for index, chunk in self._chunks(first, last):
            if index != reached + 1:
                break
            size_bytes += sum(map(len, chunk))
            if lines and size_bytes > HISTORY_REPLY_BYTES_MAX:
                break
            lines += chunk
            reached = index
        return HistoryRows(first, reached, tuple(lines)) if reached >= first else None

    def _chunks(self, first: int, last: int) -> Iterator[tuple[int, list[bytes]]]:
        """Lines by index. Segments hold every index of their range, also those without rows."""
        yield from self.segments.chunks(first, last)
        for recent in self._recent[bisect_left(self._recent, first, key=_index_of) :]:
            if recent.index > last:
                return
            yield recent.index, recent.lines()


def _index_of(recent: Recent) -> int:
    return recent.index

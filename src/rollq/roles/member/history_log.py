"""History on a member: events since the last seal, sealing, and filling of gaps.

Apply is deterministic, so every member makes the same rows. A member that installed a snapshot
never applied a part of what the snapshot covers: it requests those rows from its peers. What it
applied is sealed before, as it may be the only one that has it. Events are packed when they are
applied, and sealed in that form; they are decoded to lines only for peers and queries.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from rollq.base.errors import DiskError, ErrorCode, LocalError
from rollq.base.limits import HISTORY_REPLY_BYTES_MAX
from rollq.grid.effects import Applied
from rollq.history.lines_file import index_of
from rollq.history.packed import PackedIndex, pack
from rollq.history.segments import Segments
from rollq.wire.messages import HistoryRows


class HistoryLog:
    """Rows by log index: sealed ones in segments, newer ones in memory."""

    def __init__(self, segments: Segments, reply_bytes_max: int = HISTORY_REPLY_BYTES_MAX) -> None:
        self.segments = segments
        self._reply_bytes_max = reply_bytes_max
        self._recent: list[PackedIndex] = []  # ascending by index, not sealed yet
        self._covered_to = segments.covered_to()  # sealed at the start: their replay is skipped

    def add(self, applied: Applied) -> int:
        """Add the events of an applied entry; returns its bytes in memory until it is sealed."""
        if applied.index <= self._covered_to:
            return 0
        recent = pack(applied.index, applied.stamp_ms, applied.events)
        self._recent.append(recent)
        return recent.packed_bytes

    def unsealed(self, last: int) -> list[PackedIndex]:
        """The packed events up to `last` that no segment holds: what to seal next."""
        return self._recent[: bisect_left(self._recent, last + 1, key=_index_of)]

    def sealed(self, last: int) -> None:
        """Everything up to `last` is sealed: free its memory."""
        del self._recent[: bisect_left(self._recent, last + 1, key=_index_of)]

    def recent(self, first: int, count_max: int) -> list[PackedIndex]:
        """At most `count_max` entries in memory from index `first` on; empty if memory lacks it."""
        begin = bisect_left(self._recent, first, key=_index_of)
        found = self._recent[begin : begin + count_max]
        return found if found and found[0].index == first else []

    def recent_before(self, index: int, count_max: int) -> list[PackedIndex]:
        """At most `count_max` entries in memory: the last ones before `index`."""
        end = bisect_left(self._recent, index, key=_index_of)
        return self._recent[max(0, end - count_max) : end]

    def seal_rest(self) -> None:
        """Seal what is in memory: a clean stop leaves a complete history on disk."""
        if not self._recent:
            return
        for first, last in self.segments.gaps(self._recent[-1].index):
            rows = self._recent[
                bisect_left(self._recent, first, key=_index_of) : bisect_left(
                    self._recent, last + 1, key=_index_of
                )
            ]
            if rows:
                self.segments.seal_packed(rows[0].index, rows[-1].index, rows)

    def gaps(self, applied_index: int) -> list[tuple[int, int]]:
        """Ranges of log indexes that neither a segment nor memory holds."""
        memory_from = self._recent[0].index if self._recent else applied_index + 1
        return self.segments.gaps(memory_from - 1)

    def accepts(self, rows: HistoryRows, applied_index: int) -> bool:
        """Whether a peer's rows fill a gap, and hold nothing else."""
        wanted = any(
            first <= rows.first <= rows.last <= last for first, last in self.gaps(applied_index)
        )
        try:
            return wanted and all(rows.first <= index_of(line) <= rows.last for line in rows.lines)
        except LocalError:
            return False  # not a history line

    def rows(self, first: int, last: int) -> HistoryRows | None:
        """As many whole indexes from `first` on as fit a response; None if this member lacks
        `first`."""
        try:
            return self._rows(first, last)
        except DiskError as error:
            if error.code is not ErrorCode.DISK_CORRUPT:
                raise
            return None  # the damaged range is a gap of this member from now on

    def _rows(self, first: int, last: int) -> HistoryRows | None:
        lines: list[bytes] = []
        size_bytes = 0
        reached = first - 1
        for index, chunk in self._chunks(first, last):
            if index != reached + 1:
                break
            size_bytes += sum(map(len, chunk))
            if lines and size_bytes > self._reply_bytes_max:
                break
            lines += chunk
            reached = index
        return HistoryRows(first, reached, tuple(lines)) if reached >= first else None

    def _chunks(self, first: int, last: int) -> Iterator[tuple[int, list[bytes]]]:
        """Lines by index. Segments have every index of their range, also those without rows."""
        yield from self.segments.chunks(first, last)
        for recent in self._recent[bisect_left(self._recent, first, key=_index_of) :]:
            if recent.index > last:
                return
            yield recent.index, recent.lines()


def _index_of(recent: PackedIndex) -> int:
    return recent.index

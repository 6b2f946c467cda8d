"""The timeline of one job from the history: read backwards, from the newest index until the job was
accepted. So the cost is what has happened since, and most requested jobs are young. An answer reads
a bounded amount and gives the position to continue from."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from rollq.base.ids import guid_from_text
from rollq.base.limits import READER_INDEXES_MAX, READER_PIECE_BYTES
from rollq.grid.state import PREFIX_BYTES
from rollq.history.cutting import SegmentFile
from rollq.history.job_rows import BEGINNINGS, JobTimeline, Sought
from rollq.history.packed import PackedIndex
from rollq.history.packed_file import indexes_in, read_block
from rollq.history.schema import HistoryRow
from rollq.history.segments import packed_name
from rollq.roles.member.driver import Driver
from rollq.roles.member.query_keys import JobPlace
from rollq.roles.member.readers.pieces import is_damaged, lacking
from rollq.roles.member.readers.reader_context import ReaderContext

LOOKED_BYTES_MAX: Final = 32 * 1024 * 1024  # of events in memory form: about 0.1 s
ROWS_MAX: Final = 2_000  # of one job; one with more has several pages


def read_timeline(member: ReaderContext, asked: JobPlace) -> JobTimeline:
    """The rows of a job before a log index, up to the bounds of an answer.

    Raises:
        StateError: NOT_READY if this member lacks some of the history now.
    """
    sought = member.on_loop(lambda driver: _sought(driver, asked))
    found = _Search(member, sought, asked.before or member.applied_index + 1).run()
    ids = dict.fromkeys(row.workerId for row in found.rows if row.workerId)
    names = member.on_loop(lambda driver: {one: _name(driver, one) for one in ids})
    return replace(found, workers={one: name for one, name in names.items() if name})


def _name(driver: Driver, worker_id: str) -> str:
    worker = driver.state.workers.get(guid_from_text(worker_id))
    return "" if worker is None else worker.name


def _sought(driver: Driver, asked: JobPlace) -> Sought:
    """The job to search for, with its array if it is a known task or an array itself."""
    array = driver.state.arrays.get(asked.job_id[:PREFIX_BYTES])
    if array is None or (
        array.array_id != asked.job_id and array.number_of(asked.job_id) >= array.task_count
    ):
        return Sought(asked.job_id)
    return Sought(asked.job_id, array.array_id)


class _Search:
    """The search for one answer."""

    def __init__(self, member: ReaderContext, sought: Sought, before: int) -> None:
        self._member = member
        self._sought = sought
        self._before = before  # everything from here on is searched already
        self._looked_bytes = 0

    def run(self) -> JobTimeline:
        parts: list[list[HistoryRow]] = []
        is_whole = False
        for rows in self._backwards():
            if rows:
                parts.append(rows)
                is_whole = any(row.type in BEGINNINGS for row in rows)
            is_full = sum(map(len, parts)) >= ROWS_MAX
            if is_whole or is_full or self._looked_bytes >= LOOKED_BYTES_MAX:
                break
        else:
            self._before = 0
        found = [row for rows in reversed(parts) for row in rows]
        before = 0 if is_whole else self._before
        return JobTimeline(found, before, is_whole, self._member.segments.floor())

    def _backwards(self) -> Iterator[list[HistoryRow]]:
        """The rows of batches of indexes, newest batch first."""
        while recent := self._member.on_loop(self._recent):
            for one in reversed(recent):
                self._looked_bytes += one.packed_bytes
                self._before = one.index
                rows = self._sought.rows_in(one)
                if rows:
                    yield rows
            yield []
        ranges = self._member.segments.ranges()
        for ends in reversed(ranges[: bisect_left(ranges, self._before, key=_first)]):
            if ends[1] < self._before - 1:
                break
            yield from self._sealed(ends)
        if self._before - 1 > self._member.segments.floor():
            raise lacking(self._before - 1)

    def _recent(self, driver: Driver) -> list[PackedIndex]:
        return driver.replica.history.recent_before(self._before, READER_INDEXES_MAX)

    def _sealed(self, ends: tuple[int, int]) -> Iterator[list[HistoryRow]]:
        """The rows of a segment, newest block first."""
        member, sought = self._member, self._sought
        footer = member.segments.packed(*ends)
        if footer is None:
            yield self._in_lines(ends)
            return
        for block in reversed(footer.blocks):
            if block.first >= self._before:
                continue
            data = read_block(member.disk, packed_name(*ends), block)
            if data is None:
                raise is_damaged(ends)
            rows: list[HistoryRow] = []
            for one in indexes_in(data):
                if one.index < self._before:
                    rows += sought.rows_in(one)
            self._looked_bytes += block.plain_bytes
            self._before = block.first
            yield rows
        self._before = min(self._before, ends[0])

    def _in_lines(self, ends: tuple[int, int]) -> list[HistoryRow]:
        if not self._member.is_sound(*ends):
            raise is_damaged(ends)
        rows: list[HistoryRow] = []
        segment = SegmentFile(self._member.disk, *ends)
        for _, _, lines in segment.pieces(ends[0], self._before - 1, READER_PIECE_BYTES):
            self._looked_bytes += len(lines)
            rows += self._sought.rows_among(lines)
        self._before = ends[0]
        return rows


def _first(ends: tuple[int, int]) -> int:
    return ends[0]

"""The rows about one job, found in packed events without decoding others. Pure.

An id is sixteen bytes that stand in packed events as they are, also in a run. So most log indexes
are ruled out by a search for bytes, and only the others are decoded.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from rollq.base.ids import GUID_BYTES, JobId, guid_to_text
from rollq.grid.events import (
    ARRAY_ENQUEUED,
    JOB_BLOCKED,
    JOB_DELAYED,
    JOB_ENQUEUED,
    Event,
    each,
)
from rollq.history.packed import PackedIndex
from rollq.history.schema import HistoryRow, from_line, to_row

BEGINNINGS: Final = frozenset((JOB_ENQUEUED, JOB_DELAYED, JOB_BLOCKED, ARRAY_ENQUEUED))


class JobTimeline(msgspec.Struct, frozen=True):
    """What happened to a job, or a part of it.

    Attributes:
        rows: In their order.
        before: Go on with what was before this log index; 0: there is no more to find.
        is_whole: It begins when the job was accepted. Else, with `before` 0, the rest is gone, or
            there never was such a job.
        floor: History up to here is gone.
        workers: Names of the workers that are still known, by id as in the rows.
    """

    rows: list[HistoryRow]
    before: int
    is_whole: bool
    floor: int
    workers: dict[str, str] = {}


class Sought(NamedTuple):
    """Selects the rows of a job, a task with its array, or an array (both are its id)."""

    job_id: JobId
    array_id: JobId = b""

    def rows_in(self, packed: PackedIndex) -> list[HistoryRow]:
        """Those of one log index."""
        plain = packed.plain()
        if self.job_id not in plain.packed and (
            not self.array_id or self.array_id not in plain.packed
        ):
            return []
        rows: list[HistoryRow] = []
        ordinal = 0
        for event in plain.events():
            count = 1 if event.run is None else event.run.count
            if event.run is None:
                if self._concerns(event):
                    rows.append(to_row(packed.index, ordinal, packed.stamp_ms, event))
            elif (place := self._place_in(event.run.job_ids)) >= 0:
                one = each(event)[place]
                rows.append(to_row(packed.index, ordinal + place, packed.stamp_ms, one))
            ordinal += count
        return rows

    def rows_among(self, lines: bytes) -> list[HistoryRow]:
        """Those of JSON lines."""
        texts = [guid_to_text(one).encode() for one in (self.job_id, self.array_id) if one]
        found = [line for line in lines.split(b"\n") if any(text in line for text in texts)]
        job, array = guid_to_text(self.job_id), guid_to_text(self.array_id or bytes(GUID_BYTES))
        rows = map(from_line, found)
        return [
            row
            for row in rows
            if row.jobId == job or (row.arrayId == array and row.jobId in ("", array))
        ]

    def _concerns(self, event: Event) -> bool:
        if event.job_id == self.job_id:
            return True
        # Of arrays as a whole; older ones had the id of task 0, which was their own.
        is_of_array = bool(self.array_id) and event.array_id == self.array_id
        return is_of_array and event.job_id in (b"", self.array_id)

    def _place_in(self, job_ids: bytes) -> int:
        """The position of the job in a run; -1: not in it."""
        at = job_ids.find(self.job_id)
        while at >= 0 and at % GUID_BYTES:
            at = job_ids.find(self.job_id, at + 1)
        return at // GUID_BYTES if at >= 0 else -1

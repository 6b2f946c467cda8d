"""Records of schedules. Plain data, as `state`; the logic is in `schedules`."""

from __future__ import annotations

import msgspec

from rollq.base.ids import JobId
from rollq.grid.schedule_commands import ScheduleSpec


class ScheduleRecord(msgspec.Struct, array_like=True, eq=False):
    """A schedule and its statistics. Stored as a row of a snapshot."""

    spec: ScheduleSpec
    by: str  # who put it last
    stamp_ms: int  # when it was put
    version: int  # index of the entry that put or resumed it; earlier firings are void
    next_ms: int  # the next instant; later than any that fired in this version
    paused: bool = False
    # Statistics.
    last_due_ms: int = 0  # the last instant that fired; 0: none has
    last_ms: int = 0  # when its last job was created, also by hand
    last_job_id: JobId = b""
    last_error: str = ""  # why the last firing created no job; empty: it did
    fired: int = 0  # instants that created a job
    missed: int = 0  # instants skipped by the catch-up rule
    skipped: int = 0  # firings skipped because the last job had not ended
    refused: int = 0  # firings whose job the grid refused

    @property
    def name(self) -> str:
        """The name of the schedule."""
        return self.spec.name


class ScheduleTable:
    """All schedules. The sum is part of the state hash."""

    __slots__ = ("by_name", "next_sum")

    def __init__(self) -> None:
        self.by_name: dict[str, ScheduleRecord] = {}
        self.next_sum: int = 0  # of `next_ms`

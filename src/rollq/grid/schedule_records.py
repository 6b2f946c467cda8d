"""Schedules as the members agreed on them. Plain data, as `state` is; the rules are in
`schedules`."""

from __future__ import annotations

import msgspec

from rollq.base.ids import JobId
from rollq.grid.schedule_commands import ScheduleSpec


class ScheduleRecord(msgspec.Struct, array_like=True, eq=False):
    """What is to be run, when, and what became of it so far. A row of a snapshot as it is."""

    spec: ScheduleSpec
    by: str  # whoever put it last
    stamp_ms: int  # when
    version: int  # the index of the entry that put or resumed it: firings decided before are void
    next_ms: int  # the next instant; never before one that was fired in this version
    paused: bool = False
    # What it came to.
    last_due_ms: int = 0  # the last instant that fired; 0: none has
    last_ms: int = 0  # when a job of it was made last, also by hand
    last_job_id: JobId = b""
    last_error: str = ""  # why the last firing made no job; empty: it did
    fired: int = 0  # instants that made a job
    missed: int = 0  # instants that were passed over by the catch-up rule
    skipped: int = 0  # firings that made no job because the last one had not ended
    refused: int = 0  # firings whose job the grid refused

    @property
    def name(self) -> str:
        """Of the schedule."""
        return self.spec.name


class ScheduleTable:
    """All schedules. The sum is there for the hash of the state."""

    __slots__ = ("by_name", "next_sum")

    def __init__(self) -> None:
        self.by_name: dict[str, ScheduleRecord] = {}
        self.next_sum: int = 0  # of `next_ms`

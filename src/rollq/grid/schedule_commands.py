"""Commands about schedules (since version 12). What counts for all commands (`commands`) counts for
these.

Instants are computed by the leader, who alone asks a calendar, and stand in the commands: members
whose zone data differs apply the same.
"""

from __future__ import annotations

from typing import TypeAlias

from rollq.base.ids import ClientId, JobId
from rollq.base.jobs import JobOptions
from rollq.base.schedules import LAST, SKIP
from rollq.grid.stored import Stored


class ScheduleSpec(Stored, frozen=True):
    """What a schedule is: when it fires, what it runs then, and by which rules."""

    name: str
    client_id: ClientId  # whose jobs they are
    queue: str
    exec_name: str
    body: bytes
    options: JobOptions | None = None
    caches: tuple[str, ...] = ()
    cron: str = ""  # empty: `every_ms` counts
    zone: str = ""  # of the cron line
    every_ms: int = 0
    jitter_ms: int = 0
    overlap: str = SKIP  # base.schedules.OVERLAPS
    catch_up: str = LAST  # base.schedules.CATCH_UPS


class PutSchedule(Stored, frozen=True, tag=80):
    """Make a schedule, or change it; `next_ms` is its first instant from now on. What it fired
    before is kept."""

    spec: ScheduleSpec
    next_ms: int
    by: str = ""


class RemoveSchedule(Stored, frozen=True, gc=False, tag=81):
    """Forget a schedule. Its jobs stay."""

    name: str
    by: str = ""


class PauseSchedule(Stored, frozen=True, gc=False, tag=82):
    """Nothing is due until it is resumed."""

    name: str
    by: str = ""


class ResumeSchedule(Stored, frozen=True, gc=False, tag=83):
    """It goes on with this instant; those since the pause are none."""

    name: str
    next_ms: int
    by: str = ""
    version: int = 0  # since 13: ScheduleRecord.version by whose rule `next_ms` is; 0: not told


class FireSchedule(Stored, frozen=True, gc=False, tag=84):
    """The instant `due_ms` of a schedule has come. Done once: only while it is the next one of this
    version of the schedule."""

    name: str
    version: int  # ScheduleRecord.version
    due_ms: int
    fire_ms: int  # the instant that makes a job: `due_ms` or a later one; 0: none does
    next_ms: int  # the instant after all of these
    missed: int = 0  # instants from `due_ms` on that make no job, by the catch-up rule


class RunSchedule(Stored, frozen=True, gc=False, tag=85):
    """Make a job of a schedule now, beside its instants."""

    name: str
    job_id: JobId
    by: str = ""


ScheduleCommand: TypeAlias = (
    PutSchedule | RemoveSchedule | PauseSchedule | ResumeSchedule | FireSchedule | RunSchedule
)

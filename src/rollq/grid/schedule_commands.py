"""Commands about schedules (since version 12). The rules of `commands` apply to these too.

The leader alone computes instants with a calendar; they are in the commands, so members with
different zone data apply the same.
"""

from __future__ import annotations

from typing import TypeAlias

from rollq.base.ids import ClientId, JobId
from rollq.base.jobs import JobOptions
from rollq.base.schedules import LAST, SKIP
from rollq.grid.stored import Stored


class ScheduleSpec(Stored, frozen=True):
    """The definition of a schedule: when it fires, what it runs, and its rules."""

    name: str
    client_id: ClientId  # the owner of its jobs
    queue: str
    exec_name: str
    body: bytes
    options: JobOptions | None = None
    caches: tuple[str, ...] = ()
    cron: str = ""  # empty: `every_ms` applies
    zone: str = ""  # of the cron line
    every_ms: int = 0
    jitter_ms: int = 0
    overlap: str = SKIP  # base.schedules.OVERLAPS
    catch_up: str = LAST  # base.schedules.CATCH_UPS


class PutSchedule(Stored, frozen=True, tag=80):
    """Create or change a schedule; `next_ms` is its first instant from now on. Its statistics are
    kept."""

    spec: ScheduleSpec
    next_ms: int
    by: str = ""


class RemoveSchedule(Stored, frozen=True, gc=False, tag=81):
    """Delete a schedule. Its jobs stay."""

    name: str
    by: str = ""


class PauseSchedule(Stored, frozen=True, gc=False, tag=82):
    """Do not fire until it is resumed."""

    name: str
    by: str = ""


class ResumeSchedule(Stored, frozen=True, gc=False, tag=83):
    """Resume with this instant; instants during the pause are skipped."""

    name: str
    next_ms: int
    by: str = ""
    version: int = 0  # since 13: the ScheduleRecord.version that `next_ms` is for; 0: unknown


class FireSchedule(Stored, frozen=True, gc=False, tag=84):
    """The instant `due_ms` of a schedule is due. Applied once: only while it is the next one of
    this version of the schedule."""

    name: str
    version: int  # ScheduleRecord.version
    due_ms: int
    fire_ms: int  # the instant that creates a job: `due_ms` or a later one; 0: none
    next_ms: int  # the instant after all of these
    missed: int = 0  # instants from `due_ms` on that create no job, by the catch-up rule


class RunSchedule(Stored, frozen=True, gc=False, tag=85):
    """Create a job of a schedule now, in addition to its instants."""

    name: str
    job_id: JobId
    by: str = ""


ScheduleCommand: TypeAlias = (
    PutSchedule | RemoveSchedule | PauseSchedule | ResumeSchedule | FireSchedule | RunSchedule
)

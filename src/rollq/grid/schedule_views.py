"""Views of schedules."""

from __future__ import annotations

from heapq import nsmallest

import msgspec

from rollq.base.ids import ClientId, JobId
from rollq.base.requests import Request, request_in
from rollq.base.schedules import jitter_of
from rollq.grid.schedule_records import ScheduleRecord
from rollq.grid.state import GridState


class RawScheduleView(msgspec.Struct, frozen=True):
    """A schedule and its statistics."""

    name: str
    client_id: ClientId
    cron: str  # empty: `every_ms` counts
    zone: str
    every_ms: int
    jitter_ms: int
    overlap: str
    catch_up: str
    queue: str
    exec_name: str
    request: Request
    by: str
    stamp_ms: int
    paused: bool
    next_ms: int  # 0: it is paused
    fires_ms: int  # `next_ms` with its jitter
    last_due_ms: int
    last_ms: int
    last_job_id: JobId
    last_error: str
    fired: int
    missed: int
    skipped: int
    refused: int


def schedule_view(state: GridState, name: str) -> RawScheduleView | None:
    """One schedule."""
    record = state.schedules.by_name.get(name)
    return None if record is None else _view(record)


def schedule_page(
    state: GridState, after: str, limit: int, account: str = ""
) -> list[RawScheduleView]:
    """Up to `limit` schedules whose names come after this one, by name; of one account if given."""
    own = f"{account}/" if account else ""
    by_name = state.schedules.by_name
    names = nsmallest(limit, (one for one in by_name if one > after and one.startswith(own)))
    return [_view(by_name[name]) for name in names]


def _view(record: ScheduleRecord) -> RawScheduleView:
    spec = record.spec
    next_ms = 0 if record.paused else record.next_ms
    late_ms = jitter_of(record.name, next_ms, spec.jitter_ms) if next_ms else 0
    return RawScheduleView(
        record.name,
        spec.client_id,
        cron=spec.cron,
        zone=spec.zone,
        every_ms=spec.every_ms,
        jitter_ms=spec.jitter_ms,
        overlap=spec.overlap,
        catch_up=spec.catch_up,
        queue=spec.queue,
        exec_name=spec.exec_name,
        request=request_in(spec.body),
        by=record.by,
        stamp_ms=record.stamp_ms,
        paused=record.paused,
        next_ms=next_ms,
        fires_ms=next_ms + late_ms,
        last_due_ms=record.last_due_ms,
        last_ms=record.last_ms,
        last_job_id=record.last_job_id,
        last_error=record.last_error,
        fired=record.fired,
        missed=record.missed,
        skipped=record.skipped,
        refused=record.refused,
    )

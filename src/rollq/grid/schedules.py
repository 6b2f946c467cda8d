"""Handlers of schedules: jobs that are created repeatedly, one per instant.

An instant fires once: a firing names the instant that it expects to be next, and is void otherwise,
whichever leader proposed it. The id of its job is that of its client and key (`job_id_of_key`), and
the key is made of the name and the instant. No calendar is used here.
"""

from __future__ import annotations

from rollq.base.errors import ErrorCode
from rollq.base.ids import JobId, job_id_of_key
from rollq.base.limits import DURATION_MS_MAX
from rollq.base.schedule_limits import (
    CRON_BYTES_MAX,
    EVERY_MS_MIN,
    JITTER_MS_MAX,
    SCHEDULE_BODY_BYTES_MAX,
    ZONE_BYTES_MAX,
)
from rollq.base.schedules import (
    CANCEL,
    CATCH_UPS,
    OVERLAPS,
    SKIP,
    firing_key,
    is_schedule_name,
    utc_text,
)
from rollq.grid.admission import is_long, refuse_submit, refused_bounds
from rollq.grid.commands import SubmitRun
from rollq.grid.effects import Applied, Outcome, Refused
from rollq.grid.events import (
    SCHEDULE_FIRED,
    SCHEDULE_MISSED,
    SCHEDULE_PAUSED,
    SCHEDULE_PUT,
    SCHEDULE_REFUSED,
    SCHEDULE_REMOVED,
    SCHEDULE_RESUMED,
    SCHEDULE_SKIPPED,
    AccessFact,
    Event,
)
from rollq.grid.jobs import cancel_job
from rollq.grid.outcomes import DONE_NONE, DONE_ONE, DUPLICATE_OPEN, SCHEDULES_FULL
from rollq.grid.schedule_commands import (
    FireSchedule,
    PauseSchedule,
    PutSchedule,
    RemoveSchedule,
    ResumeSchedule,
    RunSchedule,
)
from rollq.grid.schedule_records import ScheduleRecord
from rollq.grid.state import GridState
from rollq.grid.submits import submit_one

NOT_LATER = refused_bounds("next_ms is not after what was fired")


def put_schedule(state: GridState, command: PutSchedule, out: Applied) -> Outcome:
    """Create or change a schedule."""
    spec, by_name = command.spec, state.schedules.by_name
    record = by_name.get(spec.name)
    if record is not None and record.spec == spec:
        return DUPLICATE_OPEN
    refusal = refuse_schedule(state, command)
    if refusal is None and record is None and len(by_name) >= state.bounds.schedules:
        refusal = SCHEDULES_FULL
    if refusal is None and record is not None and command.next_ms <= record.last_due_ms:
        refusal = NOT_LATER
    if refusal is not None:
        return refusal
    if record is None:
        record = by_name[spec.name] = ScheduleRecord(
            spec, by=command.by, stamp_ms=out.stamp_ms, version=out.index, next_ms=0
        )
    else:
        record.spec, record.by = spec, command.by
        record.stamp_ms, record.version = out.stamp_ms, out.index
    _move_on(state, record, command.next_ms)
    what = f"every {spec.every_ms} ms" if spec.every_ms else f"{spec.cron} {spec.zone}"
    out.events.append(_fact(SCHEDULE_PUT, record, f"{spec.name} {what}", command.by))
    return DONE_ONE


def refuse_schedule(state: GridState, command: PutSchedule) -> Refused | None:
    """Why this schedule is not valid."""
    spec = command.spec
    if not is_schedule_name(spec.name):
        return refused_bounds("the name has other characters than a-z, A-Z, 0-9 and _ . / -")
    if bool(spec.cron) is bool(spec.every_ms):
        return refused_bounds("a schedule has either a cron line or an interval")
    if is_long(spec.cron, CRON_BYTES_MAX) or is_long(spec.zone, ZONE_BYTES_MAX):
        return refused_bounds("cron or zone is too long")
    if spec.every_ms and not _is_span(spec.every_ms, EVERY_MS_MIN, DURATION_MS_MAX):
        return refused_bounds(f"every_ms is not {EVERY_MS_MIN} or more whole seconds")
    if not _is_span(spec.jitter_ms, 0, JITTER_MS_MAX):
        return refused_bounds(f"jitter_ms is not 0 to {JITTER_MS_MAX} in whole seconds")
    if spec.overlap not in OVERLAPS or spec.catch_up not in CATCH_UPS:
        return refused_bounds("overlap or catch_up is no such rule")
    if spec.options is not None and spec.options.after:
        return refused_bounds("jobs of a schedule wait for no other")
    if len(spec.body) > SCHEDULE_BODY_BYTES_MAX:
        return refused_bounds(f"its request has more than {SCHEDULE_BODY_BYTES_MAX} bytes")
    if command.next_ms <= 0 or command.next_ms % 1_000:
        return refused_bounds("next_ms is no instant")
    what = spec.client_id, spec.queue, spec.exec_name, spec.options
    return refuse_submit(state, *what)


def remove_schedule(state: GridState, command: RemoveSchedule, out: Applied) -> Outcome:
    """Delete a schedule."""
    record = state.schedules.by_name.pop(command.name, None)
    if record is None:
        return unknown_schedule(command.name)
    state.schedules.next_sum -= record.next_ms
    out.events.append(_fact(SCHEDULE_REMOVED, record, record.name, command.by))
    return DONE_ONE


def pause_schedule(state: GridState, command: PauseSchedule, out: Applied) -> Outcome:
    """Pause a schedule."""
    record = state.schedules.by_name.get(command.name)
    if record is None:
        return unknown_schedule(command.name)
    if record.paused:
        return DUPLICATE_OPEN
    record.paused = True
    out.events.append(_fact(SCHEDULE_PAUSED, record, record.name, command.by))
    return DONE_ONE


def resume_schedule(state: GridState, command: ResumeSchedule, out: Applied) -> Outcome:
    """Resume a schedule."""
    record = state.schedules.by_name.get(command.name)
    if record is None:
        return unknown_schedule(command.name)
    if not record.paused:
        return DUPLICATE_OPEN
    # If it was changed meanwhile, `next_ms` may be wrong: keep the instant of the change.
    is_same = command.version in (0, record.version)
    next_ms = command.next_ms if is_same else record.next_ms
    if next_ms <= record.last_due_ms:
        return NOT_LATER
    record.paused, record.version = False, out.index
    _move_on(state, record, next_ms)
    out.events.append(_fact(SCHEDULE_RESUMED, record, record.name, command.by))
    return DONE_ONE


def fire_schedule(state: GridState, command: FireSchedule, out: Applied) -> Outcome:
    """An instant is due: create its job, unless a rule prevents it. In any case the schedule
    advances."""
    record = state.schedules.by_name.get(command.name)
    if record is None or record.paused or record.version != command.version:
        return DONE_NONE
    if record.next_ms != command.due_ms or 0 < command.fire_ms < command.due_ms:
        return DONE_NONE
    if command.next_ms <= max(command.due_ms, command.fire_ms):
        return DONE_NONE
    _move_on(state, record, command.next_ms)
    if command.missed:
        record.missed += command.missed
        since = f"{record.name} {utc_text(command.due_ms)}"
        out.events.append(_fact(SCHEDULE_MISSED, record, since, count=command.missed))
    if command.fire_ms:
        _fire(state, record, command.fire_ms, out)
    return DONE_ONE


def run_schedule(state: GridState, command: RunSchedule, out: Applied) -> Outcome:
    """Create a job of a schedule now, whatever is running."""
    record = state.schedules.by_name.get(command.name)
    if record is None:
        return unknown_schedule(command.name)
    other = _submit(state, record, command.job_id, "", out)
    if other is not None:
        return other
    record.last_ms, record.last_job_id = out.stamp_ms, command.job_id
    detail = f"{record.name} by hand"
    out.events.append(_fact(SCHEDULE_FIRED, record, detail, command.by, job_id=command.job_id))
    return DONE_ONE


def unknown_schedule(name: str) -> Refused:
    """The refusal of an unknown schedule."""
    return Refused(ErrorCode.UNKNOWN_SCHEDULE, f"no schedule {name[:64]!r}")


def schedule_of(event: Event) -> str:
    """The name of the schedule that an event is about."""
    return "" if event.access is None else event.access.resource.removeprefix("schedule:")


def _fire(state: GridState, record: ScheduleRecord, due_ms: int, out: Applied) -> None:
    """Create the job of an instant, if its overlap rule and the grid allow it."""
    record.last_due_ms = due_ms
    key = firing_key(record.name, due_ms)
    before = state.jobs.get(record.last_job_id)
    is_open = before is not None and before.end is None
    if is_open and record.spec.overlap == SKIP:
        record.skipped += 1
        record.last_error = "the job before has not ended"
        out.events.append(_fact(SCHEDULE_SKIPPED, record, key, job_id=record.last_job_id))
        return
    job_id = job_id_of_key(record.spec.client_id, key)
    other = _submit(state, record, job_id, key, out)
    if isinstance(other, Refused):
        record.refused += 1
        record.last_error = other.message
        out.events.append(_fact(SCHEDULE_REFUSED, record, f"{key} {other.message}"))
        return
    if before is not None and is_open and record.spec.overlap == CANCEL and before.job_id != job_id:
        cancel_job(state, before, f"schedule {record.name}", out)
    record.fired += 1
    record.last_ms, record.last_job_id, record.last_error = out.stamp_ms, job_id, ""
    out.events.append(_fact(SCHEDULE_FIRED, record, key, job_id=job_id))


def _submit(
    state: GridState, record: ScheduleRecord, job_id: JobId, key: str, out: Applied
) -> Outcome | None:
    spec = record.spec
    what = spec.client_id, spec.queue, spec.exec_name, job_id, (spec.body,)
    command = SubmitRun(*what, spec.options, spec.caches, key)
    return submit_one(state, command, job_id, spec.body, out)


def _move_on(state: GridState, record: ScheduleRecord, next_ms: int) -> None:
    state.schedules.next_sum += next_ms - record.next_ms
    record.next_ms = next_ms


def _is_span(ms: int, least: int, most: int) -> bool:
    return least <= ms <= most and ms % 1_000 == 0


def _fact(
    kind: str,
    record: ScheduleRecord,
    detail: str,
    by: str = "",
    *,
    job_id: JobId = b"",
    count: int = 0,
) -> Event:
    return Event(
        kind,
        job_id,
        client_id=record.spec.client_id,
        queue=record.spec.queue,
        exec_name=record.spec.exec_name,
        count=count,
        detail=detail,
        access=AccessFact(by, resource=f"schedule:{record.name}"),
    )

"""Handlers for jobs that wait or have ended: release, expire, cancel, redrive, purge, forget.

Attempts are in `attempts`. The id of an array may also be that of its task 0; where a command could
mean both, its handler defines the precedence.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from rollq.base.errors import ErrorCode
from rollq.base.ids import GUID_BYTES, JobId, guid_to_text
from rollq.base.limits import INLINE_BYTES_MAX
from rollq.base.requests import kept_of
from rollq.grid.admission import admit_queue, refuse_queue, refused_bounds
from rollq.grid.arrays import cut_array, forget_array, release_array
from rollq.grid.commands import (
    CancelJobs,
    Cause,
    ExpireJobs,
    ForgetJobs,
    PurgeJobs,
    RedriveItem,
    RedriveJobs,
    ReleaseJobs,
)
from rollq.grid.effects import Applied, Done, Outcome, Refused, SendCancel
from rollq.grid.events import (
    JOB_CANCEL_REQUESTED,
    JOB_CANCELLED,
    JOB_EXPIRED,
    JOB_FORGOTTEN,
    JOB_PURGED,
    JOB_REDRIVEN,
    JOB_RELEASED,
)
from rollq.grid.facts import fact
from rollq.grid.moves import (
    change_queue,
    drop_job,
    end_waiting,
    move,
    next_seq,
    replace_body,
    submitted_crc,
)
from rollq.grid.outcomes import BEING_UNPACKED
from rollq.grid.refs import release_blobs
from rollq.grid.state import (
    ASSIGNED,
    CANCELLED,
    DEAD,
    DELAYED,
    QUEUED,
    ArrayRecord,
    GridState,
    JobRecord,
    PastRecord,
)
from rollq.grid.tasks import reopen_task


def release_jobs(state: GridState, command: ReleaseJobs, out: Applied) -> Outcome:
    """Delays are over: their jobs and arrays may be assigned. An array's delay is attempt 0."""
    count = 0
    for delay in command.jobs:
        record = state.jobs.get(delay.job_id)
        if record is None:
            if delay.attempt == 0:
                count += release_array(state, delay.job_id, out)
        elif record.state is DELAYED and record.attempt == delay.attempt:
            move(state, record, QUEUED, out.stamp_ms)
            record.delay_ms = 0
            out.events.append(fact(JOB_RELEASED, record))
            count += 1
    return Done(count)


def expire_jobs(state: GridState, command: ExpireJobs, out: Applied) -> Outcome:
    """Jobs that still wait after their `expire_ms` become dead; of an array, all unassigned
    tasks."""
    count = 0
    for job_id in command.job_ids:
        array = state.array_of(job_id)
        if array is not None:
            count += cut_array(state, array, DEAD, out, kind=JOB_EXPIRED)
        record = state.jobs.get(job_id)
        if record is not None and (record.state is QUEUED or record.state is DELAYED):
            out.events.append(fact(JOB_EXPIRED, record, cause=Cause.EXPIRED))
            end_waiting(state, record, DEAD, out, cause=Cause.EXPIRED, detail="")
            count += 1
    return Done(count)


def cancel_jobs(state: GridState, command: CancelJobs, out: Applied) -> Outcome:
    """Cancel waiting jobs, request a stop of running ones, ignore ended ones. An array takes
    precedence over its first task."""
    if is_any_reserved(state, command.job_ids):
        return BEING_UNPACKED
    count = 0
    for job_id in command.job_ids:
        array = state.array_of(job_id)
        if array is not None:
            count += cancel_array(state, array, command.by, out)
            continue
        record = state.jobs.get(job_id)
        if record is not None:
            count += cancel_job(state, record, command.by, out)
    return Done(count)


def cancel_array(state: GridState, array: ArrayRecord, by: str, out: Applied) -> int:
    """Cancel all of an array that has not ended; returns the number of tasks."""
    count = cut_array(state, array, CANCELLED, out, kind=JOB_CANCELLED, by=by)
    for job_id in list(array.open_tasks):
        count += cancel_job(state, state.jobs[job_id], by, out)
    return count


def cancel_job(state: GridState, record: JobRecord, by: str, out: Applied) -> int:
    """Cancel one job; 0 if there was nothing to do."""
    if record.state is ASSIGNED:
        if record.cancel_requested:
            return 0
        record.cancel_requested = True
        out.events.append(
            fact(
                JOB_CANCEL_REQUESTED,
                record,
                worker_id=record.worker_id,
                fence=record.fence,
                detail=by,
                by=by,
            )
        )
        out.effects.append(
            SendCancel(record.worker_id, record.job_id, record.attempt, record.fence)
        )
        return 1
    if record.end is not None:
        return 0
    out.events.append(fact(JOB_CANCELLED, record, detail=by, by=by))
    end_waiting(state, record, CANCELLED, out, cause=Cause.NONE, detail=by)
    return 1


def redrive_jobs(state: GridState, command: RedriveJobs, out: Applied) -> Outcome:
    """Run dead jobs again, all or none."""
    if is_any_reserved(state, (item.job_id for item in command.items)):
        return BEING_UNPACKED
    for item in command.items:
        record = state.jobs.get(item.job_id)
        if record is None:
            return _refused(ErrorCode.UNKNOWN_JOB, "no such job", item.job_id)
        if record.state is not DEAD:
            return _refused(ErrorCode.WRONG_STATE, "the job is not dead", item.job_id)
        if item.body is not None and len(item.body) > INLINE_BYTES_MAX:
            return refused_bounds(f"body is larger than {INLINE_BYTES_MAX} bytes")
        refusal = refuse_other_queue(state, record, item.queue)
        if refusal is not None:
            return refusal
    count = 0
    for item in command.items:
        record = state.jobs[item.job_id]
        if record.state is DEAD:  # false if the command names it twice
            redrive_job(state, record, item, by=command.by, out=out)
            count += 1
    return Done(count)


def refuse_other_queue(state: GridState, record: JobRecord, name: str) -> Refused | None:
    """Why a job may not move to this queue; empty: its own."""
    if not name or name == record.queue:
        return None
    if record.array is not None:
        return _refused(ErrorCode.BAD_OPTIONS, "a task stays in its array's queue", record.job_id)
    return None if name in state.queues else refuse_queue(state, name)


def redrive_job(
    state: GridState, record: JobRecord, item: RedriveItem, by: str, out: Applied
) -> None:
    """Requeue one dead job at the end of its queue. Attempt numbers continue, so that they stay
    unique."""
    end = record.end
    if end is not None:
        state.dead.remove(end.seq)
        if not end.confirmed_seq:
            record.client.owed.remove(end.seq)
    past = record.past
    if past is None:
        past = record.past = PastRecord()
    if item.body is not None:
        past.body_crc = submitted_crc(state, record)
        replace_body(state, record, item.body)
    if item.queue and item.queue != record.queue:
        change_queue(state, record, admit_queue(state, item.queue))
    past.starts_base = record.attempt
    past.not_started = 0
    if end is not None and end.blobs:
        release_blobs(state, end.blobs, record.client.client_id)
    record.end = None
    record.fence = 0
    state.job_index.remove_all((record.seq,))
    record.seq = next_seq(state)
    state.job_index.fresh.append(record)
    if record.array is not None:
        reopen_task(record.array, record)
    move(state, record, QUEUED, out.stamp_ms)
    redriven = fact(JOB_REDRIVEN, record, detail=by, by=by)
    if item.body is not None:
        redriven = replace(redriven, request=kept_of(item.body), body_bytes=len(item.body))
    out.events.append(redriven)


def purge_jobs(state: GridState, command: PurgeJobs, out: Applied) -> Outcome:
    """Delete dead jobs, all or none; missing ones are ignored."""
    if is_any_reserved(state, command.job_ids):
        return BEING_UNPACKED
    for job_id in command.job_ids:
        record = state.jobs.get(job_id)
        if record is not None and record.state is not DEAD:
            return _refused(ErrorCode.WRONG_STATE, "the job is not dead", job_id)
    count = 0
    for job_id in command.job_ids:
        record = state.jobs.get(job_id)
        if record is not None:
            drop_job(state, record, JOB_PURGED, out=out, by=command.by)
            count += 1
    return Done(count)


def forget_jobs(state: GridState, command: ForgetJobs, out: Applied) -> Outcome:
    """The TTL of these is over: delete those that have ended, tasks before their arrays."""
    count = 0
    for job_id in command.job_ids:
        record = state.jobs.get(job_id)
        if job_id in state.reserved:
            continue  # it is about to be redriven
        if record is not None and record.end is not None:
            drop_job(state, record, JOB_FORGOTTEN, out)
            count += 1
        array = state.array_of(job_id)
        if array is not None:
            count += forget_array(state, array, out)
    return Done(count)


def is_any_reserved(state: GridState, job_ids: Iterable[JobId]) -> bool:
    """Whether a committed batch has one of these and has not unpacked it."""
    return bool(state.reserved) and any(job_id in state.reserved for job_id in job_ids)


def _refused(code: ErrorCode, message: str, job_id: JobId) -> Refused:
    """A refusal because of one of several jobs, with its id."""
    name = guid_to_text(job_id) if len(job_id) == GUID_BYTES else job_id.hex()
    return Refused(code, f"{name}: {message}", job_id)

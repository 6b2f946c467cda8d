"""Handlers that begin and end attempts: assign, ack, nack, lease lost.

Each names the attempt that it means; what names another one is stale and changes nothing, so that
late messages and late timers are harmless.
"""

from __future__ import annotations

from rollq.base.jobs import BlobRef, Status
from rollq.base.limits import BLOBS_PER_JOB_MAX, INLINE_BYTES_MAX
from rollq.grid.admission import refused_bounds
from rollq.grid.commands import (
    AckJob,
    AssignJob,
    Cause,
    ExpireLeases,
    NackJob,
)
from rollq.grid.effects import Applied, Done, Outcome, Refused, SendAssign
from rollq.grid.events import JOB_ACKED, JOB_ASSIGNED, JOB_CANCELLED, Event
from rollq.grid.facts import fact
from rollq.grid.moves import enter_assigned, finish, leave_assigned, lose_attempt, next_seq
from rollq.grid.outcomes import (
    ARRAY_AT_CAP,
    CLIENT_AT_CAP,
    DONE_ONE,
    KNOWN_ENDED,
    NOT_QUEUED,
    OTHER_WORKER,
    QUEUE_IS_PAUSED,
    STALE_ATTEMPT,
    UNKNOWN_JOB,
    UNKNOWN_WORKER,
)
from rollq.grid.refs import blob_bytes, refuse_blobs
from rollq.grid.state import (
    ASSIGNED,
    CANCELLED,
    DONE,
    QUEUED,
    ArrayRecord,
    EndRecord,
    GridState,
    JobRecord,
    WorkerRecord,
)

_CANCELLED_STATUS = int(Status.CANCELLED)
_FAILED_STATUS = int(Status.FAILED)


def assign_job(state: GridState, command: AssignJob, out: Applied) -> Outcome:
    """Start the next attempt of a queued job."""
    record = state.jobs.get(command.job_id)
    if record is None:
        return UNKNOWN_JOB
    if record.state is not QUEUED:
        return NOT_QUEUED
    if record.attempt + 1 != command.attempt:
        return STALE_ATTEMPT
    worker = state.workers.get(command.worker_id)
    if worker is None or worker.incarnation != command.incarnation:
        return UNKNOWN_WORKER
    refusal = refuse_start(state, record, record.array, worker)
    if refusal is not None:
        return refusal
    start_attempt(state, record, worker, command.lease_ms, out)
    return DONE_ONE


def refuse_start(
    state: GridState,
    work: JobRecord | ArrayRecord,
    array: ArrayRecord | None,
    worker: WorkerRecord,
) -> Refused | None:
    """Why this job, or the next task of this array, may not start on this worker now."""
    if state.queues[work.queue].paused:
        return QUEUE_IS_PAUSED
    client, options = work.client, work.options
    cap = client.cap or state.settings.client_cap
    if cap and client.in_flight >= cap:
        return CLIENT_AT_CAP
    if options.worker_name and options.worker_name != worker.name:
        return OTHER_WORKER
    if array is not None and array.running_max and array.running >= array.running_max:
        return ARRAY_AT_CAP
    return None


def start_attempt(
    state: GridState, record: JobRecord, worker: WorkerRecord, lease_ms: int, out: Applied
) -> None:
    """Begin an attempt that was found allowed, and tell its worker."""
    enter_assigned(state, record, worker, lease_ms, out.stamp_ms)
    out.events.append(
        Event(
            JOB_ASSIGNED,
            record.job_id,
            record.client.client_id,
            record.queue,
            record.exec_name,
            record.worker_id,
            record.attempt,
            record.fence,
            record.options.priority,
            0,
            lease_ms,
            array_id=b"" if record.array is None else record.array.array_id,
            job_key=record.key,
        )
    )
    out.effects.append(assignment_of(state, record))


def ack_job(state: GridState, command: AckJob, out: Applied) -> Outcome:
    """Take the result of the attempt that runs, and of no other."""
    record = state.jobs.get(command.job_id)
    if record is None:
        return UNKNOWN_JOB
    if record.fence != command.fence or record.attempt != command.attempt:
        return STALE_ATTEMPT
    if record.state is not ASSIGNED:
        return KNOWN_ENDED if record.end is not None and record.fence else STALE_ATTEMPT
    if len(command.result) > INLINE_BYTES_MAX:
        return refused_bounds(f"result is larger than {INLINE_BYTES_MAX} bytes")
    if command.blobs:
        refusal = refuse_blobs(state, command.blobs, {}, BLOBS_PER_JOB_MAX)
        if refusal is not None:
            return refusal
    status = command.status
    if status == _CANCELLED_STATUS:
        end_cancelled(state, record, command, out)
    elif status == _FAILED_STATUS and command.exit_code in record.options.retry_exit_codes:
        lose_attempt(
            state,
            record,
            Cause.EXIT_CODE,
            command.retry_delay_ms,
            out,
            detail=command.detail,
            ack=command,
        )
    elif 0 <= status < _CANCELLED_STATUS:
        end_done(state, record, command, out)
    else:
        return refused_bounds("unknown status")
    return DONE_ONE


def end_done(state: GridState, record: JobRecord, command: AckJob, out: Applied) -> None:
    """The attempt gave the job's result."""
    leave_assigned(state, record, DONE, out.stamp_ms)
    out.events.append(
        Event(
            JOB_ACKED,
            record.job_id,
            record.client.client_id,
            record.queue,
            record.exec_name,
            record.worker_id,
            record.attempt,
            record.fence,
            record.options.priority,
            status=command.status,
            exit_code=command.exit_code,
            signal=command.signal,
            run_ms=command.run_ms,
            peak_bytes=command.peak_bytes,
            array_id=b"" if record.array is None else record.array.array_id,
            blob_bytes=blob_bytes(command.blobs) if command.blobs else 0,
            fetched_bytes=command.fetched_bytes,
            held_bytes=command.held_bytes,
            job_key=record.key,
        )
    )
    finish(state, record, end_of(state, command), out)


def end_cancelled(state: GridState, record: JobRecord, command: AckJob, out: Applied) -> None:
    """The worker stopped the attempt: as it was asked to, or by itself, which is no result."""
    if not record.cancel_requested:
        detail = command.detail or "stopped by its worker"
        lose_attempt(state, record, Cause.NACKED, command.retry_delay_ms, out, detail=detail)
        return
    leave_assigned(state, record, CANCELLED, out.stamp_ms)
    out.events.append(
        fact(
            JOB_CANCELLED,
            record,
            worker_id=record.worker_id,
            fence=record.fence,
            ack=command,
        )
    )
    finish(state, record, end_of(state, command), out)


def end_of(state: GridState, command: AckJob) -> EndRecord:
    """The end that an ack reports."""
    return EndRecord(
        next_seq(state),
        command.status,
        command.result,
        command.exit_code,
        command.signal,
        command.run_ms,
        command.peak_bytes,
        blobs=command.blobs,
    )


def nack_job(state: GridState, command: NackJob, out: Applied) -> Outcome:
    """The worker could not run the attempt."""
    record = state.jobs.get(command.job_id)
    if record is None:
        return UNKNOWN_JOB
    if (
        record.state is not ASSIGNED
        or record.fence != command.fence
        or record.attempt != command.attempt
    ):
        return STALE_ATTEMPT
    lose_attempt(
        state,
        record,
        Cause.NACKED,
        command.delay_ms,
        out,
        detail=command.detail,
        not_started=command.not_started,
    )
    return DONE_ONE


def expire_leases(state: GridState, command: ExpireLeases, out: Applied) -> Outcome:
    """Nothing was heard of these attempts for the length of their leases."""
    count = 0
    for lost in command.lost:
        record = state.jobs.get(lost.job_id)
        if record is not None and record.state is ASSIGNED and record.attempt == lost.attempt:
            lose_attempt(
                state,
                record,
                Cause.LEASE_LOST,
                lost.delay_ms,
                out,
                not_started=lost.not_started,
            )
            count += 1
    return Done(count)


def assignment_of(state: GridState, record: JobRecord) -> SendAssign:
    """What to tell the worker of a running attempt."""
    array = record.array
    return SendAssign(
        record.worker_id,
        record.job_id,
        record.attempt,
        record.fence,
        record.lease_ms,
        record.client.client_id,
        record.queue,
        record.exec_name,
        state.bodies.load(record.body),
        record.options,
        -1 if array is None else array.number_of(record.job_id),
        files_of(record),
    )


def files_of(record: JobRecord) -> tuple[BlobRef, ...]:
    """What an attempt of this job needs."""
    if record.array is not None:
        return record.array.blobs
    return () if record.past is None else record.past.blobs

"""Handlers of acks: an attempt ended with a result. An ack names its attempt and fence; one that
does not match the running attempt is stale and changes nothing, so late messages are harmless."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from rollq.base.ids import GUID_BYTES
from rollq.base.jobs import Status
from rollq.base.limits import BLOBS_PER_JOB_MAX, INLINE_BYTES_MAX
from rollq.grid.admission import refused_bounds
from rollq.grid.commands import (
    AckJob,
    AckRun,
    Cause,
)
from rollq.grid.effects import Applied, Duplicate, Outcome, Refused, RunDone
from rollq.grid.events import JOB_ACKED, JOB_CANCELLED, Event, Run
from rollq.grid.facts import column_of, fact, keys_of
from rollq.grid.moves import (
    end_done,
    finish,
    leave_assigned,
    lose_attempt,
    next_seq,
)
from rollq.grid.outcomes import (
    DUPLICATE_ENDED,
    STALE_ATTEMPT,
    UNKNOWN_JOB,
)
from rollq.grid.refs import blob_bytes, refuse_blobs
from rollq.grid.runs import (
    DONE_RUN_OF_ONE,
    Others,
    alone,
    has_twice,
    ids_in,
    in_turn,
    known_groups,
    refuse_columns,
    refuse_run,
    run_done,
)
from rollq.grid.state import (
    ASSIGNED,
    CANCELLED,
    DONE,
    EndRecord,
    GridState,
    JobRecord,
)

_fence = attrgetter("fence")
_past = attrgetter("past")
_CANCELLED_STATUS = int(Status.CANCELLED)
_FAILED_STATUS = int(Status.FAILED)


def ack_run(state: GridState, command: AckRun, out: Applied) -> Outcome:
    """Accept the results of the attempts that are running; the others are stale."""
    if len(command.job_ids) == GUID_BYTES and len(command.fences) == len(command.results) == 1:
        other = ack_one(state, state.jobs.get(command.job_ids), command, out)
        return DONE_RUN_OF_ONE if other is None else RunDone(0, ((0, other),))
    refusal = refuse_run(command.job_ids, command.fences, command.results) or refuse_columns(
        len(command.fences),
        command.run_ms,
        command.peak_bytes,
        command.fetched_bytes,
        command.held_bytes,
        command.blobs,
    )
    if refusal is not None:
        return refusal
    job_ids = ids_in(command.job_ids)
    if len(job_ids) > 1 and has_twice(job_ids):
        runs = [part_of(command, position) for position in range(len(job_ids))]
        return in_turn([ack_run(state, run, out) for run in runs])
    others: Others = []
    is_plain = gives_plain_results(command)
    for first, group in known_groups(state, job_ids):
        if is_plain and are_done(group, command, first):
            take_results(state, group, command, first, out)
            continue
        for position, record in enumerate(group or (None,), first):
            other = ack_one(state, record, part_of(command, position), out)
            if other is not None:
                others.append((position, other))
    return run_done(len(job_ids), others)


def ack_job(state: GridState, command: AckJob, out: Applied) -> Outcome:
    """As a run of one; written by older leaders."""
    if len(command.job_id) != GUID_BYTES:
        return UNKNOWN_JOB
    return alone(ack_run(state, run_of(command), out))


def gives_plain_results(command: AckRun) -> bool:
    """Whether each of these acks ends its job, unless its retry rule applies, and has no blobs."""
    if not 0 <= command.status < _CANCELLED_STATUS or command.blobs:
        return False
    results = command.results
    longest = len(results[0]) if len(results) == 1 else max(map(len, results))
    return longest <= INLINE_BYTES_MAX


def are_done(records: Sequence[JobRecord], command: AckRun, first: int) -> bool:
    """Whether the plain acks from position `first` on are of the running attempts of these equal
    jobs, which have no past, and end them. False if there are no jobs."""
    if not records or records[0].state is not ASSIGNED or records[0].attempt != command.attempt:
        return False
    fences = command.fences[first : first + len(records)]
    return (
        fences == tuple(map(_fence, records))
        and not any(map(_past, records))
        and not is_retried(records[0], command)
    )


def is_retried(record: JobRecord, command: AckRun) -> bool:
    """Whether the retry rule of the job matches this result."""
    return command.status == _FAILED_STATUS and (
        command.exit_code in record.options.retry_exit_codes
    )


def take_results(
    state: GridState, records: Sequence[JobRecord], command: AckRun, first: int, out: Applied
) -> None:
    """The equal attempts of a run from `first` on gave the results of their jobs."""
    record, count = records[0], len(records)
    seq = state.last_seq + 1
    state.last_seq += count
    status, exit_code, signal = command.status, command.exit_code, command.signal
    part = slice(first, first + count)
    run_ms = command.run_ms[part] or (0,) * count
    peak_bytes = command.peak_bytes[part] or (0,) * count
    columns = zip(range(seq, seq + count), command.results[part], run_ms, peak_bytes, strict=False)
    ends = [
        EndRecord(seq, status, result, exit_code, signal, ms, peak)
        for seq, result, ms, peak in columns
    ]
    if command.blobs:
        for end, blobs in zip(ends, command.blobs[part], strict=True):
            end.blobs = blobs
    out.events.append(
        Event(
            JOB_ACKED,
            record.job_id if count == 1 else b"",
            record.client.client_id,
            record.queue,
            record.exec_name,
            record.worker_id,
            record.attempt,
            record.fence,
            record.options.priority,
            0,
            0,
            status,
            0,
            exit_code,
            signal,
            run_ms[0],
            peak_bytes[0],
            array_id=b"" if record.array is None else record.array.array_id,
            blob_bytes=blob_bytes(ends[0].blobs) if command.blobs else 0,
            fetched_bytes=command.fetched_bytes[first] if command.fetched_bytes else 0,
            held_bytes=command.held_bytes[first] if command.held_bytes else 0,
            job_key=record.key,
            run=None if count == 1 else run_in(records, command, part),
        )
    )
    end_done(state, records, ends, out)


def run_in(records: Sequence[JobRecord], command: AckRun, part: slice) -> Run:
    """The columns of these jobs, which are part of a run."""
    return Run(
        command.job_ids[GUID_BYTES * part.start : GUID_BYTES * part.stop],
        fences_of(command.fences[part]),
        column_of(command.run_ms[part]),
        column_of(command.peak_bytes[part]),
        column_of(command.fetched_bytes[part]),
        column_of(command.held_bytes[part]),
        blob_bytes=column_of([blob_bytes(blobs) for blobs in command.blobs[part]]),
        keys=keys_of(records),
    )


def ack_one(
    state: GridState, record: JobRecord | None, command: AckRun, out: Applied
) -> Duplicate | Refused | None:
    """Handle an ack that may be stale or have another status than done. None: accepted."""
    if record is None:
        return UNKNOWN_JOB
    if record.fence != command.fences[0] or record.attempt != command.attempt:
        return STALE_ATTEMPT
    if record.state is not ASSIGNED:
        return DUPLICATE_ENDED if record.end is not None and record.fence else STALE_ATTEMPT
    if len(command.results[0]) > INLINE_BYTES_MAX:
        return refused_bounds(f"result is larger than {INLINE_BYTES_MAX} bytes")
    if command.blobs:
        refusal = refuse_blobs(state, command.blobs[0], {}, BLOBS_PER_JOB_MAX)
        if refusal is not None:
            return refusal
    if command.status == _CANCELLED_STATUS:
        end_cancelled(state, record, ack_of(command), out)
    elif is_retried(record, command):
        lose_attempt(
            state,
            record,
            Cause.EXIT_CODE,
            command.retry_delay_ms,
            out,
            detail=command.detail,
            ack=ack_of(command),
        )
    elif 0 <= command.status < _CANCELLED_STATUS:
        take_result(state, record, command, out)
    else:
        return refused_bounds("unknown status")
    return None


def take_result(state: GridState, record: JobRecord, command: AckRun, out: Applied) -> None:
    """As `take_results` for a run of one; inlined, which saves a third of the time."""
    leave_assigned(state, record, DONE, out.stamp_ms)
    blobs = command.blobs[0] if command.blobs else ()
    run_ms = command.run_ms[0] if command.run_ms else 0
    peak_bytes = command.peak_bytes[0] if command.peak_bytes else 0
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
            run_ms=run_ms,
            peak_bytes=peak_bytes,
            array_id=b"" if record.array is None else record.array.array_id,
            blob_bytes=blob_bytes(blobs) if blobs else 0,
            fetched_bytes=command.fetched_bytes[0] if command.fetched_bytes else 0,
            held_bytes=command.held_bytes[0] if command.held_bytes else 0,
            job_key=record.key,
        )
    )
    end = EndRecord(
        next_seq(state),
        command.status,
        command.results[0],
        command.exit_code,
        command.signal,
        run_ms,
        peak_bytes,
        blobs=blobs,
    )
    finish(state, record, end, out)


def end_cancelled(state: GridState, record: JobRecord, command: AckJob, out: Applied) -> None:
    """The worker stopped the attempt: by request, or by itself, which is no result."""
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
    """The EndRecord of an ack."""
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


def fences_of(fences: tuple[int, ...]) -> tuple[int, ...]:
    """A column of fences; empty if they are consecutive."""
    last = fences[0] + len(fences) - 1
    follow = fences[-1] == last and fences == tuple(range(fences[0], last + 1))
    return () if follow else fences


def part_of(command: AckRun, position: int) -> AckRun:
    """One job of a run, as a run of one."""
    part = slice(position, position + 1)
    return AckRun(
        command.attempt,
        command.status,
        command.job_ids[GUID_BYTES * position : GUID_BYTES * (position + 1)],
        command.fences[part],
        command.results[part],
        command.exit_code,
        command.signal,
        command.retry_delay_ms,
        command.detail,
        command.run_ms[part],
        command.peak_bytes[part],
        command.fetched_bytes[part],
        command.held_bytes[part],
        command.blobs[part],
    )


def ack_of(command: AckRun) -> AckJob:
    """A run of one as a single ack."""
    return AckJob(
        command.job_ids,
        command.attempt,
        command.fences[0],
        command.status,
        command.results[0],
        command.exit_code,
        command.signal,
        sum(command.run_ms),
        sum(command.peak_bytes),
        command.retry_delay_ms,
        command.detail,
        command.blobs[0] if command.blobs else (),
        sum(command.fetched_bytes),
        sum(command.held_bytes),
    )


def run_of(command: AckJob) -> AckRun:
    """The inverse of `ack_of`."""
    return AckRun(
        command.attempt,
        command.status,
        command.job_id,
        (command.fence,),
        (command.result,),
        command.exit_code,
        command.signal,
        command.retry_delay_ms,
        command.detail,
        (command.run_ms,),
        (command.peak_bytes,),
        (command.fetched_bytes,),
        (command.held_bytes,),
        (command.blobs,) if command.blobs else (),
    )

"""Handlers that start attempts, and those that end them without a result: assign, nack, lease lost.
Acks are in `acks`.

Each command names its attempt; one that does not match is stale and changes nothing, so late
messages and timers are harmless.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

import msgspec

from rollq.base.ids import GUID_BYTES
from rollq.base.jobs import BlobRef
from rollq.base.limits import RUN_JOBS_MAX
from rollq.grid.commands import (
    AssignJob,
    AssignRun,
    Cause,
    ExpireLeases,
    NackJob,
)
from rollq.grid.effects import Applied, Done, Outcome, Refused, SendAssign
from rollq.grid.events import JOB_ASSIGNED, Event, Run
from rollq.grid.facts import keys_of
from rollq.grid.moves import (
    enter_assigned,
    lose_attempt,
)
from rollq.grid.outcomes import (
    ARRAY_AT_CAP,
    CLIENT_AT_CAP,
    DONE_ONE,
    NOT_QUEUED,
    OTHER_WORKER,
    QUEUE_IS_PAUSED,
    STALE_ATTEMPT,
    UNKNOWN_JOB,
    UNKNOWN_WORKER,
    WORKER_IS_DRAINED,
)
from rollq.grid.runs import (
    Others,
    alone,
    has_twice,
    ids_in,
    in_turn,
    known_groups,
    refuse_run,
    run_done,
)
from rollq.grid.state import (
    ASSIGNED,
    QUEUED,
    ArrayRecord,
    GridState,
    JobRecord,
    WorkerRecord,
)

_past = attrgetter("past")


def assign_run(state: GridState, command: AssignRun, out: Applied) -> Outcome:
    """Start the next attempt of queued jobs."""
    refusal = refuse_run(command.job_ids)
    if refusal is not None:
        return refusal
    job_ids = ids_in(command.job_ids)
    worker = state.workers.get(command.worker_id)
    if worker is not None and worker.incarnation != command.incarnation:
        worker = None
    if len(job_ids) > 1 and has_twice(job_ids):
        runs = [msgspec.structs.replace(command, job_ids=job_id) for job_id in job_ids]
        return in_turn([assign_run(state, run, out) for run in runs])
    others: Others = []
    for position, group in known_groups(state, job_ids):
        if not group:
            others.append((position, UNKNOWN_JOB))
        elif group[0].state is not QUEUED:
            others += [(position + at, NOT_QUEUED) for at in range(len(group))]
        elif group[0].attempt != command.attempt - 1:
            others += [(position + at, STALE_ATTEMPT) for at in range(len(group))]
        elif worker is None:
            others += [(position + at, UNKNOWN_WORKER) for at in range(len(group))]
        else:
            started, refusal = start_equal(state, group, worker, command.lease_ms, out)
            if refusal is not None:
                others += [(position + at, refusal) for at in range(started, len(group))]
    return run_done(len(job_ids), others)


def assign_job(state: GridState, command: AssignJob, out: Applied) -> Outcome:
    """As a run of one; written by older leaders."""
    if len(command.job_id) != GUID_BYTES:
        return UNKNOWN_JOB
    which = command.worker_id, command.incarnation, command.attempt, command.lease_ms
    return alone(assign_run(state, AssignRun(*which, command.job_id), out))


def start_equal(
    state: GridState,
    records: Sequence[JobRecord],
    worker: WorkerRecord,
    lease_ms: int,
    out: Applied,
) -> tuple[int, Refused | None]:
    """Start as many of these equal queued jobs as may start now: how many, and why not the next."""
    started = 0
    while started < len(records):
        record = records[started]
        refusal = refuse_start(state, record, record.array, worker)
        if refusal is not None:
            return started, refusal
        part = records[started : started + room_left(state, record)]
        start_attempts(state, part, worker, lease_ms, out)
        started += len(part)
    return started, None


def refuse_start(
    state: GridState,
    work: JobRecord | ArrayRecord,
    array: ArrayRecord | None,
    worker: WorkerRecord,
) -> Refused | None:
    """Why this job, or the next task of this array, may not start on this worker now."""
    if state.queues[work.queue].paused:
        return QUEUE_IS_PAUSED
    if worker.worker_id in state.drained:
        return WORKER_IS_DRAINED
    client, options = work.client, work.options
    cap = client.cap or state.settings.client_cap
    if cap and client.in_flight >= cap:
        return CLIENT_AT_CAP
    if options.worker_name and options.worker_name != worker.name:
        return OTHER_WORKER
    if array is not None and array.running_max and array.running >= array.running_max:
        return ARRAY_AT_CAP
    return None


def room_left(state: GridState, record: JobRecord) -> int:
    """How many jobs like this one may start under the cap of their client; 1 for tasks, whose
    numbers need not be consecutive."""
    if record.array is not None:
        return 1
    cap = state.cap_of(record.client)
    return cap - record.client.in_flight if cap else RUN_JOBS_MAX


def start_attempts(
    state: GridState,
    records: Sequence[JobRecord],
    worker: WorkerRecord,
    lease_ms: int,
    out: Applied,
) -> None:
    """Start attempts of equal jobs that may start, and send them to their worker."""
    enter_assigned(state, records, worker, lease_ms, out.stamp_ms)
    effect = assignment_of(state, records)
    first, is_alone = records[0], len(records) == 1
    out.events.append(
        Event(
            JOB_ASSIGNED,
            first.job_id if is_alone else b"",
            first.client.client_id,
            first.queue,
            first.exec_name,
            first.worker_id,
            first.attempt,
            first.fence,
            first.options.priority,
            0,
            lease_ms,
            array_id=b"" if first.array is None else first.array.array_id,
            job_key=first.key,
            run=None if is_alone else Run(effect.job_ids, keys=keys_of(records)),
        )
    )
    out.effects.append(effect)


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
    """The leases of these attempts ran out."""
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


def assignment_of(state: GridState, records: Sequence[JobRecord]) -> SendAssign:
    """The message to the worker of running attempts of equal jobs with consecutive fences. Tasks
    are sent one by one."""
    record = records[0]
    array = record.array
    if len(records) == 1:
        job_ids = record.job_id
        bodies: tuple[bytes, ...] = (state.bodies.load(record.body),)
    else:
        job_ids = b"".join([record.job_id for record in records])
        bodies = tuple(state.bodies.load_all([record.body for record in records]))
    blobs: list[tuple[BlobRef, ...]] = []
    if array is not None or any(map(_past, records)):
        blobs = [files_of(record) for record in records]
    return SendAssign(
        record.worker_id,
        job_ids,
        record.attempt,
        record.fence,
        record.lease_ms,
        record.client.client_id,
        record.queue,
        record.exec_name,
        bodies,
        record.options,
        -1 if array is None else array.number_of(record.job_id),
        tuple(blobs) if any(blobs) else (),
    )


def files_of(record: JobRecord) -> tuple[BlobRef, ...]:
    """The blobs that an attempt of this job needs."""
    if record.array is not None:
        return record.array.blobs
    return () if record.past is None else record.past.blobs

"""State changes of records: the only code that changes a job's state and the counts derived from
it.

Handlers decide, these functions execute. Every count (queue, client, worker, array) changes only in
a pair of functions here, is never clamped, and `invariants` recounts it from the tables.
`enter_assigned` and `leave_assigned` are the pair for attempts in flight; `put_job` and `drop_job`
for existence; `move` for states.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Final
from zlib import crc32

from rollq.base.errors import ErrorCode, LocalError
from rollq.base.jobs import Status
from rollq.base.limits import ATTEMPTS_MAX, DETAIL_BYTES_MAX
from rollq.base.requests import all_kept, kept_of
from rollq.grid.commands import NOBODY, AckJob, Cause
from rollq.grid.edges import forget_edges, note_change, note_ends
from rollq.grid.effects import Applied
from rollq.grid.events import (
    JOB_CANCELLED,
    JOB_DEAD,
    JOB_FORGOTTEN,
    JOB_NACKED,
    JOB_RETRIED,
    JOB_TIMED_OUT,
    JOB_WORKER_LOST,
)
from rollq.grid.facts import alike_groups, array_fact, fact, result_of, results_of, run_fact
from rollq.grid.limits import give_tokens, take_tokens
from rollq.grid.refs import (
    files_crc,
    give_up_files,
    hold_blobs,
    hold_files,
    release_blobs,
    release_files,
)
from rollq.grid.state import (
    ASSIGNED,
    CANCELLED,
    DEAD,
    DELAYED,
    DONE,
    PREFIX_BYTES,
    QUEUED,
    ArrayRecord,
    AttemptOutcome,
    ClientRecord,
    EndRecord,
    GridState,
    JobRecord,
    JobState,
    PastRecord,
    QueueRecord,
    WorkerRecord,
)
from rollq.grid.tasks import discount_cut, end_task

_past = attrgetter("past")

FAILED: Final = int(Status.FAILED)
REQUEUE_KINDS: dict[int, str] = {
    Cause.LEASE_LOST: JOB_TIMED_OUT,
    Cause.WORKER_DOWN: JOB_WORKER_LOST,
    Cause.WORKER_RESTARTED: JOB_WORKER_LOST,
    Cause.NACKED: JOB_NACKED,
    Cause.EXIT_CODE: JOB_RETRIED,
}


def put_job(state: GridState, record: JobRecord) -> None:
    """Add a new record to the tables, counted in its state."""
    state.jobs[record.job_id] = record
    state.job_index.fresh.append(record)
    state.queues[record.queue].counts[record.state] += 1
    own(state, record.client)
    if record.past is not None:
        hold_files(state, record.past, record.client.client_id)
    if record.array is not None:
        record.array.record_count += 1
        record.array.open_tasks[record.job_id] = None


def own(state: GridState, client: ClientRecord, count: int = 1) -> None:
    """A client has `count` more records."""
    client.record_count += count
    if client.idle_seq:
        state.idle_clients.remove(client.idle_seq)
        client.idle_seq = 0


def disown(state: GridState, client: ClientRecord, count: int = 1) -> None:
    """A client has `count` records less."""
    client.record_count -= count
    if not client.record_count:
        rest_client(state, client)


def rest_client(state: GridState, client: ClientRecord) -> None:
    """The client has no records: it may be evicted."""
    client.idle_seq = next_seq(state)
    state.idle_clients.add(client.idle_seq, client.client_id)


def next_seq(state: GridState) -> int:
    """A sequence number that no record has."""
    state.last_seq = seq = state.last_seq + 1
    return seq


def move(state: GridState, record: JobRecord, new: JobState, stamp_ms: int) -> None:
    """Change the state of a job and the counts of its queue."""
    counts = state.queues[record.queue].counts
    counts[record.state] -= 1
    counts[new] += 1
    record.state = new
    record.stamp_ms = stamp_ms


def enter_assigned(
    state: GridState,
    records: Sequence[JobRecord],
    worker: WorkerRecord,
    lease_ms: int,
    stamp_ms: int,
) -> None:
    """Start an attempt of each of these equal queued jobs on this worker, under consecutive fences.

    Invariant while a job is ASSIGNED: it is in `held` of its worker only, counts once in
    `in_flight` of its client and in `running` of its array, holds the tokens of its limits, and has
    its highest fence so far.
    """
    first, count = records[0], len(records)
    fence, attempt, worker_id = state.last_fence, first.attempt + 1, worker.worker_id
    state.last_fence += count
    for record in records:
        fence += 1
        record.state = ASSIGNED
        record.stamp_ms = stamp_ms
        record.fence = fence
        record.attempt = attempt
        record.worker_id = worker_id
        record.lease_ms = lease_ms
    worker.held.update(dict.fromkeys([record.job_id for record in records]))
    counts = state.queues[first.queue].counts
    counts[QUEUED] -= count
    counts[ASSIGNED] += count
    first.client.in_flight += count
    if first.array is not None:
        first.array.running += count
    if state.limits:
        take_tokens(state, first, count, stamp_ms)


def leave_assigned(state: GridState, record: JobRecord, new: JobState, stamp_ms: int) -> None:
    """The attempt has ended (`end_done` does this for many). The inverse of `enter_assigned`,
    except for attempt, fence and worker, which an end keeps and a lost attempt clears."""
    del state.workers[record.worker_id].held[record.job_id]
    record.client.in_flight -= 1
    record.lease_ms = 0
    if record.array is not None:
        record.array.running -= 1
    if state.limits:
        give_tokens(state, record)
    move(state, record, new, stamp_ms)


def lose_attempt(
    state: GridState,
    record: JobRecord,
    cause: Cause,
    delay_ms: int,
    out: Applied,
    *,
    detail: str = "",
    ack: AckJob | None = None,
    not_started: bool = False,
) -> None:
    """The running attempt gave no result: requeue the job, or end it if it may not run again. An
    attempt that is known not to have started does not count for max_attempts."""
    detail = detail[:DETAIL_BYTES_MAX]
    worker_id, fence = record.worker_id, record.fence
    exit_code = 0 if ack is None else ack.exit_code
    past = remember_attempt(
        record, cause, exit_code=exit_code, detail=detail, stamp_ms=out.stamp_ms
    )
    past.not_started += not_started
    if record.cancel_requested:
        new, kind = CANCELLED, JOB_CANCELLED
    elif not not_started and starts_of(record) >= max_attempts(state, record):
        new, kind = DEAD, JOB_DEAD
    else:
        new, kind = (DELAYED if delay_ms > 0 else QUEUED), REQUEUE_KINDS[cause]
    leave_assigned(state, record, new, out.stamp_ms)
    record.worker_id = NOBODY
    record.fence = 0  # a late ack of this attempt is stale, whatever happens to the job
    record.delay_ms = delay_ms if new is DELAYED else 0
    out.events.append(
        fact(
            kind,
            record,
            worker_id=worker_id,
            fence=fence,
            delay_ms=record.delay_ms,
            cause=cause,
            detail=detail,
            ack=ack,
        )
    )
    if new is DEAD or new is CANCELLED:
        end = end_without(state, new, cause, detail)
        if ack is not None and new is DEAD:
            end.result, end.exit_code, end.run_ms = ack.result, ack.exit_code, ack.run_ms
            end.blobs = ack.blobs
        finish(state, record, end, out)


def remember_attempt(
    record: JobRecord, cause: Cause, exit_code: int, detail: str, stamp_ms: int
) -> PastRecord:
    """Record the outcome of the running attempt; the oldest is dropped if there are too many."""
    past = record.past
    if past is None:
        past = record.past = PastRecord()
    outcome = AttemptOutcome(
        record.attempt,
        record.worker_id,
        cause=cause,
        exit_code=exit_code,
        detail=detail,
        stamp_ms=stamp_ms,
    )
    past.attempts = (*past.attempts, outcome)[-ATTEMPTS_MAX:]
    return past


def starts_of(record: JobRecord) -> int:
    """The attempts that count for max_attempts: those since the last redrive that started, or may
    have started."""
    past = record.past
    return record.attempt if past is None else record.attempt - past.starts_base - past.not_started


def max_attempts(state: GridState, record: JobRecord) -> int:
    """The maximum number of counted attempts (since its last redrive)."""
    return record.options.max_attempts or state.settings.max_attempts


def end_waiting(
    state: GridState, record: JobRecord, new: JobState, out: Applied, *, cause: Cause, detail: str
) -> None:
    """End a waiting job without a result."""
    move(state, record, new, out.stamp_ms)
    record.delay_ms = 0
    finish(state, record, end_without(state, new, cause, detail), out)


def end_without(state: GridState, new: JobState, cause: Cause, detail: str) -> EndRecord:
    """An EndRecord without a worker's ack."""
    status = Status.CANCELLED if new is CANCELLED else Status.FAILED
    return EndRecord(next_seq(state), status, b"", cause=cause, detail=detail[:DETAIL_BYTES_MAX])


def end_done(
    state: GridState, records: Sequence[JobRecord], ends: Sequence[EndRecord], out: Applied
) -> None:
    """End attempts of equal jobs with their results: as `leave_assigned` and `finish` for each. The
    ends have consecutive seqs and the same status."""
    first, count, stamp_ms = records[0], len(records), out.stamp_ms
    client, array, queue = first.client, first.array, state.queues[first.queue]
    held = state.workers[first.worker_id].held
    for record, end in zip(records, ends, strict=False):
        del held[record.job_id]
        record.state = DONE
        record.stamp_ms = stamp_ms
        record.lease_ms = 0
        record.cancel_requested = False
        record.end = end
    job_ids = [record.job_id for record in records]
    client.in_flight -= count
    if state.limits:
        give_tokens(state, first, count)
    queue.counts[ASSIGNED] -= count
    queue.counts[DONE] += count
    if ends[0].status == FAILED:
        queue.failed += count
    drop_bodies(state, records, ends)
    client.owed.add_all(ends[0].seq, job_ids)
    if state.edges.children:
        note_ends(state, job_ids)
    for end in ends:
        if end.blobs:
            hold_blobs(state, end.blobs, client.client_id)
    out.effects.append(results_of(records, ends))
    if array is not None:
        array.running -= count
        for record in records:
            end_task(state, array, record, out)


def finish(state: GridState, record: JobRecord, end: EndRecord, out: Applied) -> None:
    """A job has ended: its result is owed to its client until it is confirmed."""
    record.end = end
    record.cancel_requested = False
    if record.state is DEAD:
        state.dead.add(end.seq, record.job_id)
    else:
        drop_body(state, record, end)
        if end.status == FAILED:
            state.queues[record.queue].failed += 1
    if end.blobs:
        hold_blobs(state, end.blobs, record.client.client_id)
    record.client.owed.add(end.seq, record.job_id)
    out.effects.append(result_of(record, end))
    if record.job_id in state.edges.children:
        note_change(state, record.job_id)
    if record.array is not None:
        end_task(state, record.array, record, out)


def drop_body(state: GridState, record: JobRecord, end: EndRecord) -> None:
    """As `drop_bodies` for one job."""
    if record.array is not None or record.past is not None:
        drop_bodies(state, (record,), (end,))
        return
    body = state.bodies.load(record.body)
    kept = kept_of(body)
    if kept is not body:
        end.body_crc = crc32(body)
        replace_body(state, record, kept)


def drop_bodies(state: GridState, records: Sequence[JobRecord], ends: Sequence[EndRecord]) -> None:
    """These equal jobs will not run again: keep only a checksum, to recognise a repeated submit,
    and what views need. Tasks have the body of their array. Most bodies are short and are kept, so
    this writes nothing."""
    if records[0].array is None:
        bodies = state.bodies.load_all([record.body for record in records])
        all_of_them = all_kept(bodies)
        if all_of_them is bodies and not any(map(_past, records)):
            return  # the bodies are short: kept
        for record, end, body, kept in zip(records, ends, bodies, all_of_them, strict=True):
            if record.past is not None:
                end.body_crc = submitted_crc(state, record)
                give_up_files(state, record.past, record.client.client_id)
            elif kept is not body:
                end.body_crc = crc32(body)
            if kept is not body:
                replace_body(state, record, kept)
    else:
        for record in records:
            replace_body(state, record, b"")
            if record.past is not None:
                give_up_files(state, record.past, record.client.client_id)


def change_queue(state: GridState, record: JobRecord, queue: QueueRecord) -> None:
    """Move a job to another queue."""
    left = record.queue
    state.queues[left].counts[record.state] -= 1
    queue.counts[record.state] += 1
    record.queue = queue.name
    maybe_drop_queue(state, left)


def replace_body(state: GridState, record: JobRecord, body: bytes) -> None:
    """Replace the body of a job."""
    drop_own_bodies(state, (record,))
    record.body = state.bodies.keep(body)


def drop_own_bodies(state: GridState, records: Sequence[JobRecord]) -> None:
    """Drop the bodies of equal jobs, unless they are that of their whole array."""
    array = records[0].array
    state.bodies.drop_all(
        [record.body for record in records if array is None or record.body is not array.body]
    )


def submitted_crc(state: GridState, record: JobRecord) -> int:
    """The checksum of the body as submitted, which a redrive may have replaced, and of the names of
    its files."""
    if record.end is not None and record.end.body_crc >= 0:
        return record.end.body_crc
    if record.past is not None and record.past.body_crc >= 0:
        return record.past.body_crc
    crc = crc32(state.bodies.load(record.body))
    return crc if record.past is None else files_crc(crc, record.past.blobs, record.past.caches)


def drop_jobs(state: GridState, records: Sequence[JobRecord], kind: str, out: Applied) -> None:
    """Delete the records of ended jobs. Adjacent equal ones share an event."""
    for group in alike_groups(records):
        if group[0].array is None:
            _remove(state, group)
            out.events.append(run_fact(kind, group))
        else:
            for record in group:
                drop_job(state, record, kind, out)


def drop_job(state: GridState, record: JobRecord, kind: str, out: Applied, by: str = "") -> None:
    """Delete the record of an ended job, and its array if only that kept it."""
    _remove(state, (record,))
    out.events.append(fact(kind, record, detail=by, by=by))
    array = record.array
    if array is not None:
        array.record_count -= 1
        maybe_drop_array(state, array, out)


def _remove(state: GridState, records: Sequence[JobRecord]) -> None:
    """Delete the records of equal ended jobs from every table."""
    first, jobs = records[0], state.jobs
    client, queue, job_state = first.client, state.queues[first.queue], first.state
    owed: list[int] = []  # the places of these jobs in the indexes of ends
    confirmed: list[int] = []
    for record in records:
        end = record.end
        if end is None:
            raise LocalError(ErrorCode.BUG, f"a job in {job_state.name} cannot be forgotten")
        if end.confirmed_seq:
            confirmed.append(end.confirmed_seq)
        else:
            owed.append(end.seq)
        if record.past is not None:
            give_up_files(state, record.past, client.client_id)
        if end.blobs:
            release_blobs(state, end.blobs, client.client_id)
        if end.status == FAILED and job_state is DONE:
            queue.failed -= 1
        if state.edges.parents:
            forget_edges(state, record.job_id)
        del jobs[record.job_id]
    drop_own_bodies(state, records)
    if owed:
        client.owed.remove_all(owed)
    if job_state is DEAD:
        state.dead.remove_all([record.end.seq for record in records if record.end is not None])
    else:
        state.confirmed.remove_all(confirmed)
    state.job_index.remove_all([record.seq for record in records])
    queue.counts[job_state] -= len(records)
    maybe_drop_queue(state, first.queue)
    disown(state, client, len(records))


def maybe_drop_array(state: GridState, array: ArrayRecord, out: Applied) -> None:
    """Delete an ended array whose TTL is over, once its last task record is gone."""
    if not array.forget_asked or array.record_count or not array.is_ended:
        return
    del state.arrays[array.array_id[:PREFIX_BYTES]]
    state.array_ids.remove(array.array_id)
    if array.needs_files:
        release_files(state, array, array.client.client_id)
    if array.cut_seq:
        array.client.owed.remove(array.cut_seq)
    if array.cut_at < array.task_count:
        discount_cut(state, array)
    out.events.append(array_fact(JOB_FORGOTTEN, array, array.task_count))
    disown(state, array.client)


def maybe_drop_queue(state: GridState, name: str) -> None:
    """Delete a queue that nothing refers to."""
    queue = state.queues[name]
    if not queue.paused and queue.is_empty:
        del state.queues[name]

"""The rows of the tables of the state (`rollq.history.tables`). Reads the state, changes nothing.

Whole tables are iterated only in a forked child, never on the loop. `ended_job` is cheap enough for
the loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import repeat
from typing import Final

from msgspec.structs import replace

from rollq.base.ids import guid_to_text
from rollq.base.jobs import DEFAULT_OPTIONS
from rollq.base.outcomes import exit_code_of, state_word
from rollq.base.requests import request_in
from rollq.base.staged import StagedGroup, ids_of, keys_of
from rollq.grid.chunks import groups_of
from rollq.grid.commands import Cause
from rollq.grid.refs import blob_bytes
from rollq.grid.state import (
    ASSIGNED,
    BLOCKED,
    CANCELLED,
    DEAD,
    DELAYED,
    DONE,
    QUEUED,
    AttemptOutcome,
    CommittedBatch,
    EndRecord,
    GridState,
    JobRecord,
    JobState,
    QueueRecord,
)
from rollq.history.tables import (
    ArrayTableRow,
    AttemptRow,
    DeadRow,
    EndedJob,
    JobTableRow,
    QueueRow,
    ResultRow,
    TableRow,
    WorkerTableRow,
    args_in,
    id_text,
    int32,
    int64,
    result_row,
    said_in,
)

STATE_NAMES: Final = tuple(state.name.lower() for state in JobState)  # by number
LOST_WORDS: Final[dict[int, str]] = {
    Cause.LEASE_LOST: "lease_lost",
    Cause.WORKER_DOWN: "worker_down",
    Cause.WORKER_RESTARTED: "worker_down",
    Cause.NACKED: "nacked",
    Cause.EXIT_CODE: "retried",
}


def table_rows(state: GridState, table: str) -> Iterator[TableRow]:
    """All rows of a table in `TABLES`."""
    return WALKS[table](state)


def job_rows(state: GridState) -> Iterator[JobTableRow]:
    """One for each job: first the records, then jobs of batches that are not unpacked yet."""
    yield from _record_rows(state)
    for batch, group in _batched_groups(state):
        options = group.options or DEFAULT_OPTIONS
        word = state_word(STATE_NAMES[_entering(group)], 0)
        columns = zip(
            ids_of(group.job_ids),
            group.sizes,
            keys_of(group),
            group.blobs or repeat(()),
            strict=False,
        )
        for job_id, size, key, blobs in columns:
            if job_id not in batch.known:
                yield JobTableRow(
                    guid_to_text(job_id),
                    key or None,
                    batch.client.client_id,
                    group.queue,
                    group.exec_name,
                    None,
                    word,
                    batch.stamp_ms,
                    options.priority,
                    delay_ms=0 if options.after else options.delay_ms,
                    body_bytes=size,
                    blob_bytes=blob_bytes(blobs),
                )


def _entering(group: StagedGroup) -> JobState:
    """The state in which the jobs of a group will begin, as far as it is known."""
    options = group.options or DEFAULT_OPTIONS
    return BLOCKED if options.after else DELAYED if options.delay_ms else QUEUED


def _batched_groups(state: GridState) -> Iterator[tuple[CommittedBatch, StagedGroup]]:
    """The groups of jobs in committed batches that are not unpacked yet."""
    for batch in state.committed.values():
        for chunk in batch.chunks:
            if not chunk.redrives:
                for group in groups_of(state, chunk):
                    yield batch, group


def _record_rows(state: GridState) -> Iterator[JobTableRow]:
    size = state.bodies.size
    for record in state.jobs.values():
        job_id, key, client_id, queue, exec_name, array_id = _identity(record)
        owner = record.past if record.array is None else record.array
        is_over = record.state is DONE or record.state is CANCELLED
        fixed = (
            *(job_id, key, client_id, queue, exec_name, array_id),
            _word(record),
            record.stamp_ms,
            record.options.priority,
            record.attempt,
            _worker_text(record.worker_id),
            record.fence,
            record.lease_ms,
            record.delay_ms,
            size(record.body),
            0 if owner is None or not owner.blobs or is_over else blob_bytes(owner.blobs),
        )
        end = record.end
        row = (
            JobTableRow(*fixed) if end is None else JobTableRow(*fixed, *_end_columns(record, end))
        )
        body = state.bodies.load(record.body)
        if not body and record.array is not None:
            body = record.array.body
        request = request_in(body)
        if request.is_payload:
            yield row
        else:
            files = tuple(one.name for one in request.files)
            yield replace(row, args=request.args, files=files, env=request.env)


def _word(record: JobRecord) -> str:
    """The state of a job in the words of the command line."""
    end = record.end
    return state_word(STATE_NAMES[record.state], 0 if end is None else end.status)


def _exit_code(record: JobRecord, end: EndRecord) -> int | None:
    name = STATE_NAMES[record.state]
    code = exit_code_of(name, end.exit_code, end.signal, end.run_ms)
    return None if code is None else int32(code)


def _identity(record: JobRecord) -> tuple[str, str | None, str, str, str, str | None]:
    """The leading columns of all job tables."""
    return (
        guid_to_text(record.job_id),
        record.key or None,
        record.client.client_id,
        record.queue,
        record.exec_name,
        None if record.array is None else guid_to_text(record.array.array_id),
    )


def _end_columns(
    record: JobRecord, end: EndRecord
) -> tuple[int, int | None, int, int, int, int, int, str | None, bool]:
    return (
        end.status,
        _exit_code(record, end),
        int32(end.signal),
        int64(end.run_ms),
        int64(end.peak_bytes),
        blob_bytes(end.blobs) if end.blobs else 0,
        end.cause,
        end.detail or None,
        end.confirmed_seq > 0,
    )


def attempt_rows(state: GridState) -> Iterator[AttemptRow]:
    """One for each known attempt, by job; the last one of a job comes last."""
    for record in state.jobs.values():
        if record.past is not None:
            for lost in record.past.attempts:
                yield _lost_row(record, lost)
        if record.fence:  # the attempt that runs or gave the result
            yield _last_row(record)


def _lost_row(record: JobRecord, lost: AttemptOutcome) -> AttemptRow:
    return AttemptRow(
        *_identity(record),
        lost.attempt,
        0,
        _worker_text(lost.worker_id),
        LOST_WORDS.get(lost.cause, "nacked"),
        lost.stamp_ms,
        int(lost.cause),
        int32(lost.exit_code) if lost.cause == Cause.EXIT_CODE else None,
        detail=lost.detail or None,
    )


def _last_row(record: JobRecord) -> AttemptRow:
    fixed = (
        *_identity(record),
        record.attempt,
        record.fence,
        _worker_text(record.worker_id),
    )
    end = record.end
    if end is None:
        return AttemptRow(*fixed, "running", record.stamp_ms)
    outcome = "cancelled" if record.state is CANCELLED else "failed" if end.status else "ok"
    return AttemptRow(
        *fixed,
        outcome,
        record.stamp_ms,
        int(end.cause),
        _exit_code(record, end),
        int32(end.signal),
        int64(end.run_ms),
        int64(end.peak_bytes),
        end.detail or None,
    )


def result_rows(state: GridState) -> Iterator[ResultRow]:
    """One for each job that has ended."""
    for record in state.jobs.values():
        ended = ended_job(record)
        if ended is not None:
            yield result_row(ended)


def ended_job(record: JobRecord) -> EndedJob | None:
    """The end of a job; None if it has not ended."""
    end = record.end
    if end is None:
        return None
    return EndedJob(
        record.job_id,
        record.key,
        record.client.client_id,
        record.queue,
        record.exec_name,
        b"" if record.array is None else record.array.array_id,
        STATE_NAMES[record.state],
        record.stamp_ms,
        record.attempt,
        record.worker_id,
        end.status,
        end.exit_code,
        end.signal,
        end.run_ms,
        end.peak_bytes,
        end.cause,
        end.detail,
        end.result,
        blob_bytes(end.blobs) if end.blobs else 0,
    )


def dead_rows(state: GridState) -> Iterator[DeadRow]:
    """One for each dead job, in the order of their deaths."""
    for job_id in state.dead:
        record = state.jobs[job_id]
        end = record.end
        assert end is not None, "a dead job has ended"
        said = said_in(end.result)
        body = state.bodies.load(record.body)
        yield DeadRow(
            *_identity(record),
            record.stamp_ms,
            record.options.priority,
            record.attempt,
            int(end.cause),
            Cause(end.cause).name.lower(),
            _exit_code(record, end),
            int64(end.run_ms),
            end.detail or None,
            said.stdout,
            said.stderr,
            args_in(body),
            body,
        )


def worker_rows(state: GridState) -> Iterator[WorkerTableRow]:
    """One for each worker."""
    for worker in state.workers.values():
        yield WorkerTableRow(
            guid_to_text(worker.worker_id),
            worker.name,
            worker.incarnation,
            worker.patterns,
            worker.slots,
            len(worker.held),
        )


def queue_rows(state: GridState) -> Iterator[QueueRow]:
    """One for each queue, and for those that jobs of batches will create."""
    coming: Counter[tuple[str, JobState]] = Counter()
    for batch, group in _batched_groups(state):
        new = sum(job_id not in batch.known for job_id in ids_of(group.job_ids))
        coming[group.queue, _entering(group)] += new
    cuts = state.cut_counts
    names = dict.fromkeys((*state.queues, *cuts, *(name for name, _ in coming)))
    for name in names:
        queue = state.queues.get(name) or QueueRecord(name)
        counts = list(queue.counts)
        counts[QUEUED] += queue.tasks_waiting
        for entered in (QUEUED, DELAYED, BLOCKED):
            counts[entered] += coming[name, entered]
        for job_state, count in enumerate(cuts.get(name, ())):
            counts[job_state] += count
        counts[BLOCKED:BLOCKED] = [queue.failed, queue.tasks_waiting, *_in_words(counts, queue)]
        yield QueueRow(name, queue.paused, *counts)


def _in_words(counts: list[int], queue: QueueRecord) -> tuple[int, int, int]:
    return counts[QUEUED], counts[ASSIGNED], counts[DONE] - queue.failed


def array_rows(state: GridState) -> Iterator[ArrayTableRow]:
    """One for each array."""
    for array in state.arrays.values():
        ended = array.ended_counts
        yield ArrayTableRow(
            guid_to_text(array.array_id),
            array.client.client_id,
            array.queue,
            array.exec_name,
            array.stamp_ms,
            array.options.priority,
            array.task_count,
            array.running_max,
            array.delayed,
            array.tasks_waiting,
            len(array.open_tasks),
            array.running,
            ended[DONE],
            ended[DEAD],
            ended[CANCELLED],
            len(array.body),
            blob_bytes(array.blobs),
            ended[DONE] - array.failed,
            array.failed,
        )


_worker_text = lru_cache(4_096)(id_text)  # few workers run many jobs

WALKS: Final[dict[str, Callable[[GridState], Iterator[TableRow]]]] = {
    "jobs": job_rows,
    "attempts": attempt_rows,
    "results": result_rows,
    "dlq": dead_rows,
    "workers": worker_rows,
    "queues": queue_rows,
    "arrays": array_rows,
}

"""Arrays: up to a million tasks in one record; a task becomes a job record when it is assigned.

An assigned task is an ordinary job from then on (retry, cancel, redrive, result); the array only
keeps how each task ended, two bits per task. Tasks that were never assigned end together, by one
*cut*, and their client gets one message for all of them.
"""

from __future__ import annotations

from sys import intern

from rollq.base.errors import ErrorCode
from rollq.base.ids import GUID_BYTES, JobId
from rollq.base.jobs import DEFAULT_OPTIONS
from rollq.base.limits import (
    ARRAY_TASKS_MAX,
    DETAIL_BYTES_MAX,
    INLINE_BYTES_MAX,
    RUN_JOBS_MAX,
)
from rollq.base.requests import kept_of
from rollq.grid.admission import (
    admit_client,
    admit_queue,
    refuse_submit,
    refused_bounds,
    share_options,
)
from rollq.grid.attempts import refuse_start, start_attempts
from rollq.grid.commands import AssignTask, AssignTasks, Cause, SubmitArray
from rollq.grid.effects import Applied, Outcome, Refused, RunDone
from rollq.grid.events import ARRAY_ENQUEUED, JOB_DEAD, JOB_EXPIRED, JOB_RELEASED
from rollq.grid.facts import array_fact, cut_result_of
from rollq.grid.moves import maybe_drop_array, maybe_drop_queue, next_seq, own, put_job
from rollq.grid.outcomes import (
    ARRAY_DELAYED,
    ARRAYS_FULL,
    BEING_UNPACKED,
    DONE_ONE,
    DUPLICATE_ENDED,
    DUPLICATE_OPEN,
    JOBS_FULL,
    NO_TASK_LEFT,
    UNKNOWN_ARRAY,
    UNKNOWN_WORKER,
)
from rollq.grid.refs import blob_bytes, hold_files, refuse_files
from rollq.grid.runs import alone
from rollq.grid.state import (
    DEAD,
    PREFIX_BYTES,
    QUEUED,
    ArrayRecord,
    GridState,
    JobRecord,
    JobState,
    WorkerRecord,
)
from rollq.grid.tasks import count_cut, mark_task, maybe_end_array


def submit_array(state: GridState, command: SubmitArray, out: Applied) -> Outcome:
    """Accept an array; a repeated submit gets the outcome of the first."""
    array = state.arrays.get(command.array_id[:PREFIX_BYTES])
    if array is not None:
        return repeat_array(array, command)
    refusal = refuse_array(state, command)
    if refusal is not None:
        return refusal
    options = share_options(state, command.options)
    queue = admit_queue(state, command.queue)
    array = ArrayRecord(
        command.array_id,
        admit_client(state, command.client_id),
        queue=queue.name,
        exec_name=intern(command.exec_name),
        body=command.body,
        options=options,
        task_count=command.task_count,
        running_max=command.running_max,
        seq=next_seq(state),
        stamp_ms=out.stamp_ms,
        delayed=options.delay_ms > 0,
        cut_at=command.task_count,
        blobs=command.blobs,
        caches=command.caches,
        first_task=command.first_task,
    )
    state.arrays[command.array_id[:PREFIX_BYTES]] = array
    state.array_ids.add(command.array_id)
    own(state, array.client)
    hold_files(state, array, array.client.client_id)
    queue.tasks_waiting += command.task_count
    out.events.append(
        array_fact(
            ARRAY_ENQUEUED,
            array,
            command.task_count,
            delay_ms=options.delay_ms,
            blob_bytes=blob_bytes(array.blobs),
            request=kept_of(command.body),
        )
    )
    skip_taken(state, array, out)
    return DONE_ONE


def repeat_array(array: ArrayRecord, command: SubmitArray) -> Outcome:
    """The outcome of a submit whose range of ids is taken."""
    if array.array_id != command.array_id:
        return Refused(ErrorCode.ID_CONFLICT, "the ids belong to another array", command.array_id)
    same = (
        array.client.client_id == command.client_id
        and array.queue == command.queue
        and array.exec_name == command.exec_name
        and array.body == command.body
        and array.task_count == command.task_count
        and array.running_max == command.running_max
        and array.options == (command.options or DEFAULT_OPTIONS)
        and array.blobs == command.blobs
        and array.caches == command.caches
        and array.first_task == command.first_task
    )
    if not same:
        return Refused(ErrorCode.JOB_CONFLICT, "the id names another array", command.array_id)
    return DUPLICATE_ENDED if array.is_ended else DUPLICATE_OPEN


def refuse_array(state: GridState, command: SubmitArray) -> Refused | None:
    """Why this array may not be created."""
    if len(command.array_id) != GUID_BYTES:
        return refused_bounds("array_id does not have 16 bytes")
    if not 1 <= command.task_count <= ARRAY_TASKS_MAX:
        return refused_bounds(f"task_count is not 1 to {ARRAY_TASKS_MAX}")
    if command.options is not None and command.options.after:
        return refused_bounds("an array cannot wait for other jobs")
    if command.running_max < 0:
        return refused_bounds("running_max is negative")
    if command.first_task not in (0, 1):
        return refused_bounds("first_task is not 0 or 1")
    if len(command.body) > INLINE_BYTES_MAX:
        return refused_bounds(f"body is larger than {INLINE_BYTES_MAX} bytes")
    if command.array_id in state.reserved:
        return BEING_UNPACKED
    if command.array_id in state.jobs:
        return Refused(ErrorCode.ID_CONFLICT, "the id names a job", command.array_id)
    if len(state.arrays) >= state.bounds.arrays:
        return ARRAYS_FULL
    return refuse_submit(
        state, command.client_id, command.queue, command.exec_name, command.options
    ) or refuse_files(state, command.blobs, command.caches)


def assign_tasks(state: GridState, command: AssignTasks, out: Applied) -> Outcome:
    """Create job records for the next tasks of an array and start them: as many as are allowed."""
    if not 0 < command.count <= RUN_JOBS_MAX:
        return refused_bounds(f"count is not 1 to {RUN_JOBS_MAX}")
    array = state.array_of(command.array_id)
    if array is None:
        return UNKNOWN_ARRAY
    worker = state.workers.get(command.worker_id)
    count = 0
    refusal: Refused | None = None
    while count < command.count and refusal is None:
        refusal = refuse_tasks(state, array, worker, command.incarnation)
        if refusal is None and worker is not None:
            records = next_tasks(state, array, command.count - count, out)
            start_attempts(state, records, worker, command.lease_ms, out)
            count += len(records)
            skip_taken(state, array, out)
    if refusal is None:
        return RunDone(count)
    return RunDone(count, tuple((at, refusal) for at in range(count, command.count)))


def refuse_tasks(
    state: GridState, array: ArrayRecord, worker: WorkerRecord | None, incarnation: int
) -> Refused | None:
    """Why the next task of an array may not start on this worker."""
    if not array.tasks_waiting:
        return NO_TASK_LEFT
    if array.delayed:
        return ARRAY_DELAYED
    if worker is None or worker.incarnation != incarnation:
        return UNKNOWN_WORKER
    refusal = refuse_start(state, array, array, worker)
    if refusal is None and len(state.jobs) >= state.bounds.jobs:
        return JOBS_FULL
    return refusal


def next_tasks(
    state: GridState, array: ArrayRecord, count_max: int, out: Applied
) -> list[JobRecord]:
    """Job records for the next tasks of an array, the first of which may start: up to the next
    limit, or the next id that is taken."""
    count = min(count_max, array.tasks_waiting, state.bounds.jobs - len(state.jobs))
    cap = state.cap_of(array.client)
    if cap:
        count = min(count, cap - array.client.in_flight)
    if array.running_max:
        count = min(count, array.running_max - array.running)
    number = array.next_number
    job_ids = [array.id_of(number) for number in range(number, number + count)]
    taken = [at for at, job_id in enumerate(job_ids) if is_taken(state, job_id)]
    records = [
        JobRecord(
            job_id,
            array.client,
            array.queue,
            array.exec_name,
            array.body,
            array.options,
            QUEUED,
            next_seq(state),
            out.stamp_ms,
            array=array,
        )
        for job_id in job_ids[: taken[0] if taken else count]
    ]
    for record in records:
        put_job(state, record)
        pass_task(state, array)
    return records


def assign_task(state: GridState, command: AssignTask, out: Applied) -> Outcome:
    """As a run of one; written by older leaders."""
    where = command.array_id, command.worker_id, command.incarnation, command.lease_ms
    return alone(assign_tasks(state, AssignTasks(*where, 1), out))


def pass_task(state: GridState, array: ArrayRecord) -> None:
    """Advance past the next task of the array."""
    array.next_number += 1
    state.queues[array.queue].tasks_waiting -= 1


def skip_taken(state: GridState, array: ArrayRecord, out: Applied) -> None:
    """End tasks whose ids are taken by jobs older than the array, so that the next id is free.
    Random ids of 96 bits do not collide, but a client may choose them. Later jobs cannot: their ids
    are refused."""
    while array.tasks_waiting and is_taken(state, array.id_of(array.next_number)):
        number = array.next_number
        pass_task(state, array)
        mark_task(array, number, DEAD)
        out.events.append(
            array_fact(JOB_DEAD, array, 1, cause=Cause.ID_TAKEN, detail=f"task {number}")
        )
        maybe_end_array(state, array, out)
        maybe_drop_queue(state, array.queue)


def is_taken(state: GridState, job_id: JobId) -> bool:
    """Whether a job has this id, or is accepted with it and not unpacked yet."""
    return job_id in state.jobs or job_id in state.reserved


def release_array(state: GridState, array_id: JobId, out: Applied) -> int:
    """End an array's delay; 0 if it had none."""
    array = state.array_of(array_id)
    if array is None or not array.delayed:
        return 0
    array.delayed = False
    array.stamp_ms = out.stamp_ms
    out.events.append(array_fact(JOB_RELEASED, array, array.tasks_waiting))
    return 1


def cut_array(
    state: GridState, array: ArrayRecord, end: JobState, out: Applied, *, kind: str, by: str = ""
) -> int:
    """End all tasks that were never assigned; returns how many."""
    count = array.tasks_waiting
    if count:
        array.cut_at = array.next_number
        array.cut_as = end
        array.cut_by = by[:DETAIL_BYTES_MAX]
        array.cut_seq = next_seq(state)
        array.client.owed.add(array.cut_seq, array.first_cut_id)
        out.effects.append(cut_result_of(array))
        array.delayed = False
        array.ended_counts[end] += count
        count_cut(state, array)
        state.queues[array.queue].tasks_waiting -= count
        cause = Cause.EXPIRED if kind == JOB_EXPIRED else Cause.NONE
        out.events.append(array_fact(kind, array, count, cause=cause, detail=by, by=by))
        maybe_drop_queue(state, array.queue)
        maybe_end_array(state, array, out)
    return count


def forget_array(state: GridState, array: ArrayRecord, out: Applied) -> int:
    """An ended array's TTL is over: it is removed with its last task record."""
    if not array.is_ended:
        return 0
    array.forget_asked = True
    maybe_drop_array(state, array, out)
    return 1

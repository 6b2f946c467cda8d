"""The ends of an array's tasks: two bits per task, in chunks created when first needed."""

from __future__ import annotations

from rollq.base.jobs import Status
from rollq.grid.edges import note_change
from rollq.grid.effects import Applied
from rollq.grid.events import ARRAY_ENDED
from rollq.grid.facts import array_fact
from rollq.grid.refs import release_files
from rollq.grid.state import (
    ASSIGNED,
    DONE,
    TASKS_PER_CHUNK,
    ArrayRecord,
    GridState,
    JobRecord,
    JobState,
)


def end_task(state: GridState, array: ArrayRecord, record: JobRecord, out: Applied) -> None:
    """Record the end of a task in its array, and the array's if it was the last."""
    del array.open_tasks[record.job_id]
    mark_task(array, array.number_of(record.job_id), record.state)
    if record.state is DONE and record.end is not None and record.end.status == Status.FAILED:
        array.failed += 1
    maybe_end_array(state, array, out)


def mark_task(array: ArrayRecord, number: int, end: JobState) -> None:
    """Set a task's two bits: 0 not ended, 1 done, 2 dead, 3 cancelled."""
    chunk = array.chunks.get(number // TASKS_PER_CHUNK)
    if chunk is None:
        chunk = array.chunks[number // TASKS_PER_CHUNK] = bytearray(TASKS_PER_CHUNK // 4)
    place = number % TASKS_PER_CHUNK
    chunk[place // 4] |= (end - ASSIGNED) << (place % 4 * 2)
    array.ended_counts[end] += 1


def maybe_end_array(state: GridState, array: ArrayRecord, out: Applied) -> None:
    """Emit the end of an array if its last task has just ended."""
    if array.is_ended:
        if not array.needs_files:
            release_files(state, array, array.client.client_id)
        array.stamp_ms = out.stamp_ms
        if array.array_id in state.edges.children:
            note_change(state, array.array_id)
        out.events.append(array_fact(ARRAY_ENDED, array, array.task_count))


def count_cut(state: GridState, array: ArrayRecord) -> None:
    """Count the tasks of a cut in their queue, as long as the array exists."""
    counts = state.cut_counts.setdefault(array.queue, [0] * len(JobState))
    counts[array.cut_as] += array.task_count - array.cut_at


def discount_cut(state: GridState, array: ArrayRecord) -> None:
    """An array with a cut is deleted: the inverse of `count_cut`."""
    counts = state.cut_counts[array.queue]
    counts[array.cut_as] -= array.task_count - array.cut_at
    if not any(counts):
        del state.cut_counts[array.queue]


def reopen_task(array: ArrayRecord, record: JobRecord) -> None:
    """A dead task is redriven; call before its state changes."""
    array.open_tasks[record.job_id] = None
    number = array.number_of(record.job_id)
    place = number % TASKS_PER_CHUNK
    array.chunks[number // TASKS_PER_CHUNK][place // 4] &= ~(3 << (place % 4 * 2))
    array.ended_counts[record.state] -= 1


def task_end(array: ArrayRecord, number: int) -> JobState | None:
    """The end of a task; None if it has not ended."""
    if number >= array.cut_at:
        return array.cut_as
    chunk = array.chunks.get(number // TASKS_PER_CHUNK)
    if chunk is None:
        return None
    place = number % TASKS_PER_CHUNK
    bits = chunk[place // 4] >> (place % 4 * 2) & 3
    return JobState(bits + ASSIGNED) if bits else None

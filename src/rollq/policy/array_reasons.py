"""Why an array is not finished, or how it ended: its tasks grouped by reason."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from rollq.base.amounts import counted, time_text
from rollq.base.ids import JobId
from rollq.base.jobs import Status
from rollq.base.outcomes import (
    CANCELLED,
    DEAD,
    DELAYED,
    FAILED,
    OK,
    RUNNING,
    WAITING,
    canceller_text,
)
from rollq.base.reasons import Reason
from rollq.grid.explanations import RawExplanation, TaskGroup
from rollq.grid.state import ASSIGNED, ArrayRecord, EndRecord, GridState, JobRecord, JobState
from rollq.policy import advice
from rollq.policy.endings import ReadResult, how_ended, lost_reason

# Explanations are made in the leader's loop, so the number of tasks read is bounded.
TASKS_LOOKED_AT_MAX: Final = 20_000
FAILURES_READ_MAX: Final = 500
GROUPS_MAX: Final = 20


class StateReason(NamedTuple):
    """Why something waits, or that it runs."""

    code: Reason
    text: str
    todo: tuple[str, ...] = ()


def grouped(
    state: GridState,
    array: ArrayRecord,
    waiting_for: StateReason | None,
    read: ReadResult,
    address: str,
) -> RawExplanation:
    """The explanation of an array: how many tasks wait, run and have ended, and why. `waiting_for`
    is why the next task does not start, if one waits for its first start."""
    groups: dict[tuple[str, str], TaskGroup] = {}
    if waiting_for is not None:
        word = DELAYED if array.delayed else WAITING
        _count(groups, TaskGroup(array.tasks_waiting, word, waiting_for.code, waiting_for.text))
    helps: dict[JobId, tuple[str, ...]] = {}  # by failed task
    for job_id in islice(array.open_tasks, TASKS_LOOKED_AT_MAX):
        _count(groups, _of_open(state.jobs[job_id]))
    for record, end in islice(_failures(state, array), FAILURES_READ_MAX):
        ended = how_ended(state, record, end, read=read, address=address)
        helps[record.job_id] = ended.todo[:1]
        _count(
            groups, TaskGroup(1, ended.state, code=ended.code, why=ended.why, job_id=record.job_id)
        )
    if array.cut_at < array.task_count:
        ended = cut_reason(array, array.first_cut_id)
        _count(
            groups, TaskGroup(array.task_count - array.cut_at, ended.state, ended.code, ended.why)
        )
    shown = sorted(groups.values(), key=lambda one: -one.count)[:GROUPS_MAX]
    state_word, code = _state_and_reason(array, waiting_for)
    todo: tuple[str, ...] = (advice.look_at(array.array_id),)
    if waiting_for is not None:
        todo = waiting_for.todo
    elif state_word in (DEAD, FAILED):
        todo = next((helps[one.job_id] for one in shown if helps.get(one.job_id)), todo)
    return RawExplanation(
        array.array_id,
        state_word,
        code=code,
        why=_sentence(array, waiting_for),
        todo=todo,
        since_ms=array.stamp_ms,
        groups=tuple(shown),
    )


def cut_reason(array: ArrayRecord, job_id: JobId) -> RawExplanation:
    """The explanation of a task that ended before it was ever assigned."""
    if array.cut_as is JobState.DEAD:
        limit = time_text(array.options.expire_ms)
        why = f"its array waited longer than the {limit} that it may; the task never started"
        return RawExplanation(job_id, DEAD, Reason.EXPIRED, why, since_ms=array.stamp_ms)
    by = f" by {canceller_text(array.cut_by)}" if array.cut_by else ""
    why = f"cancelled with its array{by}; the task never started"
    return RawExplanation(job_id, CANCELLED, Reason.CANCELLED_BY, why, since_ms=array.stamp_ms)


def _count(groups: dict[tuple[str, str], TaskGroup], more: TaskGroup) -> None:
    key = more.state, more.code
    before = groups.get(key)
    if before is None:
        groups[key] = more
    else:
        example = before if before.job_id else more
        groups[key] = TaskGroup(
            before.count + more.count,
            more.state,
            code=more.code,
            why=example.why,
            job_id=example.job_id,
        )


def _of_open(record: JobRecord) -> TaskGroup:
    """Of a task that has started and not ended."""
    if record.state is ASSIGNED:
        return TaskGroup(1, RUNNING, code=Reason.RUNNING, why="running", job_id=record.job_id)
    why = "to be tried again"
    lost = record.past.attempts if record.past is not None else ()
    if lost:
        why += f": {lost_reason(lost[-1].cause, lost[-1].detail, lost[-1].exit_code)[1]}"
    word = DELAYED if record.state is JobState.DELAYED else WAITING
    return TaskGroup(1, word, code=Reason.RETRYING, why=why, job_id=record.job_id)


def _failures(state: GridState, array: ArrayRecord) -> Iterator[tuple[JobRecord, EndRecord]]:
    """Tasks that ran and did not end well, as far as they are still known."""
    if not (array.failed or any(map(array.ended_counts.__getitem__, NOT_DONE))):
        return
    for number in range(min(array.next_number, TASKS_LOOKED_AT_MAX)):
        record = state.jobs.get(array.id_of(number))
        if record is not None and record.end is not None and record.end.status != Status.OK:
            yield record, record.end


NOT_DONE: Final = (JobState.DEAD, JobState.CANCELLED)


def _state_and_reason(array: ArrayRecord, waiting_for: StateReason | None) -> tuple[str, str]:
    if waiting_for is not None:
        word = RUNNING if array.running else DELAYED if array.delayed else WAITING
        return word, waiting_for.code
    if array.open_tasks:
        return (RUNNING, Reason.RUNNING) if array.running else (WAITING, Reason.RETRYING)
    counts = array.ended_counts
    for is_so, word in (
        (counts[JobState.DEAD], DEAD),
        (array.failed, FAILED),
        (counts[JobState.CANCELLED], CANCELLED),
    ):
        if is_so:
            code = Reason.CANCELLED_BY if word == CANCELLED else Reason.TASKS_FAILED
            return word, code
    return OK, Reason.OK


def _sentence(array: ArrayRecord, waiting_for: StateReason | None) -> str:
    counts = array.ended_counts
    retrying = len(array.open_tasks) - array.running
    figures = (
        (array.tasks_waiting, "waiting"),
        (array.running, "running"),
        (retrying, "to be tried again"),
        (counts[JobState.DONE] - array.failed, "ok"),
        (array.failed, "failed"),
        (counts[JobState.DEAD], "dead"),
        (counts[JobState.CANCELLED], "cancelled"),
    )
    parts = ", ".join(f"{count} {word}" for count, word in figures if count)
    tasks = f"{counted(array.task_count, 'task')}: {parts}"
    return f"{waiting_for.text}; of {tasks}" if waiting_for is not None else f"of {tasks}"

"""Dependencies at the leader: it proposes to tell children of the ends of their parents, where one
entry could not tell all of them, and adds what a child is to have of its parents to its assignment:
their results, or how they ended."""

from __future__ import annotations

from typing import Final

from rollq.base.edges import each_edge
from rollq.base.flow_limits import PARENT_ENDS_BYTES_MAX, PARENT_RESULTS_BYTES_MAX
from rollq.base.ids import JobId
from rollq.base.jobs import Condition, ParentEnd, ParentResult
from rollq.base.outcomes import CANCELLED, FAILED, OK, RUNNING, UNKNOWN, state_word
from rollq.grid.edge_records import Ending
from rollq.grid.edges import ending_of, learns_ends, uses_results
from rollq.grid.flow_commands import SettleChildren
from rollq.grid.state import DONE, ArrayRecord, GridState, JobRecord, JobState

REF_BYTES: Final = 64  # that an id or a blob takes in a message, or more
NUMBERS_BYTES: Final = 96  # likewise, of id, state and numbers of a parent
ARRAY_WORDS: Final = {
    Ending.OPEN: RUNNING,
    Ending.OK: OK,
    Ending.FAILED: FAILED,
    Ending.CANCELLED: CANCELLED,
}


class ChildSettler:
    """Proposes the steps, each once and after the one before."""

    __slots__ = ("_asked",)

    def __init__(self) -> None:
        self._asked = -1  # the position of the last step that was proposed

    def due(self, state: GridState) -> list[SettleChildren]:
        """The next step, if there is one and it is not on its way."""
        table = state.edges
        if not table.unsettled or self._asked == table.position:
            return []
        self._asked = table.position
        return [SettleChildren(table.position)]


def results_for(state: GridState, job_id: JobId) -> tuple[ParentResult, ...]:
    """The results that a job uses. Those that are forgotten are left out, and those that do not fit
    the message: its worker says so."""
    if not uses_results(state, job_id):
        return ()
    found: list[ParentResult] = []
    room = PARENT_RESULTS_BYTES_MAX
    for parent_id, condition, _ in each_edge(state.edges.parents[job_id].edges):
        parent = state.jobs.get(parent_id)
        end = None if parent is None or parent.state is not DONE else parent.end
        if condition != Condition.RESULT or end is None:
            continue
        room -= len(end.result) + REF_BYTES * (1 + len(end.blobs))
        if room < 0:
            break
        found.append(ParentResult(parent_id, end.result, end.blobs))
    return tuple(found)


def ends_for(state: GridState, job_id: JobId) -> tuple[ParentEnd, ...]:
    """How the parents of a job stand, if it is to know. One that was redriven meanwhile is on its
    way again."""
    if not learns_ends(state, job_id):
        return ()
    found: list[ParentEnd] = []
    room = PARENT_ENDS_BYTES_MAX
    for parent_id, _, _ in each_edge(state.edges.parents[job_id].edges):
        end = _end_of(state, parent_id)
        room -= NUMBERS_BYTES + len(f"{end.exec_name}{end.queue}{end.key}".encode())
        found.append(end if room >= 0 else ParentEnd(parent_id, end.state))
    return tuple(found)


def _end_of(state: GridState, parent_id: JobId) -> ParentEnd:
    array = state.array_of(parent_id)
    if array is not None:
        return _end_of_array(array, ending_of(state, parent_id))
    record = state.jobs.get(parent_id)
    return ParentEnd(parent_id, UNKNOWN) if record is None else _end_of_job(record)


def _end_of_job(record: JobRecord) -> ParentEnd:
    end, inner = record.end, record.state.name.lower()
    known = (record.exec_name, record.queue, record.key)
    if end is None:
        return ParentEnd(record.job_id, state_word(inner, 0), *known, attempts=record.attempt)
    return ParentEnd(
        record.job_id,
        state_word(inner, end.status),
        *known,
        exit_code=end.exit_code,
        signal=end.signal,
        run_ms=end.run_ms,
        attempts=record.attempt,
        cause=end.cause,
        ended_ms=record.stamp_ms,
    )


def _end_of_array(array: ArrayRecord, ending: Ending) -> ParentEnd:
    counts = array.ended_counts
    ended = (counts[JobState.DONE] - array.failed, array.failed)
    return ParentEnd(
        array.array_id,
        ARRAY_WORDS[ending],
        *(array.exec_name, array.queue),
        ended_ms=array.stamp_ms if array.is_ended else 0,
        tasks=(*ended, counts[JobState.DEAD], counts[JobState.CANCELLED]),
    )

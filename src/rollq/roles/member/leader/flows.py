"""Dependencies on the leader: proposes to settle children of ended parents where one entry cannot
settle all of them, and adds the results or the ends of parents to the assignments of children."""

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

REF_BYTES: Final = 64  # upper bound of an id or a blob reference in a message
NUMBERS_BYTES: Final = 96  # upper bound of a parent's id, state and numbers
ARRAY_WORDS: Final = {
    Ending.OPEN: RUNNING,
    Ending.OK: OK,
    Ending.FAILED: FAILED,
    Ending.CANCELLED: CANCELLED,
}


class ChildSettler:
    """Proposes the settle steps, each once and after the one before is applied."""

    __slots__ = ("_proposed",)

    def __init__(self) -> None:
        self._proposed = -1  # the position of the last proposed step

    def due(self, state: GridState) -> list[SettleChildren]:
        """The next step, unless it is proposed already or there is none."""
        table = state.edges
        if not table.unsettled or self._proposed == table.position:
            return []
        self._proposed = table.position
        return [SettleChildren(table.position)]


def results_for(state: GridState, job_id: JobId) -> tuple[ParentResult, ...]:
    """The parents' results that a job uses. Expired ones are left out, as are those that do not fit
    the message: the worker reports the missing ones."""
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
    """The states of a job's parents, if the job uses them. A parent that was redriven meanwhile is
    not ended."""
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

"""Dependencies: what may be waited for, how an end is judged, and who waits for whom.

An edge is open until its parent has ended as its condition says; then it is met, and stays so. What
follows for children from the end of a parent is done in `settling`: an end only notes here that
there is something to settle, so that it costs the same with any number of children.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from rollq.base.edges import EDGE_BYTES, MET, each_edge
from rollq.base.errors import ErrorCode
from rollq.base.flow_limits import CHILDREN_SWEPT_MIN
from rollq.base.ids import GUID_BYTES, JobId, guid_to_text
from rollq.base.jobs import DEFAULT_OPTIONS, Condition, JobOptions, ParentRef, Status
from rollq.grid.edge_records import Ending, ParentsRecord, UnsettledParent
from rollq.grid.effects import Refused
from rollq.grid.state import (
    BLOCKED,
    CANCELLED,
    DONE,
    PREFIX_BYTES,
    ArrayRecord,
    GridState,
    JobRecord,
)

# What a condition says of an end; None: nothing yet.
VERDICTS: Final[dict[tuple[int, Ending], bool | None]] = {
    **{(condition, Ending.OPEN): None for condition in Condition},
    **{(condition, Ending.UNKNOWN): False for condition in Condition},
    (Condition.OK, Ending.OK): True,
    (Condition.OK, Ending.FAILED): False,
    (Condition.OK, Ending.CANCELLED): False,
    (Condition.RESULT, Ending.OK): True,
    (Condition.RESULT, Ending.FAILED): False,
    (Condition.RESULT, Ending.CANCELLED): False,
    (Condition.ENDED, Ending.OK): True,
    (Condition.ENDED, Ending.FAILED): True,
    (Condition.ENDED, Ending.CANCELLED): True,
    (Condition.FAILED, Ending.OK): False,
    (Condition.FAILED, Ending.FAILED): True,
    (Condition.FAILED, Ending.CANCELLED): False,
}

# Bytes of edges whose job is told how its parents ended.
TOLD: Final = frozenset(
    one | met for one in (Condition.ENDED, Condition.FAILED) for met in (0, MET)
)


def refuse_parents(state: GridState, after: Sequence[ParentRef]) -> Refused | None:
    """Why no job may wait for these: each has to be there, so that no job waits for itself."""
    for parent in after:
        job_id = parent.job_id
        if ending_of(state, job_id) is Ending.UNKNOWN:
            array = state.arrays.get(job_id[:PREFIX_BYTES])
            if array is not None and array.number_of(job_id) < array.task_count:
                return refused_parent("tasks cannot be waited for, only their array", job_id)
            return unknown_parent(job_id)
        if parent.condition == Condition.RESULT and state.array_of(job_id) is not None:
            return refused_parent("an array has no result of its own", job_id)
    return None


def unknown_parent(job_id: JobId) -> Refused:
    """The answer to a job that waits for one that is not there."""
    return refused_parent("no such job to wait for: it never was, or is forgotten", job_id)


def refused_parent(message: str, job_id: JobId) -> Refused:
    """The answer to a job that waits for what it cannot wait for."""
    return Refused(ErrorCode.UNKNOWN_JOB, f"{guid_to_text(job_id)}: {message}", job_id)


def ending_of(state: GridState, job_id: JobId) -> Ending:
    """How a job or an array ended, if it has. The id of an older array is also that of its first
    task: the array comes first."""
    array = state.array_of(job_id)
    if array is not None:
        return _ending_of_array(array)
    record = state.jobs.get(job_id)
    if record is not None:
        return _ending_of_job(record)
    return Ending.OPEN if job_id in state.reserved else Ending.UNKNOWN


def _ending_of_job(record: JobRecord) -> Ending:
    if record.end is None:
        return Ending.OPEN
    if record.state is CANCELLED:
        return Ending.CANCELLED
    is_ok = record.state is DONE and record.end.status == Status.OK
    return Ending.OK if is_ok else Ending.FAILED


def _ending_of_array(array: ArrayRecord) -> Ending:
    if not array.is_ended:
        return Ending.OPEN
    if array.ended_counts[DONE] - array.failed == array.task_count:
        return Ending.OK
    return Ending.CANCELLED if array.ended_counts[CANCELLED] else Ending.FAILED


def edges_of(after: Sequence[ParentRef]) -> bytes:
    """Dependencies as the state keeps them, each of them open."""
    return b"".join([one.job_id + bytes((one.condition,)) for one in after])


def place_of(edges: bytearray, parent_id: JobId) -> int:
    """Where the byte of the condition stands in the edge of a parent; -1: there is no such edge."""
    at = edges.find(parent_id)
    while at % EDGE_BYTES and at >= 0:  # bytes of two neighbours that look like the id
        at = edges.find(parent_id, at + 1)
    return at if at < 0 else at + GUID_BYTES


def judged(state: GridState, after: Sequence[ParentRef]) -> bytes:
    """The edges of a new job, those met that are so already."""
    edges = bytearray(edges_of(after))
    for number, (parent_id, condition, _) in enumerate(each_edge(bytes(edges))):
        if VERDICTS[condition, ending_of(state, parent_id)]:
            edges[number * EDGE_BYTES + GUID_BYTES] |= MET
    return bytes(edges)


def open_edges(edges: bytes | bytearray) -> int:
    """How many of these are not met."""
    return sum([not word & MET for word in edges[GUID_BYTES::EDGE_BYTES]])


def uses_results(state: GridState, job_id: JobId) -> bool:
    """Whether a job is to have the result of a parent."""
    known = state.edges.parents.get(job_id)
    if known is None:
        return False
    words = known.edges[GUID_BYTES::EDGE_BYTES]
    return Condition.RESULT | MET in words or Condition.RESULT in words


def learns_ends(state: GridState, job_id: JobId) -> bool:
    """Whether a job is told how its parents ended: one of its conditions leaves that open. Where
    all of them had to end ok there is nothing to tell, and such jobs go to workers in runs."""
    known = state.edges.parents.get(job_id)
    return known is not None and not TOLD.isdisjoint(known.edges[GUID_BYTES::EDGE_BYTES])


def link(state: GridState, records: Sequence[JobRecord], edges: bytes) -> None:
    """New jobs have these edges: put them on the lists of their parents. Where a parent has ended
    otherwise than it had to, that is to be settled."""
    table, open_count = state.edges, open_edges(edges)
    for record in records:
        table.parents[record.job_id] = ParentsRecord(bytearray(edges), open_count)
    for parent_id, _, is_met in each_edge(edges):
        if is_met:
            continue
        for record in records:
            add_child(state, parent_id, record.job_id)
        if ending_of(state, parent_id) is not Ending.OPEN:
            note_change(state, parent_id)


def add_child(state: GridState, parent_id: JobId, child_id: JobId) -> None:
    """One more waits for this parent. Of a list that grows long, those go that wait no more."""
    children = state.edges.children.setdefault(parent_id, [])
    children.append(child_id)
    count = len(children)
    if count >= CHILDREN_SWEPT_MIN and not count & (count - 1):
        children[:] = [one for one in children if _is_waiting(state, one)]


def _is_waiting(state: GridState, child_id: JobId) -> bool:
    record = state.jobs.get(child_id)
    return record is not None and record.state is BLOCKED


def note_change(state: GridState, parent_id: JobId) -> None:
    """A job that others wait for has ended: its children are to be told."""
    table = state.edges
    waiting = table.children.pop(parent_id)
    waiting.reverse()
    before = table.unsettled.pop(parent_id, None)
    if before is not None:
        waiting += before.waiting
    table.unsettled[parent_id] = UnsettledParent(ending_of(state, parent_id), waiting)


def note_ends(state: GridState, job_ids: Sequence[JobId]) -> None:
    """The same of many, of which perhaps none has children."""
    children = state.edges.children
    for job_id in job_ids:
        if job_id in children:
            note_change(state, job_id)


def forget_edges(state: GridState, job_id: JobId) -> None:
    """A job is forgotten. It has ended, so nobody is on its list of children: those that are there
    wait for an older array, whose first task has the same id."""
    state.edges.parents.pop(job_id, None)


def without_parents(options: JobOptions | None) -> JobOptions:
    """Options as a record has them."""
    if options is None:
        return DEFAULT_OPTIONS
    return replace(options, after=()) if options.after else options


def same_parents(state: GridState, job_id: JobId, options: JobOptions | None) -> bool:
    """Whether a job was submitted with the parents that these options name."""
    known = state.edges.parents.get(job_id)
    asked = edges_of(options.after) if options is not None else b""
    if known is None or not asked:
        return known is None and not asked
    edges = bytearray(known.edges)
    for at in range(GUID_BYTES, len(edges), EDGE_BYTES):
        edges[at] &= ~MET
    return edges == asked

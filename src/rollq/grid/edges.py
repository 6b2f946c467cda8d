"""Dependencies: which parents are allowed, how an ending is judged, and the lists of children.

An edge is open until its parent has ended as its condition requires; then it is met, for good.
Consequences for children are handled in `settling`: the end of a parent only records here that it
is unsettled, which is O(1) in children.
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

# Whether an ending meets a condition; None: still open.
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

# Condition bytes of edges whose job gets the endings of its parents.
TOLD: Final = frozenset(
    one | met for one in (Condition.ENDED, Condition.FAILED) for met in (0, MET)
)


def refuse_parents(state: GridState, after: Sequence[ParentRef]) -> Refused | None:
    """Why no job may wait for these: each has to exist, so that no job waits for itself."""
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
    """The refusal of a parent that does not exist."""
    return refused_parent("no such job to wait for: it never was, or is forgotten", job_id)


def refused_parent(message: str, job_id: JobId) -> Refused:
    """The refusal of a parent that no job can wait for."""
    return Refused(ErrorCode.UNKNOWN_JOB, f"{guid_to_text(job_id)}: {message}", job_id)


def ending_of(state: GridState, job_id: JobId) -> Ending:
    """The ending of a job or an array. The id of an older array is also that of its first task: the
    array takes precedence."""
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
    """Dependencies as stored, all open."""
    return b"".join([one.job_id + bytes((one.condition,)) for one in after])


def place_of(edges: bytearray, parent_id: JobId) -> int:
    """The offset of the condition byte in the edge of a parent; -1: there is no such edge."""
    at = edges.find(parent_id)
    while at % EDGE_BYTES and at >= 0:  # the id may match across two edges
        at = edges.find(parent_id, at + 1)
    return at if at < 0 else at + GUID_BYTES


def judged(state: GridState, after: Sequence[ParentRef]) -> bytes:
    """The edges of a new job; those whose parents have ended accordingly are met."""
    edges = bytearray(edges_of(after))
    for number, (parent_id, condition, _) in enumerate(each_edge(bytes(edges))):
        if VERDICTS[condition, ending_of(state, parent_id)]:
            edges[number * EDGE_BYTES + GUID_BYTES] |= MET
    return bytes(edges)


def open_edges(edges: bytes | bytearray) -> int:
    """The number of edges that are not met."""
    return sum([not word & MET for word in edges[GUID_BYTES::EDGE_BYTES]])


def uses_results(state: GridState, job_id: JobId) -> bool:
    """Whether a job needs the result of a parent."""
    known = state.edges.parents.get(job_id)
    if known is None:
        return False
    words = known.edges[GUID_BYTES::EDGE_BYTES]
    return Condition.RESULT | MET in words or Condition.RESULT in words


def learns_ends(state: GridState, job_id: JobId) -> bool:
    """Whether a job gets the endings of its parents: one of its conditions allows several. If all
    have to end ok there is nothing to report, and such jobs are assigned in runs."""
    known = state.edges.parents.get(job_id)
    return known is not None and not TOLD.isdisjoint(known.edges[GUID_BYTES::EDGE_BYTES])


def link(state: GridState, records: Sequence[JobRecord], edges: bytes) -> None:
    """Add new jobs with these edges to the lists of their parents. A parent that ended otherwise
    than required becomes unsettled."""
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
    """Add a child to its parent. Children that no longer wait are swept from long lists."""
    children = state.edges.children.get(parent_id)
    if children is None:
        parent = state.jobs.get(parent_id)
        # The id object that the record has, and not a copy of it for each parent.
        own_id = parent_id if parent is None else parent.job_id
        children = state.edges.children[own_id] = []
    children.append(child_id)
    count = len(children)
    if count >= CHILDREN_SWEPT_MIN and not count & (count - 1):
        children[:] = [one for one in children if _is_waiting(state, one)]


def _is_waiting(state: GridState, child_id: JobId) -> bool:
    record = state.jobs.get(child_id)
    return record is not None and record.state is BLOCKED


def note_change(state: GridState, parent_id: JobId) -> None:
    """A parent has ended: its children are to be settled."""
    table = state.edges
    waiting = table.children.pop(parent_id)
    waiting.reverse()
    before = table.unsettled.pop(parent_id, None)
    if before is not None:
        waiting += before.waiting
    table.unsettled[parent_id] = UnsettledParent(ending_of(state, parent_id), waiting)


def note_ends(state: GridState, job_ids: Sequence[JobId]) -> None:
    """As `note_change` for each of these jobs that has children."""
    children = state.edges.children
    for job_id in job_ids:
        if job_id in children:
            note_change(state, job_id)


def forget_edges(state: GridState, job_id: JobId) -> None:
    """A job is forgotten. It has ended, so it has no children: a list under its id belongs to an
    older array, whose first task has the same id."""
    state.edges.parents.pop(job_id, None)


def without_parents(options: JobOptions | None) -> JobOptions:
    """Options as stored in a record."""
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

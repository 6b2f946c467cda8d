"""Dependencies between jobs in snapshots."""

from __future__ import annotations

from rollq.base.edges import EDGE_BYTES
from rollq.base.ids import GUID_BYTES, JobId
from rollq.base.staged import ids_of
from rollq.grid.edge_records import Ending, ParentsRecord, UnsettledParent
from rollq.grid.edges import open_edges
from rollq.grid.snapshot_rows import EdgeRows
from rollq.grid.state import GridState


def edge_rows(state: GridState) -> EdgeRows | None:
    """All dependencies; None if there were never any."""
    table = state.edges
    # A child that is forgotten may still be in the list of a parent that has not ended.
    if not (table.parents or table.children or table.unsettled or table.position):
        return None
    return EdgeRows(
        [(child_id, bytes(record.edges)) for child_id, record in table.parents.items()],
        [(parent_id, b"".join(children)) for parent_id, children in table.children.items()],
        [
            (parent_id, int(one.ending), b"".join(reversed(one.waiting)))
            for parent_id, one in table.unsettled.items()
        ],
        table.position,
    )


def put_edges_back(state: GridState, rows: EdgeRows | None) -> None:
    """Restore them into a state that has its jobs.

    Raises:
        ValueError: if a column is not one of ids or edges.
    """
    if rows is None:
        return
    table = state.edges
    for child_id, edges in rows.parents:
        if not edges or len(edges) % EDGE_BYTES:
            raise ValueError("a column that is not one of edges")
        record = ParentsRecord(bytearray(edges), open_edges(edges))
        table.parents[_shared(state, child_id)] = record
    for parent_id, children in rows.children:
        table.children[_shared(state, parent_id)] = _ids(state, children)
    for parent_id, ending, children in rows.unsettled:
        left = UnsettledParent(Ending(ending), _ids(state, children)[::-1])
        table.unsettled[_shared(state, parent_id)] = left
    table.position = rows.position


def _ids(state: GridState, column: bytes) -> list[JobId]:
    if not column or len(column) % GUID_BYTES:
        raise ValueError("a column that is not one of ids")
    return [_shared(state, job_id) for job_id in ids_of(column)]


def _shared(state: GridState, job_id: JobId) -> JobId:
    """The id object of the job's record, so that equal ids share memory."""
    record = state.jobs.get(job_id)
    return job_id if record is None else record.job_id

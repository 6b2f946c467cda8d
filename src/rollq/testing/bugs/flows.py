"""Bugs of dependencies between jobs."""

from __future__ import annotations

from typing import Any

from rollq.base.edges import EDGE_BYTES, MET
from rollq.base.ids import GUID_BYTES
from rollq.grid import settling, submits
from rollq.grid.edge_records import Ending
from rollq.grid.snapshot import decode_snapshot, encode_snapshot
from rollq.grid.state import GridState
from rollq.roles.member import snapshot_order
from rollq.testing.bugs.registry import CRASHES, mutant


@mutant("parents_are_not_waited_for", submits, "judged", faults=())
def _not_waited_for(old: Any) -> Any:
    def judged(state: GridState, after: Any) -> bytes:
        edges = bytearray(old(state, after))
        for at in range(GUID_BYTES, len(edges), EDGE_BYTES):
            edges[at] |= MET
        return bytes(edges)

    return judged


@mutant("a_failed_parent_counts_as_ok", settling, "ending_of", faults=())
def _failed_counts_as_ok(old: Any) -> Any:
    def ending_of(state: GridState, job_id: bytes) -> Ending:
        ending: Ending = old(state, job_id)
        return Ending.OK if ending is Ending.FAILED else ending

    return ending_of


@mutant(
    "children_are_lost_in_snapshot",
    snapshot_order,
    "snapshot_pieces",
    faults=CRASHES,
    snapshot_entries=12,
)
def _children_lost(old: Any) -> Any:
    def pieces(state: GridState, _: Any) -> Any:
        copy = decode_snapshot(encode_snapshot(state))
        copy.edges.children.clear()
        return old(copy, copy.bodies.sealed)

    return pieces

"""Settling: what the end of a parent means for its children, which are released or cancelled.

One entry settles a bounded number of children. Those of parents that it ended itself come at once,
unless others are before them; the rest continues with `SettleChildren`, which the leader proposes.
A child is judged by its parent's ending at that time, so the result does not depend on how the work
is split into entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from msgspec.structs import replace

from rollq.base.edges import MET
from rollq.base.ids import JobId, guid_to_text
from rollq.grid.commands import Cause
from rollq.grid.edge_records import Ending
from rollq.grid.edges import VERDICTS, add_child, ending_of, place_of
from rollq.grid.effects import Applied, Done, Outcome
from rollq.grid.events import JOB_CANCELLED, JOB_UNBLOCKED
from rollq.grid.facts import alike_groups, fact, run_fact
from rollq.grid.flow_commands import SettleChildren
from rollq.grid.moves import end_waiting, move
from rollq.grid.outcomes import DONE_NONE
from rollq.grid.state import BLOCKED, CANCELLED, DELAYED, QUEUED, GridState, JobRecord

WHAT_HAPPENED: Final = {
    Ending.OK: "ended ok",
    Ending.FAILED: "failed",
    Ending.CANCELLED: "was cancelled",
    Ending.UNKNOWN: "is not known any more",
}
_by_seq = attrgetter("seq")


def settle_children(state: GridState, command: SettleChildren, out: Applied) -> Outcome:
    """Settle the next children; nothing if that was done before."""
    if command.position != state.edges.position:
        return DONE_NONE
    before = state.edges.position
    settle(state, out)
    return Done(state.edges.position - before)


def settle(state: GridState, out: Applied) -> None:
    """Settle as many children as one entry may, in order."""
    unsettled = state.edges.unsettled
    left = state.bounds.children_per_entry
    while unsettled and left:
        parent_id, parent = next(iter(unsettled.items()))
        # The list is reversed: children are popped from its end, without copying the rest.
        waiting = parent.waiting
        part = waiting[: -left - 1 : -1]
        del waiting[-left:]
        if not waiting:
            del unsettled[parent_id]
        left -= len(part)
        state.edges.position += len(part)
        ending = ending_of(state, parent_id)
        if ending is Ending.UNKNOWN:
            ending = parent.ending
        release(state, tell(state, parent_id, ending, child_ids=part, out=out), out)


def tell(
    state: GridState, parent_id: JobId, ending: Ending, child_ids: Sequence[JobId], out: Applied
) -> list[JobRecord]:
    """Apply a parent's ending to children; those that wait for nothing more are released by seq."""
    ready: list[JobRecord] = []
    for child_id in child_ids:
        record = state.jobs.get(child_id)
        if record is None or record.state is not BLOCKED:
            continue
        parents = state.edges.parents[child_id]
        at = place_of(parents.edges, parent_id)
        if at < 0 or parents.edges[at] & MET:
            continue  # a stale entry of another job with this id, or a duplicate
        verdict = VERDICTS[parents.edges[at], ending]
        if verdict is None:
            add_child(state, parent_id, child_id)
        elif verdict:
            parents.edges[at] |= MET
            parents.open_count -= 1
            if not parents.open_count:
                ready.append(record)
        else:
            detail = f"job {guid_to_text(parent_id)} {WHAT_HAPPENED[ending]}"
            out.events.append(fact(JOB_CANCELLED, record, cause=Cause.PARENT, detail=detail))
            end_waiting(state, record, CANCELLED, out, cause=Cause.PARENT, detail=detail)
    return sorted(ready, key=_by_seq)


def release(state: GridState, records: Sequence[JobRecord], out: Applied) -> None:
    """Queue jobs, or start their delay. Adjacent equal ones share an event."""
    for group in alike_groups(records):
        delay_ms = group[0].options.delay_ms
        for record in group:
            move(state, record, DELAYED if delay_ms else QUEUED, out.stamp_ms)
            record.delay_ms = delay_ms
        out.events.append(replace(run_fact(JOB_UNBLOCKED, group), delay_ms=delay_ms))

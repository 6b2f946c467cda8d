"""What the end of a parent means for its children: they go on, or end by rule.

One entry looks at a bounded number of children. Those of the parents that it ended itself come at
once, unless others are before them; whatever is left goes on by `SettleChildren`, which the leader
proposes. A child is judged by how its parent stands when its turn comes, so nothing depends on how
the work falls into entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from msgspec.structs import replace

from rollq.base.edges import MET
from rollq.base.flow_limits import CHILDREN_PER_ENTRY_MAX
from rollq.base.ids import JobId, guid_to_text
from rollq.base.limits import RUN_JOBS_MAX
from rollq.grid.commands import Cause
from rollq.grid.edge_records import Ending
from rollq.grid.edges import VERDICTS, add_child, ending_of, place_of
from rollq.grid.effects import Applied, Done, Outcome
from rollq.grid.events import JOB_CANCELLED, JOB_UNBLOCKED, Event
from rollq.grid.facts import are_alike, fact, run_fact
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
    """Tell the next children; nothing if that was done before."""
    if command.position != state.edges.position:
        return DONE_NONE
    before = state.edges.position
    settle(state, out)
    return Done(state.edges.position - before)


def settle(state: GridState, out: Applied) -> None:
    """Tell as many children as one entry may what became of their parents, in order."""
    unsettled = state.edges.unsettled
    left = CHILDREN_PER_ENTRY_MAX
    while unsettled and left:
        parent_id, parent = next(iter(unsettled.items()))
        # From the end of a list that is turned round: the rest is not copied for each entry.
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
        release(state, tell(state, parent_id, ending, part, out), out)


def tell(
    state: GridState, parent_id: JobId, ending: Ending, child_ids: Sequence[JobId], out: Applied
) -> list[JobRecord]:
    """Tell children how a parent stands: those that wait for nothing more, by seq."""
    ready: list[JobRecord] = []
    for child_id in child_ids:
        record = state.jobs.get(child_id)
        if record is None or record.state is not BLOCKED:
            continue
        parents = state.edges.parents[child_id]
        at = place_of(parents.edges, parent_id)
        if at < 0 or parents.edges[at] & MET:
            continue  # it is listed from a time when another job had its id, or twice
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
    """Let jobs into their queues, or wait for their delay, which begins now. Those that are alike
    and follow each other are told as a run."""
    group: list[JobRecord] = []
    for record in records:
        if group and (len(group) == RUN_JOBS_MAX or not are_alike(group[0], record)):
            out.events.append(_released(group))
            group = []
        delay_ms = record.options.delay_ms
        move(state, record, DELAYED if delay_ms else QUEUED, out.stamp_ms)
        record.delay_ms = delay_ms
        group.append(record)
    if group:
        out.events.append(_released(group))


def _released(records: Sequence[JobRecord]) -> Event:
    return replace(run_fact(JOB_UNBLOCKED, records), delay_ms=records[0].delay_ms)

"""Why a job is not running, in words for people. Reads the index, changes nothing."""

from __future__ import annotations

from rollq.base.ids import JobId, guid_to_text
from rollq.base.outcomes import state_word
from rollq.grid.commands import Cause
from rollq.grid.state import ASSIGNED, DEAD, DELAYED, EndRecord, GridState, JobRecord
from rollq.policy.backlog import Backlog
from rollq.policy.holds import Holds
from rollq.policy.lanes import Item


def why_waiting(state: GridState, backlog: Backlog, holds: Holds, job_id: JobId) -> str:
    """The first thing that keeps a job, or the rest of an array, from starting."""
    record = state.jobs.get(job_id)
    array = state.array_of(job_id)
    item: Item | None = record
    if array is not None and array.tasks_waiting:
        item = array
    if item is None:
        is_accepted = job_id in state.reserved
        return "accepted with a batch, on its way into its queue" if is_accepted else "no such job"
    if isinstance(item, JobRecord):
        if item.state is ASSIGNED:
            return "it is running"
        if item.state is DELAYED:
            return f"delayed for {item.delay_ms} ms"
        if item.end is not None:
            return _how_ended(item, item.end)
        if item.job_id in holds.jobs:
            return "being assigned"
    elif item.delayed:
        return f"delayed for {item.options.delay_ms} ms"
    return _what_is_missing(state, backlog, holds, item)


def _how_ended(record: JobRecord, end: EndRecord) -> str:
    """A word, and of a dead job the cause and where to look."""
    told = f"it has ended: {state_word(record.state.name.lower(), end.status)}"
    if record.state is not DEAD:
        return told
    cause = Cause(end.cause).name.lower() if end.cause else ""
    why = ", ".join(filter(None, (cause, end.detail)))
    return f"{told} ({why}); see `rollq dlq show {guid_to_text(record.job_id)}`"


def _what_is_missing(state: GridState, backlog: Backlog, holds: Holds, item: Item) -> str:
    """For something that waits in its queue: the limit that it meets, or the worker it lacks."""
    queue = state.queues.get(item.queue)
    if queue is not None and queue.paused:
        return f"queue {item.queue} is paused"
    if holds.is_full(item.client):
        return f"client {item.client.client_id} is at its cap of {state.cap_of(item.client)}"
    if holds.is_resting(item):
        return "the array runs as many tasks as it may"
    lanes = backlog.queue_of(item)
    pools = lanes.pools if lanes is not None else []
    sessions = {session for pool in pools for session in pool.sessions}
    name = item.options.worker_name
    if not sessions:
        wanted = f"no worker named {name}" if name else "no worker"
        return f"{wanted} serves queue {item.queue}"
    if not any(pool.crew for pool in pools):
        return (
            f"no credit: all {len(sessions)} workers for queue {item.queue} are busy, "
            "or their computers are"
        )
    return "others are before it"

"""Why a job is not running, in words for people. Reads the index, changes nothing."""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain, islice
from typing import Final

from rollq.base.ids import JobId, guid_to_text
from rollq.base.outcomes import state_word
from rollq.grid.commands import Cause
from rollq.grid.state import (
    ASSIGNED,
    DEAD,
    DELAYED,
    ArrayRecord,
    EndRecord,
    GridState,
    JobRecord,
)
from rollq.grid.views import UnservedView, queue_view
from rollq.policy.backlog import Backlog
from rollq.policy.holds import Holds
from rollq.policy.lanes import MIXED, Item, QueueLanes
from rollq.policy.pools import SHIPPED, DispatchSession, program_of

NAMES_MAX: Final = 5  # of workers, in a sentence
CLIENTS_SEARCHED: Final = 100  # of each priority of a queue
PINNED_SEARCHED: Final = 1_000


def why_waiting(state: GridState, backlog: Backlog, holds: Holds, job_id: JobId) -> str:
    """The first thing that keeps a job, or the rest of an array, from starting."""
    record = state.jobs.get(job_id)
    array = state.array_of(job_id)
    item: Item | None = record
    if array is not None and array.tasks_waiting:
        item = array
    if item is None and array is not None:
        return _where_tasks_are(array)
    if item is None:
        is_accepted = job_id in state.reserved
        return "accepted with a batch, on its way into its queue" if is_accepted else "no such job"
    if isinstance(item, JobRecord):
        if item.state is ASSIGNED:
            return "it is running"
        if item.state is DELAYED:
            return f"delayed for {item.delay_ms} ms{_after(item)}"
        if item.end is not None:
            return _how_ended(item, item.end)
        if item.job_id in holds.jobs:
            return "being assigned"
    elif item.delayed:
        return f"delayed for {item.options.delay_ms} ms"
    return _what_is_missing(state, backlog, holds, item)


def _after(record: JobRecord) -> str:
    """What became of the attempt before, if its worker said: what it lacked, or what went wrong."""
    attempts = record.past.attempts if record.past is not None else ()
    if not attempts or not attempts[-1].detail:
        return ""
    return f", after attempt {attempts[-1].attempt}: {attempts[-1].detail}"


def _where_tasks_are(array: ArrayRecord) -> str:
    """For an array all of whose tasks have started or ended."""
    if not array.open_tasks:
        return "it has ended: no task is left"
    retrying = len(array.open_tasks) - array.running
    return f"all its tasks have started: {array.running} running, {retrying} to be tried again"


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
    array = item.array if isinstance(item, JobRecord) else item
    if array is not None and holds.is_at_limit(array):
        return f"its array is at its running_max of {array.running_max}"
    queue_lanes = backlog.whole_queue_of(item)
    sessions = sessions_of(queue_lanes)
    name = item.options.worker_name
    if not sessions:
        wanted = f"no worker named {name}" if name else "no worker"
        return f"{wanted} serves queue {item.queue}"
    able = [session for session in sessions if session.can_run(program_of(item))]
    if not able:
        hint = "" if item.options.ships_exec else "; if its file is there: chmod +x"
        return f"{_lacks(item)}; workers serving the queue: {_names(sessions)}{hint}"
    if not any(session.credit for session in able):
        which = "" if len(able) == len(sessions) else f" with program {item.exec_name}"
        who, verb = f"all {len(able)} workers", "have no free slot, or their CPUs are"
        if len(able) == 1:
            who, verb = "the only worker", "has no free slot, or its CPU is"
        return f"{who} for queue {item.queue}{which} {verb} at the cap"
    return "waiting behind other jobs"


def unserved(state: GridState, backlog: Backlog, count_max: int) -> list[UnservedView]:
    """Queues in which something waits that no connected worker can run, by program; up to
    `count_max` of them. Looks at queues and programs, not at jobs."""
    found: list[UnservedView] = []
    for queue in backlog.queues():
        view = queue_view(state, queue.name)
        if view is None or not view.queued or view.paused:
            continue
        sessions = sessions_of(queue)
        for lanes in (queue, *queue.split.values()):
            if not lanes.size or len(found) >= count_max:
                continue
            program = lanes.program or ("" if lanes.only_program == MIXED else lanes.only_program)
            if not sessions or (program and not any(one.can_run(program) for one in sessions)):
                program = program.removeprefix(SHIPPED)
                where = queue.name, queue.worker_name
                found.append(UnservedView(*where, program, view.queued, _names(sessions)))
    return found


def oldest(backlog: Backlog, names: Collection[str]) -> dict[str, int]:
    """By queue: since when the first of those waits that wait there. Of a queue of very many
    clients, or with very many pinned jobs, some are not looked at."""
    found: dict[str, int] = {}
    for queue in chain(backlog.queues_named(names), islice(backlog.pinned(), PINNED_SEARCHED)):
        for lanes in (queue, *queue.split.values()):
            since_ms = lanes.oldest_ms(CLIENTS_SEARCHED)
            if since_ms is not None and queue.name in names:
                found[queue.name] = min(since_ms, found.get(queue.name, since_ms))
    return found


def sessions_of(queue: QueueLanes | None) -> list[DispatchSession]:
    """Everybody who serves a queue, whatever they can run."""
    pools = queue.pools if queue is not None else []
    return list({session: None for pool in pools for session in pool.sessions})


def _lacks(item: Item) -> str:
    if item.options.ships_exec:
        return (
            f"program {item.exec_name} comes with the job, and no connected worker allows that "
            "(start one with --allow-shipped-execs)"
        )
    return f"no connected worker has program {item.exec_name}"


def _names(sessions: list[DispatchSession]) -> str:
    names = sorted(session.name or guid_to_text(session.worker_id) for session in sessions)
    more = len(names) - NAMES_MAX
    return ", ".join(names[:NAMES_MAX]) + (f" and {more} more" if more > 0 else "")

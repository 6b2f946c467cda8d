"""Why a job or array waits, runs, or ended as it did: a reason, a sentence with figures, and the
commands that help. Reads the index, changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import chain, islice
from typing import Final, NamedTuple

from rollq.base.amounts import counted, time_text
from rollq.base.edges import each_edge
from rollq.base.ids import JobId, WorkerId, guid_to_text
from rollq.base.jobs import Condition
from rollq.base.outcomes import BLOCKED as BLOCKED_WORD
from rollq.base.outcomes import DELAYED as DELAYED_WORD
from rollq.base.outcomes import RUNNING, WAITING, state_word
from rollq.base.reasons import Reason
from rollq.base.webhooks import WEBHOOK_EXEC
from rollq.grid.commands import Cause
from rollq.grid.explanations import RawExplanation
from rollq.grid.moves import max_attempts, starts_of
from rollq.grid.state import (
    ASSIGNED,
    BLOCKED,
    DELAYED,
    PREFIX_BYTES,
    ArrayRecord,
    GridState,
    JobRecord,
)
from rollq.grid.tasks import task_end
from rollq.grid.views import UnservedView, queue_view, worker_called
from rollq.policy import advice
from rollq.policy.array_reasons import StateReason, cut_reason, grouped
from rollq.policy.backlog import Backlog
from rollq.policy.endings import (
    ReadResult,
    how_ended,
    lost_attempts,
    lost_reason,
)
from rollq.policy.holds import Holds
from rollq.policy.lanes import MIXED, Item, QueueLanes
from rollq.policy.limit_reasons import limit_reason
from rollq.policy.need_reasons import lacks_text, need_reason
from rollq.policy.needs import SHIPPED, need_of, program_in
from rollq.policy.pools import DispatchSession
from rollq.subjects.matcher import matches
from rollq.subjects.queues import assign_subject

NAMES_MAX: Final = 5  # of workers, in a sentence
CLIENTS_READ_MAX: Final = 100  # clients examined in each priority of a queue
PINNED_READ_MAX: Final = 1_000
# Built-in functions, by the module that a worker must be started with.
BUILTIN_APPS: Final = {WEBHOOK_EXEC: "rollq.webhook", "rollq.run": "rollq.pickled"}
CONDITION_TEXT: Final[dict[int, str]] = {
    Condition.OK: "end ok",
    Condition.ENDED: "end",
    Condition.FAILED: "fail",
    Condition.RESULT: "end ok",
}


class ExplainContext(NamedTuple):
    """What explanations are made from.

    Attributes:
        state: As applied so far. backlog: The waiting items and the pools that serve them. holds:
        The items that may not start now. sessions: Of connected workers. is_capped: Whether the
        computer of one of these is above its CPU cap. address: Of a member, `host:port`, for the
        command that starts a worker. read: Reads results.
    """

    state: GridState
    backlog: Backlog
    holds: Holds
    sessions: Mapping[WorkerId, DispatchSession]
    is_capped: Callable[[WorkerId], bool]
    address: str
    read: ReadResult


def explanation(context: ExplainContext, job_id: JobId) -> RawExplanation | None:
    """The explanation of a job, a task or an array; None for an unknown id. The id of an older
    array is also that of its first task: the array comes first."""
    state = context.state
    array = state.array_of(job_id)
    record = state.jobs.get(job_id)
    if array is not None:
        waits = _why_array_waits(context, array) if array.tasks_waiting else None
        return grouped(state, array, waits, read=context.read, address=context.address)
    if record is not None:
        return _of_job(context, record)
    if job_id in state.reserved:
        text = "accepted with a batch, on its way into its queue"
        return RawExplanation(job_id, WAITING, Reason.STAGED, text)
    array = state.arrays.get(job_id[:PREFIX_BYTES])
    if array is None or array.number_of(job_id) >= array.task_count:
        return None
    return _of_unstarted(context, array, job_id)


def _of_unstarted(context: ExplainContext, array: ArrayRecord, job_id: JobId) -> RawExplanation:
    """Of a task without a record: it waits with its array, was cut off, or is forgotten."""
    number = array.number_of(job_id)
    if number >= array.cut_at:
        return cut_reason(array, job_id)
    if (end := task_end(array, number)) is not None:
        text = "it has ended; its outcome is no longer kept"
        history = f"rollq history tail --from 1 --job {guid_to_text(job_id)}"
        word = state_word(end.name.lower(), 0)
        return RawExplanation(
            job_id, word, code=Reason.FORGOTTEN, why=text, todo=(history,), since_ms=array.stamp_ms
        )
    why = _why_array_waits(context, array)
    before = number - array.next_number
    text = f"{why.text}; {counted(before, 'task')} of its array before it" if before else why.text
    word = DELAYED_WORD if array.delayed else WAITING
    return RawExplanation(
        job_id, word, code=why.code, why=text, todo=why.todo, since_ms=array.stamp_ms
    )


def _of_job(context: ExplainContext, record: JobRecord) -> RawExplanation:
    state, holds = context.state, context.holds
    if record.end is not None:
        return how_ended(state, record, record.end, read=context.read, address=context.address)
    word = WAITING
    if record.state is ASSIGNED:
        word, why = RUNNING, _why_runs(context, record)
    elif record.state is BLOCKED:
        word, why = BLOCKED_WORD, _why_blocked(context, record)
    elif record.state is DELAYED:
        word, why = DELAYED_WORD, _why_delayed(context, record)
    elif record.job_id in holds.jobs:
        session = holds.jobs[record.job_id].session
        why = StateReason(Reason.ASSIGNING, f"being assigned to worker {_name(session)}")
    else:
        why = _why_waits(context, record)
    return RawExplanation(record.job_id, word, *why, record.stamp_ms, lost_attempts(state, record))


def _why_runs(context: ExplainContext, record: JobRecord) -> StateReason:
    state = context.state
    worker = worker_called(state, record.worker_id)
    if record.worker_id not in context.sessions:
        text = (
            f"its worker {worker} is not connected: it goes to another worker when its lease of "
            f"{time_text(record.lease_ms)} is over, or the worker's grace of "
            f"{time_text(state.settings.worker_grace_ms)}, unless the worker comes back"
        )
        return StateReason(Reason.LEASE, text, ("rollq status --workers",))
    if record.cancel_requested:
        text = f"it is to be cancelled: worker {worker} was told, and has not confirmed it yet"
        return StateReason(Reason.CANCELLING, text, (advice.look_at(record.job_id),))
    nth = f"attempt {starts_of(record)} of {max_attempts(state, record)}"
    text = f"it is running on worker {worker}, {nth}"
    follow = f"rollq logs {guid_to_text(record.job_id)} --follow"
    return StateReason(Reason.RUNNING, text, (follow, advice.cancel(record.job_id)))


def _why_blocked(context: ExplainContext, record: JobRecord) -> StateReason:
    """Its first unmet parent, and how many more there are."""
    edges = each_edge(context.state.edges.parents[record.job_id].edges)
    missing = [(parent_id, condition) for parent_id, condition, is_met in edges if not is_met]
    first, condition = missing[0]
    how = CONDITION_TEXT[condition]
    more = f", and for {counted(len(missing) - 1, 'more job')}" if len(missing) > 1 else ""
    text = f"it waits for job {guid_to_text(first)} to {how}{more}"
    return StateReason(Reason.BLOCKED, text, (f"rollq explain {guid_to_text(first)}",))


def _why_delayed(context: ExplainContext, record: JobRecord) -> StateReason:
    state = context.state
    lost = record.past.attempts if record.past is not None else ()
    delay = time_text(record.delay_ms)
    if not lost:
        return StateReason(Reason.DELAYED, f"delayed for {delay}")
    last = lost[-1]
    code, what = lost_reason(last.cause, last.detail, last.exit_code)
    # Something a worker lacks has to change before a retry can succeed; other causes may pass.
    if last.cause != Cause.NACKED:
        code = Reason.RETRYING
    worker = worker_called(state, last.worker_id)
    used = f"{starts_of(record)} of {max_attempts(state, record)} attempts are used"
    text = f"delayed for {delay}, after attempt {last.attempt} on worker {worker}: {what}; {used}"
    todo = advice.before_running(code, record, context.address, last.detail)
    return StateReason(code, text, (*todo, advice.look_at(record.job_id)))


def _why_array_waits(context: ExplainContext, array: ArrayRecord) -> StateReason:
    if array.delayed:
        return StateReason(Reason.DELAYED, f"delayed for {time_text(array.options.delay_ms)}")
    return _why_waits(context, array)


def _why_waits(context: ExplainContext, item: Item) -> StateReason:
    """For an item that waits in its queue: the limit that blocks it, or the worker it lacks."""
    state, holds = context.state, context.holds
    queue = state.queues.get(item.queue)
    if queue is not None and queue.paused:
        view = queue_view(state, item.queue)
        waiting = counted(view.queued if view is not None else 0, "job")
        text = f"queue {item.queue} is paused; waiting in it: {waiting}"
        return StateReason(Reason.PAUSED, text, (advice.resume(item.queue),))
    client = item.client
    if holds.is_full(client):
        cap = state.cap_of(client)
        own = "which it declares itself" if client.cap else "which the settings say"
        text = f"client {client.client_id} is at its cap of {cap}, {own}"
        todo = () if client.cap else (f"rollq settings set client_cap={2 * cap}",)
        return StateReason(Reason.CAP, text, todo)
    array = item.array if isinstance(item, JobRecord) else item
    if array is not None and holds.is_at_limit(array):
        text = f"its array is at its running_max of {array.running_max}"
        return StateReason(Reason.ARRAY_LIMIT, text, (advice.look_at(array.array_id),))
    blocking = holds.limits.blocking_limit(item)
    if blocking is not None:
        return limit_reason(blocking)
    return _no_able_worker(context, item) or _waits_its_turn(context, item)


def _no_able_worker(context: ExplainContext, item: Item) -> StateReason | None:
    sessions = sessions_of(context.backlog.whole_queue_of(item))
    if not sessions and (draining := _draining(context.state, item)):
        whose = "the only worker" if len(draining) == 1 else f"all {len(draining)} workers"
        text = f"{whose} for queue {item.queue} {_are(draining)} draining: {_listed(draining)}"
        return StateReason(Reason.DRAINING, text, (advice.undrain(draining),))
    if not sessions:
        name = item.options.worker_name
        wanted = f"no worker named {name}" if name else "no worker"
        connected = counted(len(context.sessions), "connected worker")
        text = f"{wanted} serves queue {item.queue}; there {_are(context.sessions)} {connected}"
        return StateReason(Reason.NO_WORKER, text, (advice.start_worker(context.address, item),))
    able = [session for session in sessions if session.can_run(need_of(item))]
    if item.options.labels or item.options.resources:
        why = need_reason(item, sessions, context.address)
        if why is not None:
            return why
    if not able:
        return _no_program(context, item, sessions)
    resources = item.options.resources
    if any(session.credit and session.room.has(resources) for session in able):
        return None
    which = "" if len(able) == len(sessions) else f" with program {item.exec_name}"
    who = f"all {len(able)} workers" if len(able) > 1 else "the only worker"
    who = f"{who} for queue {item.queue}{which}"
    capped = sum(context.is_capped(session.worker_id) for session in able)
    running = sum(session.running for session in able)
    todo = (advice.start_worker(context.address, item),)
    if capped == len(able):
        verb = "are at their CPU caps and take" if capped > 1 else "is at its CPU cap and takes"
        text = f"{who} {verb} one job at a time; jobs there now: {running} ({_names(able)})"
        return StateReason(Reason.CPU_CAP, text, todo)
    verb = "have" if len(able) > 1 else "has"
    also = f", {capped} at the CPU cap" if capped else ""
    text = f"{who} {verb} no free slot; jobs there now: {running} ({_names(able)}){also}"
    return StateReason(Reason.NO_SLOT, text, todo)


def _no_program(
    context: ExplainContext, item: Item, sessions: list[DispatchSession]
) -> StateReason:
    serving = f"workers serving the queue: {_names(sessions)}"
    if item.options.ships_exec:
        text = (
            f"program {item.exec_name} comes with the job, and no connected worker allows that "
            f"(start one with --allow-shipped-execs); {serving}"
        )
        code = Reason.SHIPPING_REFUSED
        return StateReason(code, text, advice.before_running(code, item, context.address))
    code = Reason.PROGRAM_MISSING
    app = BUILTIN_APPS.get(item.exec_name)
    if app is not None:
        text = f"no connected worker has function {item.exec_name}: start one with --app {app}"
        return StateReason(code, text, (advice.start_worker(context.address, item, "--app", app),))
    text = (
        f"no connected worker has program or function {item.exec_name}; {serving}; put a program "
        "into the exec directory of one, and if its file is there: chmod +x; start one with the "
        "module of a function as --app"
    )
    return StateReason(code, text, advice.before_running(code, item, context.address))


def _waits_its_turn(context: ExplainContext, item: Item) -> StateReason:
    """Some worker has a free slot, or soon will; other items have their turn first."""
    lanes = context.backlog.queue_of(item)
    before, others = lanes.before(item) if lanes is not None else (0, 0)
    chosen = lanes.preference if lanes is not None else None
    placed = f"; the queue chooses workers by {chosen.placement}" if chosen is not None else ""
    if not before and not others:
        text = f"it is the next of queue {item.queue}{placed}"
        return StateReason(Reason.BEHIND, text, ("rollq queue list",))
    client = item.client.client_id
    weight = context.state.weights.get(client, 1)
    turns = f"; {client} has weight {weight}: {weight} turns per turn of a client of weight 1"
    text = (
        f"waiting behind other jobs of queue {item.queue}: {before} of client {client}, which come "
        f"first, and {others} more, which take turns with it by priority and client"
        f"{turns if weight > 1 else ''}{placed}"
    )
    more = ("rollq weight list",) if context.state.weights else ()
    return StateReason(Reason.BEHIND, text, ("rollq queue list", *more))


def unserved(state: GridState, backlog: Backlog, count_max: int) -> list[UnservedView]:
    """Up to `count_max` queues with waiting items that no connected worker can run, by program.
    Reads queues and programs, not jobs."""
    found: list[UnservedView] = []
    for queue in backlog.queues():
        view = queue_view(state, queue.name)
        if view is None or not view.queued or view.paused:
            continue
        sessions = sessions_of(queue)
        for lanes in queue.all:
            if not lanes.size or len(found) >= count_max:
                continue
            need = lanes.need or ("" if lanes.only_need == MIXED else lanes.only_need)
            if not sessions or (need and not any(one.can_run(need) for one in sessions)):
                program = program_in(need).removeprefix(SHIPPED)
                where = queue.name, queue.worker_name
                who = _names(sessions), lacks_text(need, sessions)
                found.append(UnservedView(*where, program, view.queued, *who))
    return found


def oldest(backlog: Backlog, names: Collection[str]) -> dict[str, int]:
    """By queue: the time since which its oldest item waits. Of a queue with very many clients or
    pinned jobs, some are not examined."""
    found: dict[str, int] = {}
    for queue in chain(backlog.queues_named(names), islice(backlog.pinned(), PINNED_READ_MAX)):
        for lanes in queue.all:
            since_ms = lanes.oldest_ms(CLIENTS_READ_MAX)
            if since_ms is not None and queue.name in names:
                found[queue.name] = min(since_ms, found.get(queue.name, since_ms))
    return found


def sessions_of(queue: QueueLanes | None) -> list[DispatchSession]:
    """All sessions that serve a queue, whatever they can run."""
    pools = queue.pools if queue is not None else []
    return list({session: None for pool in pools for session in pool.sessions})


def _are(things: Collection[object]) -> str:
    return "is" if len(things) == 1 else "are"


def _name(session: DispatchSession) -> str:
    return session.name or guid_to_text(session.worker_id)


def _draining(state: GridState, item: Item) -> list[str]:
    """The names of the drained workers that would serve the queue of an item."""
    wanted, subject = item.options.worker_name, assign_subject(item.queue)
    found: list[str] = []
    for worker_id in state.drained:
        worker = state.workers.get(worker_id)
        if worker is None or wanted not in ("", worker.name):
            continue
        if any(matches(pattern, subject) for pattern in worker.patterns):
            found.append(worker.name or guid_to_text(worker_id))
    return found


def _names(sessions: list[DispatchSession]) -> str:
    return _listed(list(map(_name, sessions)))


def _listed(names: list[str]) -> str:
    names = sorted(names)
    more = len(names) - NAMES_MAX
    return ", ".join(names[:NAMES_MAX]) + (f" and {more} more" if more > 0 else "")

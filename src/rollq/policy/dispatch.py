"""Dispatch: which job goes to which worker next.

`Dispatcher` is an index of what can be assigned. Every member keeps it from the events it applies,
so that a new leader has it at once; sessions, credits and decisions exist on the leader only.
It changes nothing that is replicated: a decision is a command, and counts when it is applied.

Turns are taken at every level: pools with credit, then queues of the pool, then (in the highest
priority that waits) clients of the queue; within a client the oldest job goes first. Where there is
credit for many jobs a turn is as many jobs as each may have, so that they are given in runs. A
decision costs the same however many workers, queues, clients and jobs there are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final, TypeAlias

from rollq.base.errors import ErrorCode, RemoteError, StateError
from rollq.base.ids import JobId, WorkerId
from rollq.base.limits import CREDIT_MAX
from rollq.grid import events
from rollq.grid.commands import AssignRun, AssignTasks, SubmitRun
from rollq.grid.events import Event
from rollq.grid.explanations import RawExplanation
from rollq.grid.runs import ids_in
from rollq.grid.state import QUEUED, ArrayRecord, GridState, JobRecord
from rollq.grid.views import UnservedView
from rollq.policy.at_once import start_at_once
from rollq.policy.backlog import Backlog
from rollq.policy.endings import ReadResult
from rollq.policy.hints import lease_ms_of
from rollq.policy.holds import Holds
from rollq.policy.lanes import MIXED, Item, QueueLanes
from rollq.policy.pools import ANYTHING, DispatchSession, Pool, ProgramSet
from rollq.policy.shares import Given, share_of
from rollq.policy.waiting import Known, explanation, oldest, unserved

_seq = attrgetter("seq")
_likeness = attrgetter("__class__", "queue", "client", "exec_name", "options")

# Jobs that one turn may split off for workers that can run them; the rest have their turn later.
# A million jobs of mixed programs would otherwise hold up the loop when one worker comes.
SPLITS_PER_TURN_MAX: Final = 4_096

# Of those who hold these caches, one of whom the question is true; None if none of a few is.
Nearest: TypeAlias = Callable[[tuple[str, ...], Callable[[WorkerId], bool]], WorkerId | None]


class Dispatcher:
    """Index of what can be assigned, and the leader's choice of what is."""

    __slots__ = ("_backlog", "_holds", "_sessions", "_splits_left", "_state", "nearest")

    def __init__(self, state: GridState, placement: str = "least-load") -> None:
        """Index what waits in `state`, which may be at any point of its life.

        Raises:
            LocalError: BAD_OPTIONS, if there is no such placement policy.
        """
        self._state = state  # read only, and only between entries: the same as every member's
        self._holds = Holds(state)
        self._backlog = Backlog(state, placement)
        # The leader's; empty on followers. At most one a worker: a newer one replaces it.
        self._sessions: dict[WorkerId, DispatchSession] = {}
        self._splits_left = 0  # jobs that may still be split off in this turn
        # Which of the workers that hold caches suits, if the leader knows one.
        self.nearest: Nearest | None = None
        waiting: list[Item] = [job for job in state.jobs.values() if job.state is QUEUED]
        waiting.extend(state.arrays.values())
        waiting.sort(key=_seq)
        for kind, run in groupby(waiting, _likeness):  # a backlog of a million is mostly alike
            if kind[0] is JobRecord:
                self._backlog.push_run(list(run))
            else:
                for item in run:
                    self._give_back(item)

    # --- every member, after every applied entry

    def observe(self, happened: Sequence[Event]) -> None:
        """Follow what became true by one applied entry."""
        handlers = HANDLERS
        for event in happened:
            handler = handlers.get(event.kind)
            if handler is not None:
                handler(self, event)

    # --- the leader's sessions

    def open_worker(
        self,
        worker_id: WorkerId,
        incarnation: int,
        name: str,
        patterns: Sequence[str],
        running: int = 0,
        *,
        programs: ProgramSet = ANYTHING,
    ) -> None:
        """A worker may be given work from now on; it has no credit yet.

        Args:
            worker_id: Who; an older session of the same worker ends.
            incarnation: As in the state: assignments name it.
            name: For jobs that ask for one worker.
            patterns: Canonical patterns over `job.assign.<queue>`.
            running: How many attempts the state counts as its own.
            programs: What it can run.
        """
        self.close_worker(worker_id)
        session = DispatchSession(
            worker_id, incarnation, name=name, running=running, programs=programs
        )
        self._sessions[worker_id] = session
        self._backlog.join(session, patterns)

    def announce(self, worker_id: WorkerId, programs: ProgramSet) -> None:
        """A worker can run other programs from now on; no harm if it has no session."""
        session = self._sessions.get(worker_id)
        if session is not None and session.programs != programs:
            self._backlog.announce(session, programs)

    def close_worker(self, worker_id: WorkerId) -> None:
        """Give a worker nothing more. Decisions under way are applied or refused as they are."""
        session = self._sessions.pop(worker_id, None)
        if session is not None:
            self._backlog.leave(session)

    def grant(self, worker_id: WorkerId, credits: int) -> None:
        """A worker can take that many more jobs; CREDIT_MAX in all, however many it says.

        Raises:
            RemoteError: BAD_CREDIT, if the number is negative.
            StateError: UNKNOWN_WORKER, if it has no session.
        """
        session = self._sessions.get(worker_id)
        if session is None:
            raise StateError(ErrorCode.UNKNOWN_WORKER, "credit of a worker without a session")
        if credits < 0:
            raise RemoteError(
                ErrorCode.BAD_CREDIT, f"credit of {credits}", f"grant 0 to {CREDIT_MAX} in all"
            )
        room = CREDIT_MAX - session.credit - session.reserved
        if credits > room:
            credits = max(0, room)
        session.credit += credits
        self._backlog.mark_changed(session)

    def credit(self, worker_id: WorkerId) -> int:
        """How many more jobs a worker may be given; 0 without a session."""
        session = self._sessions.get(worker_id)
        return session.credit if session is not None else 0

    def step_down(self) -> None:
        """Leadership is lost: no sessions, no credits, and what was decided waits again.

        It may yet be applied, if the next leader has it in its log; then its event says so.
        """
        decided: list[Item] = [
            job
            for job_id, decision in self._holds.jobs.items()
            if (job := self._state.jobs.get(job_id)) and decision.is_about(job)
        ]
        for array_id, session in self._holds.task_sessions():
            array = self._state.array_of(array_id)
            if array is not None:
                decided.append(array)
            self._holds.release_task(array_id, session.worker_id)
        self._holds.release_jobs(list(self._holds.jobs))
        self._holds.room_made_for_all()
        self._sessions.clear()
        self.nearest = None
        self._backlog.clear_sessions()
        for item in dict.fromkeys(decided):
            self._give_back(item)

    # --- decisions

    def decide(self, count_max: int) -> list[AssignRun | AssignTasks]:
        """Assignments of up to `count_max` jobs, in runs. Each job spends a credit until it is
        applied or refused."""
        given = Given(count_max)
        backlog = self._backlog
        backlog.refresh()
        self._splits_left = SPLITS_PER_TURN_MAX
        while True:
            self._serve(backlog.pinned_line, given)
            self._serve(backlog.line, given)
            if given.left <= 0:
                return given.commands()
            # Clients come back from their caps only now: nobody else could use the credit.
            woken = self._holds.wake()
            if not woken:
                return given.commands()
            for queue in woken:
                backlog.offer(queue)

    def start_at_once(self, command: SubmitRun) -> list[AssignRun]:
        """What of a submit can be assigned by the same entry; see `at_once`."""
        return start_at_once(self._state, self._backlog, self._holds, command)

    def refused(self, command: AssignRun | AssignTasks, positions: Iterable[int]) -> None:
        """The group refused a decision for the jobs at these positions: credit and job go back."""
        if isinstance(command, AssignTasks):
            for _ in positions:
                session = self._holds.release_task(command.array_id, command.worker_id)
                array = self._state.array_of(command.array_id)
                if session is not None:
                    self._refund(session, array)
            return
        job_ids = ids_in(command.job_ids)
        for job_id in [job_ids[at] for at in positions]:
            decided = self._holds.jobs.get(job_id)
            if decided is not None:
                job = self._state.jobs.get(job_id)
                self._holds.release_jobs((job_id,))
                self._holds.room_made(decided.client.client_id)  # its reservation is gone
                self._refund(decided.session, job if job and decided.is_about(job) else None)

    def _refund(self, session: DispatchSession, item: Item | None) -> None:
        session.running -= 1
        if self._sessions.get(session.worker_id) is session:
            session.credit += 1
            self._backlog.mark_changed(session)
        if item is not None:
            self._holds.room_made(item.client.client_id)
            self._give_back(item)

    # --- views

    def explain(
        self,
        job_id: JobId,
        *,
        is_capped: Callable[[WorkerId], bool],
        address: str,
        read: ReadResult,
    ) -> RawExplanation | None:
        """Why a job or an array does not run, or how it ended; see `waiting.Known`."""
        self._backlog.refresh()
        index = self._state, self._backlog, self._holds, self._sessions
        return explanation(Known(*index, is_capped, address, read), job_id)

    def unserved(self, count_max: int) -> list[UnservedView]:
        """What waits and no connected worker can run."""
        self._backlog.refresh()
        return unserved(self._state, self._backlog, count_max)

    def oldest(self, queues: Collection[str]) -> dict[str, int]:
        """By queue: since when the job or array waits that waits longest, if any does."""
        return oldest(self._backlog, queues)

    @property
    def credits(self) -> int:
        """How many more jobs all workers may be given."""
        return sum([session.credit for session in self._sessions.values()])

    @property
    def parked_clients(self) -> int:
        """How many clients wait because they are at their cap."""
        return self._holds.parked_clients

    # --- helpers

    def _serve(self, line: deque[Pool], given: Given) -> None:
        """Let the pools of a line take turns until none has credit and something to do."""
        while line and given.left > 0:
            pool = line[0]
            ring = pool.ring
            if not ring or not pool.candidates.count:
                line.popleft()
                pool.is_ready = False
                pool.round_left = 0
                continue
            queue = ring[0]
            if queue.program != pool.program:
                ring.popleft()  # it was split off since it came into this ring
                continue
            limited = None  # the pool, if one of its workers may lack the program of some job here
            program = queue.only_program
            if pool.limited_count and (program == MIXED or not pool.all_can_run(program)):
                if self._backlog.maybe_split_all(queue):
                    continue
                limited = pool
            item = queue.take(self._holds, limited)
            if queue.unfit:
                self._splits_left -= self._backlog.split_off(queue)
                if item is None and self._splits_left <= 0:
                    return
            if item is None:
                if queue.is_runnable:
                    continue  # it holds more unfit jobs than one call takes out
                ring.popleft()
                queue.turn_left = 0
                queue.absent.append(pool)
                self._backlog.maybe_drop_pinned(queue)
                continue
            self._give(item, queue, pool, limited, given)
            # Whoever was served goes to the end: one turn each, for queues and for pools.
            queue.turn_left -= 1
            if queue.turn_left <= 0:
                ring.rotate(-1)
                line.rotate(-1)

    def _give(
        self, item: Item, queue: QueueLanes, pool: Pool, limited: Pool | None, given: Given
    ) -> None:
        """Spend credit of the pool on a job, or on the next task of an array, and on as many like
        it as its client has a share of."""
        near = self._near(item, pool) if self._state.caches else None
        session = near or pool.candidates.pick(item)
        if isinstance(item, JobRecord) and item.past is not None and item.past.attempts:
            session = pool.untried(session, item.past.attempts)
        share = share_of(item, queue, pool, session, given.left)
        holds = self._holds
        lease_ms = item.options.lease_ms or lease_ms_of(self._state, item.exec_name)
        if isinstance(item, JobRecord):
            jobs = [item]
            if share > 1 and item.past is None:
                jobs += queue.take_more(item, holds, limited, share - 1)
            holds.reserve_jobs(jobs, session)
            given.add_jobs(session, lease_ms, jobs)
            count = len(jobs)
        else:
            count = holds.reserve_tasks(item, session, share)
            given.add_tasks(session, lease_ms, item, count)
        # Until the command is applied or refused the jobs count as running, so that a second
        # decision of this turn sees the load that the first has made.
        session.credit -= count
        session.running += count
        session.reserved += count
        if session.credit and pool.candidates.count == 1 and len(session.serving) == 1:
            self._backlog.mark_changed(session)  # compared with nobody: once a turn is enough
        else:
            session.update_load()

    def _near(self, item: Item, pool: Pool) -> DispatchSession | None:
        """One of the pool that could take the job at once and holds the files that it names. Nobody
        waits for such a one, so that a preference starves neither jobs nor workers."""
        owner = item if isinstance(item, ArrayRecord) else item.array or item.past
        caches = owner.caches if owner is not None else ()
        if not caches or self.nearest is None:
            return None
        sessions = self._sessions

        def suits(worker_id: WorkerId) -> bool:
            session = sessions.get(worker_id)
            return session is not None and session.credit > 0 and session in pool.sessions

        worker_id = self.nearest(caches, suits)
        return None if worker_id is None else sessions[worker_id]

    def _give_back(self, item: Item) -> None:
        """What was decided and did not start waits again, if it still can."""
        if isinstance(item, JobRecord):
            if item.state is QUEUED and self._state.jobs.get(item.job_id) is item:
                self._backlog.push(item)
            self._retry_throttled(item.array)
        else:
            self._push_array(item)
            self._retry_throttled(item)

    def _push_array(self, array: ArrayRecord) -> None:
        if array.tasks_waiting and not array.delayed and self._holds.enlist(array):
            self._backlog.push(array)

    def _retry_throttled(self, array: ArrayRecord | None) -> None:
        if array is not None and array.running_max:
            for item in self._holds.take_unthrottled(array.array_id):
                if isinstance(item, ArrayRecord):
                    self._push_array(item)
                else:
                    self._backlog.push(item)

    # --- events

    def _on_waiting(self, event: Event) -> None:
        """A job may be assigned: new, released, redriven, or back from a lost attempt."""
        if event.run is not None:
            found = map(self._state.jobs.get, ids_in(event.run.job_ids))
            waiting: list[Item] = [job for job in found if job and job.state is QUEUED]
            if waiting:
                self._backlog.push_run(waiting)
            return
        record = self._state.jobs.get(event.job_id)
        if record is not None and record.state is QUEUED:
            self._backlog.push(record)
        elif not event.job_id:
            self._on_array(event)

    def _on_array(self, event: Event) -> None:
        array = self._state.array_of(event.array_id)
        if array is not None:
            self._push_array(array)

    def _on_attempt_lost(self, event: Event) -> None:
        self._on_attempt_over(event)
        self._on_waiting(event)

    def _on_assigned(self, event: Event) -> None:
        job_ids = _ids_of(event)
        if event.array_id and event.attempt == 1:  # tasks that were no records before
            for _ in job_ids:
                if self._holds.release_task(event.array_id, event.worker_id) is None:
                    array = self._state.array_of(event.array_id)
                    if array is not None and not array.tasks_waiting:
                        self._array_gone(array)
            return
        # What another leader decided still stands in its lane here, unless it started at once.
        for job_id in self._holds.release_jobs(job_ids):
            record = self._state.jobs.get(job_id)
            if record is not None:
                self._backlog.went_stale(record)

    def _on_gone(self, event: Event) -> None:
        """A job, or the rest of an array, waited here and waits no more."""
        if event.job_id:
            record = self._state.jobs.get(event.job_id)
            if record is not None:
                self._backlog.went_stale(record)
        else:
            array = self._state.array_of(event.array_id)
            if array is not None and not array.tasks_waiting:
                self._array_gone(array)

    def _array_gone(self, array: ArrayRecord) -> None:
        """An array has no tasks left to assign."""
        self._holds.delist(array)
        self._backlog.went_stale(array)

    def _on_attempt_over(self, event: Event) -> None:
        """An attempt ended: its worker has less to do, its client and array have room."""
        session = self._sessions.get(event.worker_id)
        if session is not None:
            session.running -= 1 if event.run is None else event.run.count
            if session.credit:
                self._backlog.mark_changed(session)
        self._holds.room_made(event.client_id)
        if event.array_id:
            self._retry_throttled(self._state.array_of(event.array_id))

    def _on_end(self, event: Event) -> None:
        """A job ended without a result, running or not."""
        if event.worker_id:
            self._on_attempt_over(event)
        else:
            self._on_gone(event)
            if event.array_id:
                self._retry_throttled(self._state.array_of(event.array_id))

    def _on_paused(self, event: Event) -> None:
        self._backlog.pause(event.queue, event.kind == events.QUEUE_PAUSED)

    def _on_client(self, event: Event) -> None:
        self._holds.room_made(event.client_id)

    def _on_settings(self, event: Event) -> None:
        self._holds.room_made_for_all()

    def _on_worker(self, event: Event) -> None:
        """A session that the state does not know any more, or that is drained, is given nothing."""
        session = self._sessions.get(event.worker_id)
        record = self._state.workers.get(event.worker_id)
        if session is not None and (record is None or record.incarnation != session.incarnation):
            self.close_worker(event.worker_id)
        elif session and record:
            self._backlog.follow_drain(session, record.patterns)


def _ids_of(event: Event) -> Sequence[JobId]:
    """The jobs that an event is about."""
    return (event.job_id,) if event.run is None else ids_in(event.run.job_ids)


HANDLERS: Final[dict[str, Callable[[Dispatcher, Event], None]]] = {
    events.JOB_ENQUEUED: Dispatcher._on_waiting,
    events.JOB_RELEASED: Dispatcher._on_waiting,
    events.JOB_REDRIVEN: Dispatcher._on_waiting,
    events.ARRAY_ENQUEUED: Dispatcher._on_array,
    events.JOB_TIMED_OUT: Dispatcher._on_attempt_lost,
    events.JOB_WORKER_LOST: Dispatcher._on_attempt_lost,
    events.JOB_NACKED: Dispatcher._on_attempt_lost,
    events.JOB_RETRIED: Dispatcher._on_attempt_lost,
    events.JOB_ASSIGNED: Dispatcher._on_assigned,
    events.JOB_ACKED: Dispatcher._on_attempt_over,
    events.JOB_DEAD: Dispatcher._on_end,
    events.JOB_EXPIRED: Dispatcher._on_end,
    events.JOB_CANCELLED: Dispatcher._on_end,
    events.QUEUE_PAUSED: Dispatcher._on_paused,
    events.QUEUE_RESUMED: Dispatcher._on_paused,
    events.CLIENT_OPENED: Dispatcher._on_client,
    events.SETTINGS_CHANGED: Dispatcher._on_settings,
    events.WORKER_OPENED: Dispatcher._on_worker,
    events.WORKER_CLOSED: Dispatcher._on_worker,
    events.WORKER_DRAINED: Dispatcher._on_worker,
    events.WORKER_UNDRAINED: Dispatcher._on_worker,
}

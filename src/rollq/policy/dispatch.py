"""Dispatch: which job goes to which worker next.

`Dispatcher` is an index of what can be assigned. Every member keeps it from the events it applies
(`index`), so that a new leader has it at once; sessions, credits and decisions exist on the leader
only. It changes nothing that is replicated: a decision is a command, and takes effect when it is
applied.

Scheduling is round-robin at every level: pools with credit, then queues of the pool, then (in the
highest priority that waits) clients of the queue; within a client the oldest job goes first. With
credit for many jobs, a turn is as many jobs as the fair share of each, so that they are assigned in
runs. A decision is O(1) in workers, queues, clients and jobs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, TypeAlias

from rollq.base.errors import ErrorCode, RemoteError, StateError
from rollq.base.ids import JobId, WorkerId
from rollq.base.limits import CREDIT_MAX
from rollq.base.needs import WorkerLoad
from rollq.grid.commands import AssignRun, AssignTasks, SubmitRun
from rollq.grid.explanations import RawExplanation
from rollq.grid.runs import ids_in
from rollq.grid.state import ArrayRecord, GridState, JobRecord
from rollq.grid.views import UnservedView
from rollq.policy.at_once import start_at_once
from rollq.policy.endings import ReadResult
from rollq.policy.hints import lease_ms_of
from rollq.policy.index import DispatchIndex
from rollq.policy.lanes import MIXED, Item, QueueLanes
from rollq.policy.needs import ANYTHING, ProgramSet, Room
from rollq.policy.pools import DispatchSession, Pool
from rollq.policy.shares import AssignmentBatch, share_of
from rollq.policy.waiting import ExplainContext, explanation, oldest, unserved

# Jobs that one turn may split off; the rest wait for a later turn. A million jobs of mixed programs
# would otherwise block the loop when one worker joins.
SPLITS_PER_TURN_MAX: Final = 4_096

# (caches, predicate) -> a worker that holds the caches and satisfies the predicate, or None.
Nearest: TypeAlias = Callable[[tuple[str, ...], Callable[[WorkerId], bool]], WorkerId | None]


class Dispatcher(DispatchIndex):
    """The index of what can be assigned, and the leader's decisions."""

    __slots__ = ("_deferred_queues", "_served_count", "_splits_left", "nearest")

    def __init__(self, state: GridState, placement: str = "least-load") -> None:
        """Index what waits in `state`, which may be at any point of its life.

        Raises:
            LocalError: BAD_OPTIONS, if there is no such placement policy.
        """
        super().__init__(state, placement)
        self._served_count = 0  # decisions made so far; orders pools by when they were last served
        self._splits_left = 0  # jobs that may still be split off in this turn
        self._deferred_queues: dict[
            QueueLanes, None
        ] = {}  # deferred to the next turn; `Limits.judge`
        # Finds a worker that holds caches; set by the leader.
        self.nearest: Nearest | None = None

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
        """Open a session for a worker, without credit. Its labels, its resources and what its
        attempts hold of them are read from the state.

        Args:
            worker_id: An older session of the same worker is closed.
            incarnation: As in the state; assignments carry it.
            name: Matched by jobs that name their worker.
            patterns: Canonical patterns over `job.assign.<queue>`.
            running: Its running attempts, as counted in the state.
            programs: The programs it can run.
        """
        self.close_worker(worker_id)
        session = DispatchSession(
            worker_id, incarnation=incarnation, name=name, running=running, programs=programs
        )
        record = self._state.workers.get(worker_id)
        if record is not None:
            session.labels, session.room = record.labels, Room(record.resources)
            for job_id in record.held:
                held = self._state.jobs[job_id].options.resources
                if held:
                    session.room.take_jobs((job_id,), held)
        self._sessions[worker_id] = session
        self._backlog.join(session, patterns)

    def announce(self, worker_id: WorkerId, programs: ProgramSet) -> None:
        """Replace the programs that a worker can run; ignored without a session."""
        session = self._sessions.get(worker_id)
        if session is not None and session.programs != programs:
            self._backlog.announce(session, programs)

    def grant(self, worker_id: WorkerId, credits: int) -> None:
        """Add credit to a worker's session, up to CREDIT_MAX in all.

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

    def report(self, worker_id: WorkerId, load: WorkerLoad) -> None:
        """Update the CPU and memory use of a worker; ignored without a session. No order is kept by
        it: placements read it when they compare sessions."""
        session = self._sessions.get(worker_id)
        if session is not None:
            session.cpu_use = min(max(load.cpu_permille, 0), 1_000)
            used, total = load.memory_used_bytes, max(load.memory_total_bytes, 1)
            session.memory_use = min(max(1_000 * used // total, 0), 1_000)

    def credit(self, worker_id: WorkerId) -> int:
        """The credit of a worker; 0 without a session."""
        session = self._sessions.get(worker_id)
        return session.credit if session is not None else 0

    def step_down(self) -> None:
        """Leadership is lost: drop sessions and credits, and requeue what was decided.

        A decision may still be applied if the next leader has it in its log; its event then updates
        the index.
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
        self._holdings.clear()
        self.nearest = None
        self._backlog.clear_sessions()
        for item in dict.fromkeys(decided):
            self._requeue(item)

    # --- decisions

    def decide(self, count_max: int, now_ms: int = 0) -> list[AssignRun | AssignTasks]:
        """Decide assignments of up to `count_max` jobs, in runs. Each job holds one credit until
        the command is applied or refused. `now_ms` is the group's time, if it is later than that of
        the last entry; `next_ms` is when to call again if nothing happens before."""
        batch = AssignmentBatch(count_max)
        backlog, limits = self._backlog, self._holds.limits
        backlog.refresh()
        self._splits_left = SPLITS_PER_TURN_MAX
        # Jobs that waited for a limit come before those that would meet it only now.
        called = limits.call(max(now_ms, self._state.time_ms))
        for queue in self._deferred_queues:
            backlog.offer(queue)
        self._deferred_queues.clear()
        while True:
            for item in called:
                self._push_called(item)
            self._serve(backlog.ready_pinned_pools, batch)
            self._serve(backlog.ready_pools, batch)
            if batch.left <= 0:
                return batch.commands()
            # Parked clients come back only now, when no other client could use the credit.
            woken = self._holds.wake()
            called = limits.call_more(self._can_serve)
            if not woken and not called:
                return batch.commands()
            for queue in woken:
                backlog.offer(queue)

    @property
    def next_ms(self) -> int | None:
        """When `decide` may have something to assign because time has passed; None: never."""
        return self._holds.limits.next_ms

    def start_at_once(self, command: SubmitRun) -> list[AssignRun]:
        """Assignments for a submit, to be applied by the same entry; see `at_once`."""
        return start_at_once(self._state, self._backlog, self._holds, command)

    def refused(self, command: AssignRun | AssignTasks, positions: Iterable[int]) -> None:
        """The group refused a decision for the jobs at these positions: return credit and
        requeue."""
        if isinstance(command, AssignTasks):
            for _ in positions:
                session = self._holds.release_task(command.array_id, command.worker_id)
                array = self._state.array_of(command.array_id)
                if session is not None:
                    session.room.end_task(command.array_id)
                    self._refund(session, array)
            return
        job_ids = ids_in(command.job_ids)
        for job_id in [job_ids[at] for at in positions]:
            decided = self._holds.jobs.get(job_id)
            if decided is not None:
                job = self._state.jobs.get(job_id)
                self._holds.release_jobs((job_id,))
                decided.session.room.end_jobs((job_id,))
                self._holds.room_made(decided.client.client_id)  # the reservation is released
                self._refund(decided.session, job if job and decided.is_about(job) else None)

    def _refund(self, session: DispatchSession, item: Item | None) -> None:
        session.running -= 1
        if self._sessions.get(session.worker_id) is session:
            session.credit += 1
            self._backlog.mark_changed(session)
        if item is not None:
            self._holds.room_made(item.client.client_id)
            self._requeue(item)

    # --- views

    def explain(
        self,
        job_id: JobId,
        *,
        is_capped: Callable[[WorkerId], bool],
        address: str,
        read: ReadResult,
    ) -> RawExplanation | None:
        """Why a job or array does not run, or how it ended; see `waiting`."""
        self._backlog.refresh()
        index = self._state, self._backlog, self._holds, self._sessions
        return explanation(ExplainContext(*index, is_capped, address, read), job_id)

    def unserved(self, count_max: int) -> list[UnservedView]:
        """Waiting items that no connected worker can run."""
        self._backlog.refresh()
        return unserved(self._state, self._backlog, count_max)

    def oldest(self, queues: Collection[str]) -> dict[str, int]:
        """By queue: the time since which its oldest item waits; queues without one are absent."""
        return oldest(self._backlog, queues)

    @property
    def credits(self) -> int:
        """The credit of all sessions together."""
        return sum([session.credit for session in self._sessions.values()])

    @property
    def parked_clients(self) -> int:
        """Clients that wait because they are at their cap."""
        return self._holds.parked_clients

    @property
    def limited_count(self) -> int:
        """Jobs and arrays that wait for a limit."""
        return self._holds.limits.waiting_count

    # --- helpers

    def _serve(self, line: deque[Pool], batch: AssignmentBatch) -> None:
        """Visit the ready pools of a list in turn until none has credit and something runnable."""
        backlog = self._backlog
        while line and batch.left > 0:
            pool = line[0]
            ring = pool.ring
            if not ring or not pool.candidates.count:
                line.popleft()
                pool.is_ready = False
                pool.round_left = 0
                if not ring:
                    backlog.release_reserved(pool)  # nothing in it waits for resources
                continue
            queue = ring[0]
            if queue.need != pool.need:
                ring.popleft()  # it was split off since it was added to this ring
                continue
            limited = None  # the pool, if some of its workers may lack the program of a job here
            need = queue.only_need
            if pool.limited_count and (need == MIXED or not pool.all_can_run(need)):
                if backlog.maybe_split_all(queue):
                    continue
                limited = pool
            item = queue.take(self._holds, limited)
            if queue.unfit:
                self._splits_left -= backlog.split_off(queue)
                if item is None and self._splits_left <= 0:
                    return
            if item is None:
                if self._holds.limits.is_spent:
                    self._deferred_queues[queue] = None  # it may hold more items that limits block
                elif queue.is_runnable:
                    continue  # it holds more unfit jobs than one call removes
                ring.popleft()
                queue.turn_left = 0
                queue.absent.append(pool)
                backlog.maybe_drop_pinned(queue)
                continue
            self._assign(item, queue, pool, limited, batch)
            # What was served goes to the end: one turn each, for queues and for pools.
            queue.turn_left -= 1
            if queue.turn_left <= 0:
                ring.rotate(-1)
                line.rotate(-1)
            self._served_count += 1
            pool.served_at = self._served_count

    def _can_serve(self, queue: str, worker_name: str) -> bool:
        """Whether some session with credit serves a queue and has this name, if one is given. The
        queue may be absent: all of its items may wait for limits."""
        lanes = self._backlog.opened(queue, worker_name)
        found = not lanes.is_paused and any(pool.candidates.count for pool in lanes.pools)
        if not found:
            self._backlog.maybe_drop_pinned(lanes)
        return found

    def _assign(
        self,
        item: Item,
        queue: QueueLanes,
        pool: Pool,
        limited: Pool | None,
        batch: AssignmentBatch,
    ) -> None:
        """Spend credit of the pool on a job, or on the next task of an array, and on as many items
        like it as its client has a share of."""
        holder = self._cache_holder(item, pool) if self._state.caches else None
        session = holder or pool.pick(item, queue.preference)
        if isinstance(item, JobRecord) and item.past is not None and item.past.attempts:
            session = pool.prefer_untried(session, item.past.attempts)
        holds, resources = self._holds, pool.resources
        share = share_of(item, queue, pool, session, batch.left, weights=holds.weights)
        lease_ms = item.options.lease_ms or lease_ms_of(self._state, item.exec_name)
        if isinstance(item, JobRecord):
            jobs = [item]
            if share > 1 and item.past is None:
                jobs += queue.take_more(item, holds, limited, share - 1)
            holds.reserve_jobs(jobs, session)
            batch.add_jobs(session, lease_ms, jobs)
            count = len(jobs)
            if resources:
                session.room.take_jobs([job.job_id for job in jobs], resources)
        else:
            count = holds.reserve_tasks(item, session, share)
            batch.add_tasks(session, lease_ms, item, count)
            if resources:
                session.room.take_tasks(item.array_id, resources, count)
        if self._holdings.is_used:
            self._holdings.note(session.worker_id, item)
        # Until the command is applied or refused the jobs count as running, so that a second
        # decision of this turn sees the load that the first has made.
        session.credit -= count
        session.running += count
        session.reserved += count
        is_alone = pool.candidates.count == 1 and len(session.serving) == 1
        if session.credit and is_alone and not session.measured:
            # the only candidate: updating its load once a turn is enough
            self._backlog.mark_changed(session)
            return
        if resources:
            if pool.overtaken_count:
                self._backlog.release_reserved(pool)
            pool.count_overtaking(session)
        session.update_load()

    def _cache_holder(self, item: Item, pool: Pool) -> DispatchSession | None:
        """A session of the pool that can take the job now and holds the caches it names. A job
        never waits for such a session, so this preference starves neither jobs nor workers."""
        owner = item if isinstance(item, ArrayRecord) else item.array or item.past
        caches = owner.caches if owner is not None else ()
        if not caches or self.nearest is None:
            return None
        sessions = self._sessions

        def suits(worker_id: WorkerId) -> bool:
            session = sessions.get(worker_id)
            return session is not None and session in pool.candidates

        worker_id = self.nearest(caches, suits)
        return None if worker_id is None else sessions[worker_id]

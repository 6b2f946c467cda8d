"""Dispatch: which job goes to which worker next.

`Dispatcher` is an index of what can be assigned. Every member keeps it from the events it applies
(`index`), so that a new leader has it at once; sessions, credits and decisions exist on the leader
only.
It changes nothing that is replicated: a decision is a command, and counts when it is applied.

Turns are taken at every level: pools with credit, then queues of the pool, then (in the highest
priority that waits) clients of the queue; within a client the oldest job goes first. Where there is
credit for many jobs a turn is as many jobs as each may have, so that they are given in runs. A
decision costs the same however many workers, queues, clients and jobs there are.
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
from rollq.policy.shares import Given, share_of
from rollq.policy.waiting import Known, explanation, oldest, unserved

# Jobs that one turn may split off for workers that can run them; the rest have their turn later.
# A million jobs of mixed programs would otherwise hold up the loop when one worker comes.
SPLITS_PER_TURN_MAX: Final = 4_096

# Of those who hold these caches, one of whom the question is true; None if none of a few is.
Nearest: TypeAlias = Callable[[tuple[str, ...], Callable[[WorkerId], bool]], WorkerId | None]


class Dispatcher(DispatchIndex):
    """Index of what can be assigned, and the leader's choice of what is."""

    __slots__ = ("_later", "_served_count", "_splits_left", "nearest")

    def __init__(self, state: GridState, placement: str = "least-load") -> None:
        """Index what waits in `state`, which may be at any point of its life.

        Raises:
            LocalError: BAD_OPTIONS, if there is no such placement policy.
        """
        super().__init__(state, placement)
        self._served_count = 0  # turns that pools have had
        self._splits_left = 0  # jobs that may still be split off in this turn
        self._later: dict[QueueLanes, None] = {}  # left until the next turn; see `Limits.judge`
        # Which of the workers that hold caches suits, if the leader knows one.
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
        """A worker may be given work from now on; it has no credit yet. What labels and resources
        it has, and what its attempts hold of these, the state says.

        Args:
            worker_id: Who; an older session of the same worker ends.
            incarnation: As in the state: assignments name it.
            name: For jobs that ask for one worker.
            patterns: Canonical patterns over `job.assign.<queue>`.
            running: How many attempts the state counts as its own.
            programs: What it can run.
        """
        self.close_worker(worker_id)
        session = DispatchSession(worker_id, incarnation, name, running, programs)
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
        """A worker can run other programs from now on; no harm if it has no session."""
        session = self._sessions.get(worker_id)
        if session is not None and session.programs != programs:
            self._backlog.announce(session, programs)

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

    def report(self, worker_id: WorkerId, load: WorkerLoad) -> None:
        """How busy the computer of a worker is; no harm if it has no session. Nothing is kept in
        order of it: who compares workers reads it."""
        session = self._sessions.get(worker_id)
        if session is not None:
            session.cpu_use = min(max(load.cpu_permille, 0), 1_000)
            used, total = load.memory_used_bytes, max(load.memory_total_bytes, 1)
            session.memory_use = min(max(1_000 * used // total, 0), 1_000)

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
        self._holdings.clear()
        self.nearest = None
        self._backlog.clear_sessions()
        for item in dict.fromkeys(decided):
            self._give_back(item)

    # --- decisions

    def decide(self, count_max: int, now_ms: int = 0) -> list[AssignRun | AssignTasks]:
        """Assignments of up to `count_max` jobs, in runs. Each job spends a credit until it is
        applied or refused. `now_ms` is the group's time, if it is later than that of the last
        entry; `next_ms` says when to ask again, if nothing happens before."""
        given = Given(count_max)
        backlog, limits = self._backlog, self._holds.limits
        backlog.refresh()
        self._splits_left = SPLITS_PER_TURN_MAX
        # Whoever waited for a limit comes before those who would meet it only now.
        called = limits.call(max(now_ms, self._state.time_ms))
        for queue in self._later:
            backlog.offer(queue)
        self._later.clear()
        while True:
            for item in called:
                self._push_called(item)
            self._serve(backlog.pinned_line, given)
            self._serve(backlog.line, given)
            if given.left <= 0:
                return given.commands()
            # Clients come back from their caps only now: nobody else could use the credit.
            woken = self._holds.wake()
            called = limits.call_more(self._can_serve)
            if not woken and not called:
                return given.commands()
            for queue in woken:
                backlog.offer(queue)

    @property
    def next_ms(self) -> int | None:
        """When `decide` has something to give by the passing of time alone; None: never."""
        return self._holds.limits.next_ms

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

    @property
    def limited_count(self) -> int:
        """How many jobs and arrays were put aside by a limit."""
        return self._holds.limits.waiting_count

    # --- helpers

    def _serve(self, line: deque[Pool], given: Given) -> None:
        """Let the pools of a line take turns until none has credit and something to do."""
        backlog = self._backlog
        while line and given.left > 0:
            pool = line[0]
            ring = pool.ring
            if not ring or not pool.candidates.count:
                line.popleft()
                pool.is_ready = False
                pool.round_left = 0
                if not ring:
                    backlog.stop_keeping(pool)  # it has nothing that waits for room
                continue
            queue = ring[0]
            if queue.need != pool.need:
                ring.popleft()  # it was split off since it came into this ring
                continue
            limited = None  # the pool, if one of its workers may lack the program of some job here
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
                    self._later[queue] = None  # it may hold more that limits keep
                elif queue.is_runnable:
                    continue  # it holds more unfit jobs than one call takes out
                ring.popleft()
                queue.turn_left = 0
                queue.absent.append(pool)
                backlog.maybe_drop_pinned(queue)
                continue
            self._give(item, queue, pool, limited, given)
            # Whoever was served goes to the end: one turn each, for queues and for pools.
            queue.turn_left -= 1
            if queue.turn_left <= 0:
                ring.rotate(-1)
                line.rotate(-1)
            self._served_count += 1
            pool.served_at = self._served_count

    def _can_serve(self, queue: str, worker_name: str) -> bool:
        """Whether somebody with credit serves a queue, and has this name if one is asked for."""
        lanes = self._backlog.lanes_named(queue, worker_name)
        if lanes is None or lanes.is_paused:
            return False
        return any(pool.candidates.count for pool in lanes.pools)

    def _give(
        self, item: Item, queue: QueueLanes, pool: Pool, limited: Pool | None, given: Given
    ) -> None:
        """Spend credit of the pool on a job, or on the next task of an array, and on as many like
        it as its client has a share of."""
        near = self._near(item, pool) if self._state.caches else None
        session = near or pool.pick(item, queue.preference)
        if isinstance(item, JobRecord) and item.past is not None and item.past.attempts:
            session = pool.untried(session, item.past.attempts)
        holds, resources = self._holds, pool.resources
        share = share_of(item, queue, pool, session, given.left, weights=holds.weights)
        lease_ms = item.options.lease_ms or lease_ms_of(self._state, item.exec_name)
        if isinstance(item, JobRecord):
            jobs = [item]
            if share > 1 and item.past is None:
                jobs += queue.take_more(item, holds, limited, share - 1)
            holds.reserve_jobs(jobs, session)
            given.add_jobs(session, lease_ms, jobs)
            count = len(jobs)
            if resources:
                session.room.take_jobs([job.job_id for job in jobs], resources)
        else:
            count = holds.reserve_tasks(item, session, share)
            given.add_tasks(session, lease_ms, item, count)
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
            self._backlog.mark_changed(session)  # compared with nobody: once a turn is enough
            return
        if resources:
            if pool.overtaken_count:
                self._backlog.stop_keeping(pool)
            pool.count_overtaking(session)
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
            return session is not None and session in pool.candidates

        worker_id = self.nearest(caches, suits)
        return None if worker_id is None else sessions[worker_id]

"""What keeps a job that waits from starting: decisions under way, client caps, array limits.

A decision counts against the cap of its client and the limit of its array from the moment it is
made, on top of what the state counts as running; it is released when it is applied or refused.
Whoever meets a limit is put aside and costs nothing until there is room again:

- a client at its cap: its lanes are parked, and come back as many at a time as it has room;
- an array at its `running_max`: it rests, with those of its tasks that wait for another attempt.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import msgspec

from rollq.base.ids import ClientId, JobId, WorkerId
from rollq.grid.state import QUEUED, ArrayRecord, ClientRecord, GridState, JobRecord
from rollq.policy.lanes import REST, SKIP, START, START_AND_STAY, Item, QueueLanes

if TYPE_CHECKING:
    from rollq.policy.pools import Session


class Decision(msgspec.Struct, frozen=True, gc=False):
    """A job given to a session by a command that is not applied yet."""

    record: JobRecord
    session: Session


class ArrayHold:
    """Decisions under way for one array, and what rests because of its limit."""

    __slots__ = ("client", "reserved", "resting", "tasks", "tasks_reserved")

    def __init__(self, client: ClientRecord) -> None:
        self.client = client  # the array may be gone before what was decided is refused
        self.reserved = 0  # starts decided: new tasks and further attempts of old ones
        self.tasks_reserved = 0  # of these, new tasks
        self.tasks: dict[WorkerId, list[Session]] = {}  # who was given new tasks, in order
        self.resting: deque[Item] = deque()

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to remember."""
        return not self.reserved and not self.resting


class Holds:
    """Decisions that are not applied yet, and everything that a limit keeps waiting."""

    __slots__ = ("_arrays", "_clients_reserved", "_hungry", "_laid", "_parked", "_state", "jobs")

    def __init__(self, state: GridState) -> None:
        self._state = state
        self.jobs: dict[JobId, Decision] = {}
        self._clients_reserved: dict[ClientRecord, int] = {}
        self._arrays: dict[JobId, ArrayHold] = {}
        self._laid: dict[JobId, None] = {}  # arrays that stand in a lane
        self._parked: dict[ClientId, deque[tuple[ClientRecord, QueueLanes, int]]] = {}
        self._hungry: dict[ClientId, None] = {}  # parked clients that may have room again

    # --- asked for every job that has its turn

    def is_full(self, client: ClientRecord) -> bool:
        """Whether one more start would put a client over its cap."""
        cap = client.cap or self._state.settings.client_cap
        if not cap:
            return False
        return client.in_flight + self._clients_reserved.get(client, 0) >= cap

    def judge(self, item: Item) -> int:
        """Whether the first of a lane may start; what must rest is kept here from now on."""
        if isinstance(item, JobRecord):
            if item.state is not QUEUED or item.job_id in self.jobs:
                return SKIP
            if item.array is None or not self._rests(item.array, item):
                return START
            return REST
        hold = self._arrays.get(item.array_id)
        left = item.tasks_waiting - (hold.tasks_reserved if hold is not None else 0)
        if left > 1 and not item.delayed and not item.running_max:
            return START_AND_STAY
        if left <= 0 or item.delayed:
            verdict = SKIP
        elif self._rests(item, item):
            verdict = REST
        else:
            verdict = START_AND_STAY if left > 1 else START
        if verdict != START_AND_STAY:
            self.unlay(item)
        return verdict

    def is_decided(self, item: Item) -> bool:
        """Whether a job was given to a session by a command that is not applied yet."""
        return isinstance(item, JobRecord) and item.job_id in self.jobs

    def lay(self, array: ArrayRecord) -> bool:
        """An array is about to stand in a lane; False if it does already, or rests."""
        if array.array_id in self._laid or self.is_resting(array):
            return False
        self._laid[array.array_id] = None
        return True

    def unlay(self, array: ArrayRecord) -> None:
        """An array stands in no lane any more, or has nothing left to give."""
        self._laid.pop(array.array_id, None)

    # --- decisions

    def reserve_job(self, record: JobRecord, session: Session) -> None:
        """A job was given to a session."""
        self.jobs[record.job_id] = Decision(record, session)
        reserved, client = self._clients_reserved, record.client
        reserved[client] = reserved.get(client, 0) + 1
        if record.array is not None:
            self._hold(record.array).reserved += 1

    def release_job(self, job_id: JobId) -> Decision | None:
        """The decision on a job is applied or refused; None if there was none."""
        decision = self.jobs.pop(job_id, None)
        if decision is not None:
            record = decision.record
            self._uncount(record.client)
            if record.array is not None:
                self._hold(record.array).reserved -= 1
                self._maybe_forget(record.array.array_id)
        return decision

    def reserve_task(self, array: ArrayRecord, session: Session) -> None:
        """The next task of an array was given to a session."""
        hold = self._hold(array)
        hold.reserved += 1
        hold.tasks_reserved += 1
        hold.tasks.setdefault(session.worker_id, []).append(session)
        reserved, client = self._clients_reserved, array.client
        reserved[client] = reserved.get(client, 0) + 1

    def release_task(self, array_id: JobId, worker_id: WorkerId) -> Session | None:
        """A decision on a task is applied or refused; None if there was none."""
        hold = self._arrays.get(array_id)
        if hold is None or worker_id not in hold.tasks:
            return None
        sessions = hold.tasks[worker_id]
        session = sessions.pop(0)
        if not sessions:
            del hold.tasks[worker_id]
        hold.reserved -= 1
        hold.tasks_reserved -= 1
        self._uncount(hold.client)
        self._maybe_forget(array_id)
        return session

    def task_sessions(self) -> list[tuple[JobId, Session]]:
        """Every decision on a task that is under way."""
        return [
            (array_id, session)
            for array_id, hold in self._arrays.items()
            for sessions in hold.tasks.values()
            for session in sessions
        ]

    # --- limits

    def park(self, client: ClientRecord, queue: QueueLanes, priority: int) -> None:
        """A client at its cap gives up its turn in a level until it has room."""
        lanes = self._parked.get(client.client_id)
        if lanes is None:
            lanes = self._parked[client.client_id] = deque()
        lanes.append((client, queue, priority))

    def room_made(self, client_id: ClientId) -> None:
        """A client may have room again: fewer jobs in flight, or a higher cap."""
        if client_id in self._parked:
            self._hungry[client_id] = None

    def room_made_for_all(self) -> None:
        """The cap of every client may have changed."""
        self._hungry.update(dict.fromkeys(self._parked))

    def wake(self) -> list[QueueLanes]:
        """Bring back as many parked lanes as their clients have room; the queues they are in.

        Not all at once: a client with one free place and a thousand lanes would be parked again
        in all but one of them. If a lane that was woken cannot be served, the next call wakes the
        next, so none is kept waiting by another.
        """
        woken: list[QueueLanes] = []
        for client_id in list(self._hungry):
            lanes = self._parked[client_id]
            count = min(self._room(client_id, len(lanes)), len(lanes))
            for _ in range(count):
                client, queue, priority = lanes.popleft()
                queue.wake(client, priority)
                woken.append(queue)
            if not lanes:
                del self._parked[client_id]
            if not lanes or not count:
                del self._hungry[client_id]
        return woken

    def rested(self, array_id: JobId) -> list[Item]:
        """What rested and may try again: as much of it as the array has room for."""
        hold = self._arrays.get(array_id)
        array = self._state.array_of(array_id)
        if hold is None or array is None:
            return []
        room = array.running_max - array.running - hold.reserved
        back: list[Item] = []
        while hold.resting and len(back) < room:
            item = hold.resting.popleft()
            if self._still_waits(item):  # else its turn is another's, or that one rests for ever
                back.append(item)
        self._maybe_forget(array_id)
        return back

    def is_at_limit(self, array: ArrayRecord) -> bool:
        """Whether one more start would put an array over its `running_max`."""
        hold = self._arrays.get(array.array_id)
        reserved = hold.reserved if hold is not None else 0
        return bool(array.running_max) and array.running + reserved >= array.running_max

    def is_resting(self, item: Item) -> bool:
        """Whether this waits for a task of its array to end."""
        array = item.array if isinstance(item, JobRecord) else item
        hold = self._arrays.get(array.array_id) if array is not None else None
        return hold is not None and item in hold.resting

    def _rests(self, array: ArrayRecord, item: Item) -> bool:
        if not self.is_at_limit(array):
            return False
        self._hold(array).resting.append(item)
        return True

    def _still_waits(self, item: Item) -> bool:
        if isinstance(item, JobRecord):
            return item.state is QUEUED and self._state.jobs.get(item.job_id) is item
        return item.tasks_waiting > 0

    def _room(self, client_id: ClientId, wanted: int) -> int:
        client = self._state.clients.get(client_id)
        cap = self._state.cap_of(client) if client is not None else 0
        if client is None or not cap:
            return wanted
        return max(0, cap - client.in_flight - self._clients_reserved.get(client, 0))

    def _uncount(self, client: ClientRecord) -> None:
        left = self._clients_reserved[client] - 1
        if left:
            self._clients_reserved[client] = left
        else:
            del self._clients_reserved[client]

    def _hold(self, array: ArrayRecord) -> ArrayHold:
        hold = self._arrays.get(array.array_id)
        if hold is None:
            hold = self._arrays[array.array_id] = ArrayHold(array.client)
        return hold

    def _maybe_forget(self, array_id: JobId) -> None:
        if self._arrays[array_id].is_idle:
            del self._arrays[array_id]

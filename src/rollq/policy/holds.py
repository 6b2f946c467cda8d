"""What keeps a waiting job from starting: decisions under way, client caps, array limits, and the
limits that operators set (`limits`).

A decision counts against the cap of its client and the limit of its array from the moment it is
made, in addition to what the state counts as running; it is released when it is applied or refused.
An item that meets a limit is set aside and costs nothing until there is room again:

- a client at its cap is *parked*: its lanes leave their rings, and as many return at a time as the
  client has room for;
- an array at its `running_max` is *throttled*, as are those of its tasks that wait for another
  attempt.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from rollq.base.ids import ClientId, JobId, WorkerId
from rollq.base.limits import RUN_JOBS_MAX
from rollq.grid.state import QUEUED, ArrayRecord, ClientRecord, GridState, JobRecord
from rollq.policy.lanes import LATER, SKIP, START, START_AND_STAY, THROTTLED, Item, QueueLanes
from rollq.policy.limits import Limits, Taken

if TYPE_CHECKING:
    from rollq.policy.pools import DispatchSession


class Decision(msgspec.Struct, frozen=True, eq=False):
    """Equal jobs assigned to a session by a command that is not applied yet. What they count
    against is kept here, because before the command is refused their records may be removed, and
    new ones may have their ids."""

    session: DispatchSession
    client: ClientRecord
    array: ArrayRecord | None
    last_seq: int  # `last_seq` of the state when the decision was made
    taken: Taken = ()  # tokens of limits that each of the jobs reserves

    def is_about(self, record: JobRecord) -> bool:
        """Whether the decision was made for this record, and not for an earlier one with the same
        id or an earlier place of it: a newer record was pushed into its lane separately."""
        return record.seq <= self.last_seq


class ArrayHold:
    """Decisions under way for one array, and the items that its limit throttles."""

    __slots__ = ("client", "reserved", "tasks", "tasks_reserved", "throttled")

    def __init__(self, client: ClientRecord) -> None:
        self.client = client  # the array may be removed before a decision is refused
        # Decided starts that are not applied: new tasks and further attempts. Invariant: a start is
        # decided only while running + reserved < running_max.
        self.reserved = 0
        # The part of `reserved` that are new tasks. The group chooses which task it is (the next
        # one), so such a decision is identified by array and worker. Invariant: the number of
        # sessions in `tasks`.
        self.tasks_reserved = 0
        # By worker, in order: the session, and the tokens that each task reserves.
        self.tasks: dict[WorkerId, list[tuple[DispatchSession, Taken]]] = {}
        # The array itself and its tasks that wait for a running one to end, in order. May hold
        # items that no longer wait; `take_unthrottled` skips them.
        self.throttled: deque[Item] = deque()

    @property
    def is_idle(self) -> bool:
        """Whether the entry can be dropped."""
        return not self.reserved and not self.throttled


class Holds:
    """Decisions that are not applied yet, and everything that a limit keeps waiting."""

    __slots__ = (
        "_arrays",
        "_clients_reserved",
        "_in_lane",
        "_maybe_room",
        "_parked",
        "_state",
        "jobs",
        "limits",
    )

    def __init__(self, state: GridState) -> None:
        self._state = state
        # Decisions on jobs and on further attempts of tasks, from `reserve_jobs` until the command
        # is applied or refused, or leadership is lost. Bounded by the entries in flight.
        self.jobs: dict[JobId, Decision] = {}
        # Number of decisions under way by client, of all kinds; absent: none. Counts against the
        # cap.
        self._clients_reserved: dict[ClientRecord, int] = {}
        # By array; present while it has decisions under way or throttled items.
        self._arrays: dict[JobId, ArrayHold] = {}
        # Arrays that are in a lane: each is in one lane once, however many tasks it has.
        self._in_lane: dict[JobId, None] = {}
        # By client at its cap: the lanes that left their rings, as (client, queue, priority). Keyed
        # by id, because a client's record may be removed and created again.
        self._parked: dict[ClientId, deque[tuple[ClientRecord, QueueLanes, int]]] = {}
        # Parked clients that may have room again; read by the next `wake`.
        self._maybe_room: dict[ClientId, None] = {}
        self.limits = Limits(state)

    @property
    def weights(self) -> Mapping[ClientId, int]:
        """Visits per turn by client; absent: 1."""
        return self._state.weights

    @property
    def parked_clients(self) -> int:
        """The number of clients with items that only wait for their cap."""
        return len(self._parked)

    # --- checks before every start

    def is_full(self, client: ClientRecord) -> bool:
        """Whether one more start would exceed the cap of a client."""
        cap = client.cap or self._state.settings.client_cap
        if not cap:
            return False
        return client.in_flight + self._clients_reserved.get(client, 0) >= cap

    def room(self, client: ClientRecord) -> int:
        """How many more starts the cap of a client allows."""
        cap = client.cap or self._state.settings.client_cap
        if not cap:
            return RUN_JOBS_MAX
        return max(0, cap - client.in_flight - self._clients_reserved.get(client, 0))

    def room_like(self, item: Item) -> int:
        """How many items like this one may start now, itself included, by the cap of its client and
        the limits."""
        room = self.room(item.client)
        return min(room, self.limits.room(item)) if self._state.limits else room

    def judge(self, item: Item, *, is_unlimited: bool = False) -> int:
        """The verdict on the first item of a lane; a throttled item is kept here from now on. If
        `is_unlimited`, the limits that operators set are not checked."""
        if (self._state.limits or self.limits.called) and not is_unlimited:
            return self._judge_limited(item)
        if isinstance(item, JobRecord):
            if item.state is not QUEUED or item.job_id in self.jobs:
                return SKIP
            if item.array is None or not self._throttle(item.array, item):
                return START
            return THROTTLED
        hold = self._arrays.get(item.array_id)
        left = item.tasks_waiting - (hold.tasks_reserved if hold is not None else 0)
        if left > 1 and not item.delayed and not item.running_max:
            return START_AND_STAY
        if left <= 0 or item.delayed:
            verdict = SKIP
        elif self._throttle(item, item):
            verdict = THROTTLED
        else:
            verdict = START_AND_STAY if left > 1 else START
        if verdict != START_AND_STAY:
            self.delist(item)
        return verdict

    def _judge_limited(self, item: Item) -> int:
        verdict = self.judge(item, is_unlimited=True)
        if verdict not in (START, START_AND_STAY):
            self.limits.withdraw_call(item)
            return verdict
        limited = self.limits.judge(item)
        if limited == START:
            return verdict
        if isinstance(item, ArrayRecord):
            if limited == THROTTLED:
                self.delist(item)
            elif limited == LATER:
                self.enlist(item)  # it stays in its lane
        return limited

    def is_decided(self, item: Item) -> bool:
        """Whether a job is assigned by a command that is not applied yet."""
        return isinstance(item, JobRecord) and item.job_id in self.jobs

    def enlist(self, array: ArrayRecord) -> bool:
        """Note that an array is put into a lane; False if it is in one already, or waits for a
        limit."""
        if array.array_id in self._in_lane or self.is_throttled(array):
            return False
        if self.limits.is_waiting(array):
            return False
        self._in_lane[array.array_id] = None
        return True

    def delist(self, array: ArrayRecord) -> None:
        """Note that an array is in no lane any more."""
        self._in_lane.pop(array.array_id, None)

    # --- decisions

    def reserve_jobs(self, records: Sequence[JobRecord], session: DispatchSession) -> None:
        """Record a decision on jobs of one client, all of one array or of none."""
        client, array, count = records[0].client, records[0].array, len(records)
        if self.limits.called:  # by a limit removed since: `take_more` did not check it
            for record in records:
                self.limits.withdraw_call(record)
        taken = self.limits.reserve(records[0], count)
        decision = Decision(session, client, array, self._state.last_seq, taken)
        self.jobs.update(dict.fromkeys([record.job_id for record in records], decision))
        self._clients_reserved[client] = self._clients_reserved.get(client, 0) + count
        if array is not None:
            self._hold(array).reserved += count

    def reserve_new(
        self, job_ids: Sequence[JobId], client: ClientRecord, session: DispatchSession
    ) -> None:
        """Record a decision on jobs that are being submitted and that no limit counts."""
        decision = Decision(session, client, None, self._state.last_seq)
        self.jobs.update(dict.fromkeys(job_ids, decision))
        self._clients_reserved[client] = self._clients_reserved.get(client, 0) + len(job_ids)

    def release_jobs(self, job_ids: Sequence[JobId]) -> list[JobId]:
        """Release decisions that were applied or refused; returns the ids without a decision."""
        unknown: list[JobId] = []
        pop = self.jobs.pop
        last: Decision | None = None
        count = 0  # of the last decision
        for job_id in job_ids:
            decision = pop(job_id, None)
            if decision is None:
                unknown.append(job_id)
            elif decision is last:
                count += 1
            else:
                self._release(last, count)
                last, count = decision, 1
        self._release(last, count)
        return unknown

    def _release(self, decision: Decision | None, count: int) -> None:
        if decision is None:
            return
        decision.session.reserved -= count
        self._uncount(decision.client, count)
        if decision.taken:
            self.limits.release(decision.taken, count)
        if decision.array is not None:
            self._hold(decision.array).reserved -= count
            self._maybe_drop(decision.array.array_id)

    def reserve_tasks(self, array: ArrayRecord, session: DispatchSession, count_max: int) -> int:
        """Record a decision on the next task of an array, and on as many more as may start; returns
        how many. Excludes the last task: with that the array leaves its lane, which `judge`
        does."""
        hold = self._hold(array)
        more = min(count_max, self.room_like(array), array.tasks_waiting - hold.tasks_reserved - 1)
        if array.running_max:
            more = min(more, array.running_max - array.running - hold.reserved)
        count = max(1, more)
        hold.reserved += count
        hold.tasks_reserved += count
        given = session, self.limits.reserve(array, count)
        hold.tasks.setdefault(session.worker_id, []).extend([given] * count)
        reserved, client = self._clients_reserved, array.client
        reserved[client] = reserved.get(client, 0) + count
        return count

    def release_task(self, array_id: JobId, worker_id: WorkerId) -> DispatchSession | None:
        """Release a decision on a task that was applied or refused; None if there was none."""
        hold = self._arrays.get(array_id)
        if hold is None or worker_id not in hold.tasks:
            return None
        given = hold.tasks[worker_id]
        session, taken = given.pop(0)
        if not given:
            del hold.tasks[worker_id]
        if taken:
            self.limits.release(taken, 1)
        session.reserved -= 1
        hold.reserved -= 1
        hold.tasks_reserved -= 1
        self._uncount(hold.client)
        self._maybe_drop(array_id)
        return session

    def task_sessions(self) -> list[tuple[JobId, DispatchSession]]:
        """All decisions on tasks under way, as (array, session)."""
        return [
            (array_id, session)
            for array_id, hold in self._arrays.items()
            for given in hold.tasks.values()
            for session, _ in given
        ]

    # --- limits

    def park(self, client: ClientRecord, queue: QueueLanes, priority: int) -> None:
        """Park a client at its cap: its lane leaves the ring of this level."""
        lanes = self._parked.get(client.client_id)
        if lanes is None:
            lanes = self._parked[client.client_id] = deque()
        lanes.append((client, queue, priority))

    def room_made(self, client_id: ClientId) -> None:
        """A client may have room again: fewer jobs in flight, or a higher cap."""
        if client_id in self._parked:
            self._maybe_room[client_id] = None

    def room_made_for_all(self) -> None:
        """Every client may have room again: the setting changed."""
        self._maybe_room.update(dict.fromkeys(self._parked))

    def wake(self) -> list[QueueLanes]:
        """Return as many parked lanes to their rings as their clients have room for; returns their
        queues.

        Not all at once: a client with room for one job and a thousand lanes would be parked again
        in all but one of them. If a woken lane cannot be served, the next call wakes the next one,
        so no lane blocks another.
        """
        woken: list[QueueLanes] = []
        for client_id in list(self._maybe_room):
            lanes = self._parked[client_id]
            count = min(self._room(client_id, len(lanes)), len(lanes))
            for _ in range(count):
                client, queue, priority = lanes.popleft()
                queue.wake(client, priority)
                woken.append(queue)
            if not lanes:
                del self._parked[client_id]
            if not lanes or not count:
                del self._maybe_room[client_id]
        return woken

    def take_unthrottled(self, array_id: JobId) -> list[Item]:
        """Pop the throttled items of an array that may try again: as many as it has room for."""
        hold = self._arrays.get(array_id)
        array = self._state.array_of(array_id)
        if hold is None or array is None:
            return []
        room = array.running_max - array.running - hold.reserved
        back: list[Item] = []
        while hold.throttled and len(back) < room:
            item = hold.throttled.popleft()
            if self._still_waits(item):  # skip stale items, which would use up the room
                back.append(item)
        self._maybe_drop(array_id)
        return back

    def is_at_limit(self, array: ArrayRecord) -> bool:
        """Whether one more start would exceed the `running_max` of an array."""
        hold = self._arrays.get(array.array_id)
        reserved = hold.reserved if hold is not None else 0
        return bool(array.running_max) and array.running + reserved >= array.running_max

    def is_throttled(self, item: Item) -> bool:
        """Whether an item waits for a task of its array to end."""
        array = item.array if isinstance(item, JobRecord) else item
        hold = self._arrays.get(array.array_id) if array is not None else None
        return hold is not None and item in hold.throttled

    def _throttle(self, array: ArrayRecord, item: Item) -> bool:
        if not self.is_at_limit(array):
            return False
        self._hold(array).throttled.append(item)
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

    def _uncount(self, client: ClientRecord, count: int = 1) -> None:
        left = self._clients_reserved[client] - count
        if left:
            self._clients_reserved[client] = left
        else:
            del self._clients_reserved[client]

    def _hold(self, array: ArrayRecord) -> ArrayHold:
        hold = self._arrays.get(array.array_id)
        if hold is None:
            hold = self._arrays[array.array_id] = ArrayHold(array.client)
        return hold

    def _maybe_drop(self, array_id: JobId) -> None:
        if self._arrays[array_id].is_idle:
            del self._arrays[array_id]

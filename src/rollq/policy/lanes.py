"""The order of items in one queue: priority levels, a ring of clients in each, a lane per client.

    queue ─▶ level (highest first) ─▶ client (in turns) ─▶ lane (by seq)

A client that has a lane in a level is either in the level's ring exactly once, or parked because it
is at its cap. A client of weight w has w consecutive visits per turn.

A lane of one job is that job itself: a million jobs of a million clients cost a dictionary entry
and a ring slot each, and no further object.

Lanes are not updated when a job is assigned elsewhere, cancelled or expired: such an entry is
*stale*, is skipped when its turn comes, and swept when stale entries are more than half of a queue.
Nothing here depends on credits, and of workers only on whether all of a pool can run a job.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Mapping
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from rollq.base.ids import ClientId
from rollq.base.jobs import DEFAULT_OPTIONS
from rollq.base.limits import PRIORITY_MAX
from rollq.grid.state import QUEUED, ArrayRecord, ClientRecord, JobRecord
from rollq.policy.needs import AnyNeed, need_of

if TYPE_CHECKING:
    from rollq.policy.holds import Holds
    from rollq.policy.placement import Preference
    from rollq.policy.pools import Pool

Item: TypeAlias = JobRecord | ArrayRecord

STALE_MIN: Final = 64  # fewer stale entries are not worth a sweep

# Verdicts of `Judge.judge` on the first item of a lane. Plain ints: compared for every job.
START: Final = 0  # may start, and leaves the lane
START_AND_STAY: Final = 1  # a task of the array may start; the array stays first
SKIP: Final = 2  # stale: it no longer waits
THROTTLED: Final = 3  # blocked by a limit; the judge holds it until it may start
LATER: Final = 4  # stop taking from these lanes in this turn; it stays first
MIXED: Final = "\0\0"  # not a valid program name
UNFIT_MAX: Final = 1_024  # unfit jobs at which a call of `take` stops
GAP_MIN: Final = 32  # fewer free places at the head of a lane are not worth moving the rest

WEIGHED_MAX: Final = 64  # clients of a level whose weights are summed; all others count as 1

_seq = attrgetter("seq")


class Judge(Protocol):
    """Decides whether items in lanes may start, and holds those that may not."""

    @property
    def weights(self) -> Mapping[ClientId, int]:
        """Visits per turn by client; absent: 1."""

    def is_full(self, client: ClientRecord) -> bool:
        """Whether no item of a client may start."""

    def park(self, client: ClientRecord, queue: QueueLanes, priority: int) -> None:
        """A full client leaves its ring, until `QueueLanes.wake`."""

    def judge(self, item: Item) -> int:
        """The verdict on the first item of a lane; a throttled item is held by the judge."""

    def is_decided(self, item: Item) -> bool:
        """Whether a job is assigned by a command that is not applied yet."""


class Lane(list[Item | None]):
    """Jobs of one client at one level, in ascending seq. Never empty while it is in a level.

    A list with a moving head: places before `head` are None, all others are jobs. Requeued jobs are
    older than waiting ones, so room at the head makes requeuing cheap: taking and returning the
    first are O(1), a job in the middle moves the shorter side.
    """

    __slots__ = ("head",)

    def __init__(self, first: Item, second: Item) -> None:
        super().__init__((first, second) if first.seq < second.seq else (second, first))
        self.head = 0

    def add(self, item: Item) -> None:
        """Insert a job by its seq: nearly always at one of the ends."""
        last = self[-1]
        if last is None or last.seq < item.seq:
            self.append(item)
            return
        if not self.head:
            # An eighth more room, so that requeuing a run of jobs moves the lane once.
            self.head = 1 + len(self) // 8
            self[:0] = [None] * self.head
        place = bisect_left(self, item.seq, lo=self.head, key=_seq)
        if place - self.head > len(self) - place:
            self.insert(place, item)
        else:
            self.head -= 1
            self[self.head : place - 1] = self[self.head + 1 : place]
            self[place - 1] = item

    def first(self) -> Item | None:
        """The job at the head; None if the lane is empty."""
        return self[self.head] if self.head < len(self) else None

    def drop_first(self) -> None:
        """Remove the job at the head."""
        self[self.head] = None
        self.head += 1
        self._maybe_close_gap()

    def drop(self, count: int) -> None:
        """Remove `count` jobs at the head."""
        self[self.head : self.head + count] = [None] * count
        self.head += count
        self._maybe_close_gap()

    def _maybe_close_gap(self) -> None:
        if self.head > GAP_MIN and 2 * self.head > len(self):
            del self[: self.head]
            self.head = 0


class PriorityLevel:
    """One priority of one queue: clients in round-robin order."""

    __slots__ = ("lanes", "ring", "visitor", "visits_left")

    def __init__(self) -> None:
        # Each client that has a lane is here once, or is parked by `Holds`.
        self.ring: deque[ClientRecord] = deque()
        # A lane of one job is that job. None: the lane is empty, and the client is removed at its
        # next visit, because removing it from the ring is O(clients).
        self.lanes: dict[ClientRecord, Item | Lane | None] = {}
        # The client whose turn it is, and its visits left; None: the next client's turn begins.
        self.visitor: ClientRecord | None = None
        self.visits_left = 0

    def stays(self, client: ClientRecord, weight: int) -> bool:
        """Count a visit of a client; whether its turn continues."""
        if self.visitor is not client:
            self.visitor, self.visits_left = client, weight
        self.visits_left = min(self.visits_left, weight) - 1
        if self.visits_left > 0:
            return True
        self.visitor = None
        return False

    def visits(self, weights: Mapping[ClientId, int]) -> int:
        """The number of visits in one turn of all clients in the ring."""
        count = len(self.ring)
        if not weights:
            return count
        some = [weights.get(client.client_id, 1) for client in islice(self.ring, WEIGHED_MAX)]
        return count + sum(some) - len(some)


class QueueLanes:
    """The waiting items of one queue (for one named worker, if `worker_name` is set), except items
    with a need of their own: labels, resources, or a program that some of its workers lack. Each
    such need has its own `QueueLanes`."""

    __slots__ = (
        "absent",
        "deferred",
        "deferred_tries",
        "empty_count",
        "is_paused",
        "levels",
        "mask",
        "name",
        "need",
        "only_need",
        "pools",
        "preference",
        "size",
        "split",
        "stale_count",
        "turn_left",
        "turn_share",
        "unfit",
        "worker_name",
    )

    def __init__(self, name: str, worker_name: str = "") -> None:
        self.name = name
        self.worker_name = worker_name
        self.is_paused = False
        self.levels: list[PriorityLevel | None] = [None] * (PRIORITY_MAX + 1)
        # Bit p: the ring of level p may hold a client. The highest bit is the next level to serve.
        self.mask = 0
        self.size = 0  # entries in lanes, including stale ones and those of parked clients
        self.stale_count = 0  # of `size`, the known stale entries
        self.empty_count = 0  # lanes emptied since the last sweep other than by `take`
        self.pools: list[Pool] = []  # pools that serve this queue
        self.absent: list[Pool] = []  # of `pools`, those whose rings it is not in
        # Items with a need of their own wait in separate lanes (`Backlog`):
        self.need: AnyNeed = ""  # in such lanes: the need of all their items
        self.split: dict[AnyNeed, QueueLanes] = {}  # in the queue: such lanes by need
        # In the queue: such lanes that are not served yet because there are too many, and how many
        # of them to try before something changes.
        self.deferred: dict[AnyNeed, QueueLanes] = {}
        self.deferred_tries = 0
        self.preference: Preference | None = None  # how a worker is chosen; None: by load
        # The need of all items here, or MIXED; set anew when the lanes were empty. Avoids a check
        # of each job while all workers can run it.
        self.only_need: AnyNeed = ""
        # In a turn of many jobs (`shares.share_of`): the visits left, and how many jobs each client
        # may have per visit.
        self.turn_left = 0
        self.turn_share = 1
        self.unfit: list[Item] = []  # filled by `take` for `Backlog.split_off`; empty between turns

    @property
    def is_runnable(self) -> bool:
        """Whether `take` may find a job."""
        return self.mask != 0 and not self.is_paused

    @property
    def all(self) -> tuple[QueueLanes, ...]:
        """In a queue: its own lanes, and those of its needs."""
        return (self, *self.split.values(), *self.deferred.values())

    def oldest_ms(self, clients_max: int) -> int | None:
        """The stamp of the oldest item among the first of `clients_max` clients in each priority;
        None: nothing waits."""
        found = None
        for level in filter(None, self.levels):
            for lane in islice(level.lanes.values(), clients_max):
                first = lane.first() if isinstance(lane, Lane) else lane
                if first is not None and _waits(first):
                    found = first.stamp_ms if found is None else min(found, first.stamp_ms)
        return found

    def push(self, item: Item) -> None:
        """Add a waiting item."""
        options = item.options
        if not self.need:
            need = item.exec_name if options is DEFAULT_OPTIONS else need_of(item)
            if need != self.only_need:
                self.only_need = MIXED if self.size else need
        priority = options.priority
        client = item.client
        level = self.levels[priority]
        if level is None:
            level = self.levels[priority] = PriorityLevel()
        lanes = level.lanes
        client_count = len(lanes)
        lane = lanes.setdefault(client, item)
        if len(lanes) > client_count:
            level.ring.append(client)
            self.mask |= 1 << priority
        elif lane is item:
            return  # it was removed and requeued within one entry
        elif lane is None:
            lanes[client] = item
        elif isinstance(lane, Lane):
            lane.add(item)
        else:
            lanes[client] = Lane(lane, item)
        self.size += 1

    def before(self, item: Item) -> tuple[int, int]:
        """How many items of the same client and priority come before it, and how many others wait
        here; stale ones count."""
        level = self.levels[item.options.priority]
        lane = level.lanes.get(item.client) if level is not None else None
        if not isinstance(lane, Lane):
            return 0, max(0, self.size - 1)
        place = bisect_left(lane, item.seq, lo=lane.head, key=_seq)
        return place - lane.head, max(0, self.size - (len(lane) - lane.head))

    def push_run(self, items: list[Item]) -> None:
        """As `push` for several items in ascending seq with equal client, program and options."""
        for item in items[:2]:
            self.push(item)
        rest = items[2:]
        if not rest:
            return
        level = self.levels[items[0].options.priority]
        assert level is not None  # two items were just pushed there
        lane = level.lanes[items[0].client]
        assert isinstance(lane, Lane)
        if lane[-1] is items[1]:  # all of them follow the last item
            lane.extend(rest)
            self.size += len(rest)
        else:
            for item in rest:
                self.push(item)

    def take(self, holds: Judge, pool: Pool | None = None) -> Item | None:
        """The next job that may start, or array with a task that may; None if there is none now.

        A client at its cap is parked with `holds`, which returns it by `wake`. Items that some
        session of the pool cannot run go to `unfit`; if that is full, or the verdict is LATER,
        there may be more.
        """
        if self.is_paused:
            return None
        while self.mask:
            priority = self.mask.bit_length() - 1
            level = self.levels[priority]
            assert level is not None  # a bit is set for a level that exists
            ring, lanes, weights = level.ring, level.lanes, holds.weights
            while ring:  # each visit yields a job, parks a client or removes one, so this ends
                client = ring.popleft()
                lane = lanes[client]
                if lane is not None and holds.is_full(client):
                    holds.park(client, self, priority)
                    continue
                item, has_more = self._take_from(lane, holds, pool)
                if not has_more:
                    del lanes[client]
                elif item is None:
                    ring.appendleft(client)  # not counted as a visit
                    return None
                elif weights and level.stays(client, weights.get(client.client_id, 1)):
                    ring.appendleft(client)
                else:
                    ring.append(client)
                if item is not None or len(self.unfit) >= UNFIT_MAX:
                    return item
            self.mask ^= 1 << priority
        return None

    def take_more(
        self, first: JobRecord, holds: Holds, pool: Pool | None, count_max: int
    ) -> list[JobRecord]:
        """Up to `count_max` more jobs from behind the one that `take` returned, while they are like
        it and may start. Jobs unlike it have a turn of their own."""
        level = self.levels[first.options.priority]
        client = first.client
        lane = None if level is None else level.lanes.get(client)
        if level is None or not isinstance(lane, Lane):
            return []
        count_max = min(count_max, holds.room_like(first) - 1)  # the first is not reserved yet
        more: list[JobRecord] = []
        decided = holds.jobs
        for item in lane[lane.head : lane.head + max(0, count_max)]:
            if (
                not isinstance(item, JobRecord)
                or item.state is not QUEUED
                or item.past is not None
                or item.array is not None
                or item.attempt != first.attempt
                or item.exec_name != first.exec_name
                or (item.options is not first.options and item.options != first.options)
                or item.job_id in decided
                or (pool is not None and not pool.all_can_run(need_of(item)))
            ):
                break
            more.append(item)
        if more:
            lane.drop(len(more))
            self.size -= len(more)
            if lane.head >= len(lane):
                # `take` put the client at one of the ends.
                level.ring.popleft() if level.ring[0] is client else level.ring.pop()
                del level.lanes[client]
        return more

    def wake(self, client: ClientRecord, priority: int) -> None:
        """Return a parked client to its ring."""
        level = self.levels[priority]
        assert level is not None  # it was parked there
        level.ring.append(client)
        self.mask |= 1 << priority

    def mark_stale(self, item: Item) -> None:
        """An item no longer waits although `take` did not return it: drop stale heads, sweep if
        due."""
        self.stale_count += 1
        level = self.levels[item.options.priority]
        if level is not None and item.client in level.lanes:
            lanes = level.lanes
            lane = lanes[item.client]
            if isinstance(lane, Lane):
                while (first := lane.first()) is not None and not _waits(first):
                    lane.drop_first()
                    self._dropped_stale()
                is_empty = lane.first() is None
            else:
                is_empty = lane is not None and not _waits(lane)
                if is_empty:
                    self._dropped_stale()
            if is_empty:
                lanes[item.client] = None
                self.empty_count += 1
        # Swept at half: a sweep reads every entry, so each stale entry pays for two reads.
        useless = self.stale_count + self.empty_count
        if useless > STALE_MIN and 2 * useless > self.size + self.empty_count:
            self._sweep()

    def _take_from(
        self, lane: Item | Lane | None, holds: Judge, pool: Pool | None
    ) -> tuple[Item | None, bool]:
        """The first job of a lane that may start, and whether anything stays in the lane."""
        if isinstance(lane, Lane):
            # `first`, inlined: called for every job that starts.
            while lane.head < len(lane):
                first = lane[lane.head]
                assert first is not None  # places from the head on are filled
                if pool is not None and self._is_unfit(first, holds, pool):
                    lane.drop_first()
                    if len(self.unfit) >= UNFIT_MAX:
                        return None, lane.head < len(lane)
                    continue
                verdict = holds.judge(first)
                if verdict is START_AND_STAY:
                    return first, True
                if verdict is LATER:
                    return None, True
                lane.drop_first()
                self.size -= 1
                if verdict is START:
                    return first, lane.head < len(lane)
                if verdict is SKIP:
                    self.stale_count -= 1
        elif lane is not None and not (pool is not None and self._is_unfit(lane, holds, pool)):
            verdict = holds.judge(lane)
            if verdict is START_AND_STAY:
                return lane, True
            if verdict is LATER:
                return None, True
            self.size -= 1
            if verdict is START:
                return lane, False
            if verdict is SKIP:
                self.stale_count -= 1
        return None, False

    def _is_unfit(self, item: Item, holds: Judge, pool: Pool) -> bool:
        """Whether some session of the pool cannot run it; then it is moved to `unfit`."""
        if pool.all_can_run(need_of(item)) or not _waits(item) or holds.is_decided(item):
            return False
        self.unfit.append(item)
        self.size -= 1
        return True

    def _dropped_stale(self) -> None:
        self.size -= 1
        self.stale_count -= 1

    def _sweep(self) -> None:
        """Drop all stale entries. Amortised: they are the majority."""
        self.size = self.stale_count = self.empty_count = 0
        for level in filter(None, self.levels):
            lanes = level.lanes
            for client, lane in lanes.items():
                swept = lanes[client] = _swept(lane)
                if swept is not None:
                    self.size += len(swept) if isinstance(swept, Lane) else 1
            gone = [client for client in level.ring if lanes[client] is None]
            for client in gone:
                del lanes[client]
            level.ring = deque(client for client in level.ring if client in lanes)


def _swept(lane: Item | Lane | None) -> Item | Lane | None:
    """The lane without stale entries."""
    if not isinstance(lane, Lane):
        return lane if lane is not None and _waits(lane) else None
    waiting = [item for item in lane[lane.head :] if item is not None and _waits(item)]
    if len(waiting) < 2:
        return waiting[0] if waiting else None
    lane[:] = waiting
    lane.head = 0
    return lane


def _waits(item: Item) -> bool:
    if isinstance(item, JobRecord):
        return item.state is QUEUED
    return item.tasks_waiting > 0 and not item.delayed

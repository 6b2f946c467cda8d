"""Who is next in a queue: levels of priority, a ring of clients in each, a lane of jobs a client.

    queue ─▶ level (highest first) ─▶ client (in turns) ─▶ lane (by seq)

A client stands in the ring of a level exactly once while it has a lane there, or it is parked
because it is at its cap; never both. One of weight w has w visits in a turn, one after another.

A lane of one job is that job itself: a backlog of a million jobs of as many clients costs a
dictionary entry and a ring slot a job, no object of its own.

Lanes are not cleaned when a job is assigned elsewhere, cancelled or expired: what does not wait
any more is *stale*, is skipped when its turn comes, and swept out when it is more than half of a
queue. Nothing here knows of credits, and of workers only whether all of a pool can run a job.
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

# What `Judge.judge` says of the first of a lane. Plain ints: compared for every job.
START: Final = 0  # it may start, and leaves the lane
START_AND_STAY: Final = 1  # a task of it may start; the array stays first
SKIP: Final = 2  # it waits no more
THROTTLED: Final = 3  # a limit keeps it; whoever judges has it until it may start
LATER: Final = 4  # nothing more of these lanes for now; it stays first
MIXED: Final = "\0\0"  # no program is called that
UNFIT_MAX: Final = 1_024  # jobs that one call of `take` leaves for other workers, so that it ends
GAP_MIN: Final = 32  # fewer free places at the head of a lane are not worth a move of the rest

WEIGHED_MAX: Final = 64  # clients of a level whose weights are added up; all others count as 1

_seq = attrgetter("seq")


class Judge(Protocol):
    """Says of jobs in lanes whether they may start, and keeps what may not."""

    @property
    def weights(self) -> Mapping[ClientId, int]:
        """Of clients: visits in a turn, if not 1."""

    def is_full(self, client: ClientRecord) -> bool:
        """Whether nothing of a client may start."""

    def park(self, client: ClientRecord, queue: QueueLanes, priority: int) -> None:
        """Such a client leaves its ring, until `QueueLanes.wake`."""

    def judge(self, item: Item) -> int:
        """Whether the first of a lane may start; what is throttled is the judge's from now on."""

    def is_decided(self, item: Item) -> bool:
        """Whether a job was given away already."""


class Lane(list[Item | None]):
    """Jobs of one client at one level, by seq. Never empty while it is in a level.

    A list with a moving head: places before `head` are None, all others are jobs. Jobs that come
    back are older than those that wait, so room at the head makes their return cheap: taking and
    returning the first cost O(1), a job in the middle moves the shorter side.
    """

    __slots__ = ("head",)

    def __init__(self, first: Item, second: Item) -> None:
        super().__init__((first, second) if first.seq < second.seq else (second, first))
        self.head = 0

    def add(self, item: Item) -> None:
        """Put a job where its seq belongs: nearly always at one of the ends."""
        last = self[-1]
        if last is None or last.seq < item.seq:
            self.append(item)
            return
        if not self.head:
            # An eighth more room, so that a run of returning jobs moves the lane once.
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
        """The job at the head; None if the lane is used up."""
        return self[self.head] if self.head < len(self) else None

    def drop_first(self) -> None:
        """Take the job at the head out."""
        self[self.head] = None
        self.head += 1
        self._maybe_close_gap()

    def drop(self, count: int) -> None:
        """Take so many jobs from the head on out."""
        self[self.head : self.head + count] = [None] * count
        self.head += count
        self._maybe_close_gap()

    def _maybe_close_gap(self) -> None:
        if self.head > GAP_MIN and 2 * self.head > len(self):
            del self[: self.head]
            self.head = 0


class PriorityLevel:
    """One priority of one queue: clients in turn."""

    __slots__ = ("lanes", "ring", "visitor", "visits_left")

    def __init__(self) -> None:
        # Clients in turn. Each that has a lane stands here once, or is parked by `Holds`.
        self.ring: deque[ClientRecord] = deque()
        # A lane of one job is that job. None: all of it is gone, and the client leaves when its
        # turn comes, because to take it out of the ring costs as much as the ring is long.
        self.lanes: dict[ClientRecord, Item | Lane | None] = {}
        # Whose turn it is, and how many visits it still has; None: the next one's begins.
        self.visitor: ClientRecord | None = None
        self.visits_left = 0

    def stays(self, client: ClientRecord, weight: int) -> bool:
        """A client was visited; whether it is still its turn."""
        if self.visitor is not client:
            self.visitor, self.visits_left = client, weight
        self.visits_left = min(self.visits_left, weight) - 1
        if self.visits_left > 0:
            return True
        self.visitor = None
        return False

    def visits(self, weights: Mapping[ClientId, int]) -> int:
        """How many visits all who stand in the ring have together, in a turn each."""
        count = len(self.ring)
        if not weights:
            return count
        some = [weights.get(client.client_id, 1) for client in islice(self.ring, WEIGHED_MAX)]
        return count + sum(some) - len(some)


class QueueLanes:
    """Everything that waits in one queue (for one named worker, if `worker_name` is set), but for
    jobs with a need of their own: labels, resources, or a program that some of its workers lack.
    Each such need has lanes of its own."""

    __slots__ = (
        "absent",
        "empty_count",
        "is_paused",
        "later",
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
        "tries_left",
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
        # Bit p: the ring of level p may hold a client. The highest bit is the next level, without
        # a look at the others.
        self.mask = 0
        self.size = 0  # entries in lanes, stale ones too; those of parked clients count
        self.stale_count = 0  # of them, those that wait no more, as far as is known
        self.empty_count = 0  # lanes that were emptied since the last sweep, not by `take`
        self.pools: list[Pool] = []  # that serve this queue
        self.absent: list[Pool] = []  # of these, the ones whose rings it is not in
        # Jobs with a need of their own wait in lanes of their own (`Backlog`):
        self.need: AnyNeed = ""  # of such lanes: what all their jobs need
        self.split: dict[AnyNeed, QueueLanes] = {}  # of the queue: such lanes
        # Of the queue: such lanes that nobody serves yet, because there are many, and how many of
        # them may be tried before something changes.
        self.later: dict[AnyNeed, QueueLanes] = {}
        self.tries_left = 0
        self.preference: Preference | None = None  # how its worker is chosen; None: by load
        # What all that waits here needs, or MIXED; settled anew when the lanes were empty. Saves a
        # look at each job while all workers can run it.
        self.only_need: AnyNeed = ""
        # Of a turn that is of many jobs (`shares.share_of`): how many visits it still has, and
        # how many jobs each client may have in one of them.
        self.turn_left = 0
        self.turn_share = 1
        self.unfit: list[Item] = []  # left by `take` for `Backlog.split_off`; empty between turns

    @property
    def is_runnable(self) -> bool:
        """Whether it is worth asking this queue for a job."""
        return self.mask != 0 and not self.is_paused

    @property
    def all(self) -> tuple[QueueLanes, ...]:
        """Of a queue: its lanes, and those of the needs that wait apart."""
        return (self, *self.split.values(), *self.later.values())

    def oldest_ms(self, clients_max: int) -> int | None:
        """Since when the first waits of so many clients in each priority; None: nothing does."""
        found = None
        for level in filter(None, self.levels):
            for lane in islice(level.lanes.values(), clients_max):
                first = lane.first() if isinstance(lane, Lane) else lane
                if first is not None and _waits(first):
                    found = first.stamp_ms if found is None else min(found, first.stamp_ms)
        return found

    def push(self, item: Item) -> None:
        """Something waits here from now on."""
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
            return  # it went and came back within one entry
        elif lane is None:
            lanes[client] = item
        elif isinstance(lane, Lane):
            lane.add(item)
        else:
            lanes[client] = Lane(lane, item)
        self.size += 1

    def before(self, item: Item) -> tuple[int, int]:
        """How many of its client and priority come before it, and how many others wait here; some
        of either may wait no more."""
        level = self.levels[item.options.priority]
        lane = level.lanes.get(item.client) if level is not None else None
        if not isinstance(lane, Lane):
            return 0, max(0, self.size - 1)
        place = bisect_left(lane, item.seq, lo=lane.head, key=_seq)
        return place - lane.head, max(0, self.size - (len(lane) - lane.head))

    def push_run(self, items: list[Item]) -> None:
        """As `push` for each, of several given by seq that have one client, one program and equal
        options."""
        for item in items[:2]:
            self.push(item)
        rest = items[2:]
        if not rest:
            return
        level = self.levels[items[0].options.priority]
        assert level is not None  # two of them stand there
        lane = level.lanes[items[0].client]
        assert isinstance(lane, Lane)
        if lane[-1] is items[1]:  # and all waiting behind other jobs
            lane.extend(rest)
            self.size += len(rest)
        else:
            for item in rest:
                self.push(item)

    def take(self, holds: Judge, pool: Pool | None = None) -> Item | None:
        """The next job that may start, or array with a task that may; None if there is none now.

        A client at its cap is parked with `holds`, which brings it back by `wake`. What some of the
        pool cannot run is left in `unfit`; when that is full, or the judge says later, there may be
        more.
        """
        if self.is_paused:
            return None
        while self.mask:
            priority = self.mask.bit_length() - 1
            level = self.levels[priority]
            assert level is not None  # a bit is set for a level that exists
            ring, lanes, weights = level.ring, level.lanes, holds.weights
            while ring:  # each visit gives a job, parks a client or takes one out: it ends
                client = ring.popleft()
                lane = lanes[client]
                if lane is not None and holds.is_full(client):
                    holds.park(client, self, priority)
                    continue
                item, has_more = self._take_from(lane, holds, pool)
                if not has_more:
                    del lanes[client]
                elif item is None:
                    ring.appendleft(client)  # it had no visit
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
        """More jobs from behind the one that `take` has just given, as long as they are like it and
        may start: so many at most. What is not like it has a turn of its own."""
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
        """A parked client takes its turn again."""
        level = self.levels[priority]
        assert level is not None  # it was parked there
        level.ring.append(client)
        self.mask |= 1 << priority

    def went_stale(self, item: Item) -> None:
        """This job waits no more, though `take` did not give it: clean up what is cheap to."""
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
        # Swept at half: a sweep reads everything, so each stale entry pays for two reads.
        useless = self.stale_count + self.empty_count
        if useless > STALE_MIN and 2 * useless > self.size + self.empty_count:
            self._sweep()

    def _take_from(
        self, lane: Item | Lane | None, holds: Judge, pool: Pool | None
    ) -> tuple[Item | None, bool]:
        """The first job of a lane that may start, and whether anything stays in the lane."""
        if isinstance(lane, Lane):
            # `first`, written out: it is asked for every job that starts.
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
        """Whether some worker of the pool cannot run it; then it leaves these lanes."""
        if pool.all_can_run(need_of(item)) or not _waits(item) or holds.is_decided(item):
            return False
        self.unfit.append(item)
        self.size -= 1
        return True

    def _dropped_stale(self) -> None:
        self.size -= 1
        self.stale_count -= 1

    def _sweep(self) -> None:
        """Drop all that waits no more. Paid for by those entries, which are the majority."""
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
    """The lane without what waits no more."""
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

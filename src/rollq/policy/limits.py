"""What the limits of operators keep waiting: how much may run at once, and how fast jobs may start.

A decision reserves its tokens until it is applied or refused: no limit is exceeded by what is under
way. What meets a limit is put aside into the line of that limit, where it costs nothing until there
is room. The line keeps what lanes keep (`lanes`): queues in turns, priorities, weights of clients,
the oldest job first. When tokens come free, a limit is raised or a start is due, as many as have
room are *called*: back into their lanes, from where they start like any other job.

Nobody overtakes a line: who comes to a limit where others wait, or were called and did not have
their turn yet, waits there too. Who needs more tokens than are free is waited for, so that small
jobs do not starve a large one. Called jobs that nobody can run now do not keep the others from
being called.

Of several limits the first that lacks room has the job, in one order for all jobs. A job that was
called passes the lines of the limits before that one, and waits in those behind it: so no two
limits hand it back and forth while both have room.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from rollq.base.ids import ClientId
from rollq.base.limits import RUN_JOBS_MAX
from rollq.grid.limits import limits_of
from rollq.grid.state import ClientRecord, GridState, LimitRecord
from rollq.policy.lanes import LATER, SKIP, START, THROTTLED, Item, QueueLanes
from rollq.policy.limit_room import due_ms, fits, is_too_large, starts_within

# Jobs that one turn may put aside, and call back; the rest have their turn later. A million jobs
# that meet a new limit, or are rid of it, would otherwise hold up the loop.
MOVES_PER_TURN_MAX: Final = 4_096
STALLED_LOOKED_AT_MAX: Final = 64  # limits in a turn whose called jobs nobody could run
LINES_LOOKED_AT_MAX: Final = 64  # queues of such a limit
RUN_PART: Final = 4  # one run takes one part in so many of the room of a limit

KNOWN_MAX: Final = 4_096  # kinds of jobs whose limits are remembered
LimitKey: TypeAlias = tuple[str, str]  # scope and name
Taken: TypeAlias = "tuple[tuple[LimitHold, int], ...]"  # tokens that a decision has reserved


class Kept(NamedTuple):
    """Which limit keeps a job, and how many tokens it needs of it."""

    limit: LimitRecord
    tokens: int
    reserved: int  # tokens of decisions that are not applied yet
    waiting: int  # how many jobs and arrays wait for it
    wait_ms: int  # until a start is within the rate; 0: the rate is not it


class LimitHold:
    """One limit: decisions under way, and what waits for it. Judges its own line."""

    __slots__ = (
        "_lanes",
        "_limits",
        "called",
        "count",
        "key",
        "line",
        "reserved",
        "starts",
        "timer_ms",
        "too_large",
    )

    def __init__(self, key: LimitKey, limits: Limits) -> None:
        self._limits = limits
        self.key = key
        self.reserved = 0  # tokens of decisions that are not applied or refused yet
        self.starts = 0  # how many those are
        self.called = 0  # tokens of what was called and did not have its turn yet
        self.count = 0  # what waits in `line` and `too_large`
        self.line: deque[QueueLanes] = deque()  # by queue, in turns
        self._lanes: dict[tuple[str, str], QueueLanes] = {}  # the same by name, and worker if named
        self.too_large: dict[Item, None] = {}  # needs more tokens than the limit ever has
        self.timer_ms = 0  # when it is to be looked at; 0: nothing is due

    @property
    def has_line(self) -> bool:
        """Whether whoever comes now has to wait for others."""
        return self.called > 0 or self.count > len(self.too_large)

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to remember. A timer is: else each that comes and goes would
        leave one behind."""
        return not (self.reserved or self.called or self.count or self.timer_ms)

    def push(self, item: Item) -> None:
        """Something waits for this limit from now on."""
        key = item.queue, item.options.worker_name
        lanes = self._lanes.get(key)
        if lanes is None:
            lanes = self._lanes[key] = QueueLanes(*key)
            self.line.append(lanes)
        lanes.push(item)

    def went_stale(self, item: Item) -> None:
        """What stood in the line waits no more."""
        lanes = self._lanes.get((item.queue, item.options.worker_name))
        if lanes is not None:
            lanes.went_stale(item)

    def drop_first(self) -> None:
        """The first queue of the line has nothing any more."""
        lanes = self.line.popleft()
        del self._lanes[lanes.name, lanes.worker_name]

    # --- as the judge of its line; caps of clients count in the lanes of the queue

    @property
    def weights(self) -> Mapping[ClientId, int]:
        return self._limits.weights

    def is_full(self, client: ClientRecord) -> bool:
        return False

    def park(self, client: ClientRecord, queue: QueueLanes, priority: int) -> None:
        raise AssertionError("nobody is at a cap here")

    def judge(self, item: Item) -> int:
        return self._limits.judge_next(self, item)

    def is_decided(self, item: Item) -> bool:
        return False


class Limits:
    """All limits that have decisions under way or somebody waiting."""

    __slots__ = (
        "_calls_left",
        "_counts_called",
        "_holds",
        "_known",
        "_moves_left",
        "_stalled",
        "_state",
        "_timers",
        "_waiting",
        "_woken",
        "called",
        "now_ms",
        "weights",
    )

    def __init__(self, state: GridState) -> None:
        self._state = state
        self.weights: Mapping[ClientId, int] = state.weights
        self._holds: dict[LimitKey, LimitHold] = {}
        # What `limits_of` found for jobs that are alike; forgotten when any limit changes.
        self._known: dict[tuple[object, ...], tuple[tuple[LimitRecord, int], ...]] = {}
        # What was put aside, and for which limit: an entry of a line counts only if this says so.
        self._waiting: dict[Item, LimitHold] = {}
        # What was called and did not have its turn yet: by which limit, for how many tokens.
        self.called: dict[Item, tuple[LimitHold, int]] = {}
        # Limits with a line that may have room; looked at by the next `call`.
        self._woken: dict[LimitHold, None] = {}
        # Limits that have room for more than was called, because nobody could run that so far.
        self._stalled: dict[LimitHold, None] = {}
        self._timers: list[tuple[int, LimitKey]] = []  # heap; of a hold, only `timer_ms` counts
        self.now_ms = 0  # the group's time, as of the last turn
        # What this turn may still put aside, and call.
        self._moves_left = self._calls_left = MOVES_PER_TURN_MAX
        self._counts_called = True  # whether what was called counts against the room for more

    # --- asked for every job that comes

    def joins(self, *items: Item) -> bool:
        """Whether others wait for a limit of these, which are alike: then they wait with them, and
        whoever is first of all has the next turn. A limit that nobody waits for is met later."""
        if not self._waiting and not self.called:
            return False
        for limit, tokens in self._limits_of(items[0]):
            hold = self._holds.get((limit.scope, limit.name))
            if hold is not None and hold.has_line:
                for item in items:
                    self._put_aside(item, limit, tokens)
                return True
        return False

    # --- asked for every job that has its turn

    @property
    def is_spent(self) -> bool:
        """Whether this turn has put aside as much as one may."""
        return self._moves_left <= 0

    def judge(self, item: Item) -> int:
        """Whether the first of a lane, which may start otherwise, is within its limits: START;
        THROTTLED, and put aside; or LATER, if this turn may put nothing aside any more."""
        called = self.called.pop(item, None)
        hold = None
        if called is not None:
            hold, tokens = called
            hold.called -= tokens
        is_passing = hold is not None and hold.key in self._state.limits
        for limit, tokens in self._limits_of(item):
            met = self._holds.get((limit.scope, limit.name))
            has_to_wait = met is not None and met.has_line and not is_passing
            if has_to_wait or not self._fits(limit, met, tokens):
                if hold is None and self.is_spent:
                    return LATER
                self._put_aside(item, limit, tokens)
                if hold is not None and hold is not met:
                    self._maybe_wake(hold)  # its place is another's
                    self._maybe_forget(hold)
                return THROTTLED
            is_passing = is_passing and met is not hold
        if hold is not None:
            self._maybe_forget(hold)
        return START

    def uncall(self, item: Item) -> None:
        """What may have been called does not start, whatever the limits say."""
        called = self.called.pop(item, None)
        if called is not None:
            hold, tokens = called
            hold.called -= tokens
            self._maybe_wake(hold)
            self._maybe_forget(hold)

    def room(self, item: Item) -> int:
        """How many like this one, which may start, may be given with it, itself included: a part of
        the room only, because others who share a limit are to have some of it."""
        room = RUN_JOBS_MAX
        for limit, tokens in self._limits_of(item):
            hold = self._holds.get((limit.scope, limit.name))
            if hold is not None and hold.has_line:
                return 1  # the next of the line follows it
            under_way = (hold.reserved, hold.starts) if hold is not None else (0, 0)
            count = starts_within(
                limit, tokens, reserved=under_way[0], starts=under_way[1], now_ms=self.now_ms
            )
            room = min(room, count // RUN_PART)
        return max(1, room)

    @property
    def waiting_count(self) -> int:
        """How many jobs and arrays were put aside."""
        return len(self._waiting)

    def is_waiting(self, item: Item) -> bool:
        """Whether this was put aside."""
        return item in self._waiting

    def kept_by(self, item: Item) -> Kept | None:
        """The limit that something waits for, if any."""
        waits_for = self._waiting.get(item)
        first = None
        for limit, tokens in self._limits_of(item):
            hold = self._holds.get((limit.scope, limit.name))
            is_its = hold is not None and hold is waits_for
            if self._fits(limit, hold, tokens) and not is_its:
                continue
            kept = self._kept(limit, hold, tokens)
            if is_its:
                return kept
            first = first or kept
        return first

    # --- decisions

    def reserve(self, item: Item, count: int) -> Taken:
        """So many starts like this one were decided; what they hold, for `release`."""
        if not self._state.limits:
            return ()
        taken = tuple([(self._hold(limit), tokens) for limit, tokens in self._limits_of(item)])
        for hold, tokens in taken:
            hold.reserved += tokens * count
            hold.starts += count
        return taken

    def release(self, taken: Taken, count: int) -> None:
        """So many of them are applied or refused."""
        for hold, tokens in taken:
            hold.reserved -= tokens * count
            hold.starts -= count
            self._maybe_wake(hold)
            self._maybe_forget(hold)

    # --- what happens

    def tokens_freed(self, keys: Iterable[LimitKey]) -> None:
        """An attempt that held tokens of these limits, if there are any, is over."""
        for key in keys:
            hold = self._holds.get(key)
            if hold is not None:
                self._maybe_wake(hold)

    def changed(self) -> None:
        """Limits were set or removed, or all decisions forgotten: any may have room."""
        self._known.clear()
        for hold in self._holds.values():
            for item in hold.too_large:
                hold.push(item)
            hold.too_large.clear()
            self._maybe_wake(hold)

    def drop(self, item: Item) -> bool:
        """Something waits no more; whether it stood in a line, and so in no lane of a queue."""
        self.uncall(item)
        hold = self._waiting.pop(item, None)
        if hold is None:
            return False
        hold.count -= 1
        if item in hold.too_large:
            del hold.too_large[item]
        else:
            hold.went_stale(item)
        self._maybe_wake(hold)
        self._maybe_forget(hold)
        return True

    # --- once a turn

    def call(self, now_ms: int) -> list[Item]:
        """A turn begins: what has room again, to go back into its lanes."""
        self.now_ms = now_ms
        self._moves_left = self._calls_left = MOVES_PER_TURN_MAX
        while self._timers and self._timers[0][0] <= now_ms:
            at_ms, key = heapq.heappop(self._timers)
            hold = self._holds.get(key)
            if hold is not None and hold.timer_ms == at_ms:
                hold.timer_ms = 0
                self._woken[hold] = None
        return self._call_woken()

    def call_more(self, can_serve: Callable[[str, str], bool]) -> list[Item]:
        """What else has room since `call`. Then more from limits that still have room, because
        nobody could run what was called: of those whose queue (and worker, if they name one)
        somebody with credit serves."""
        back = self._call_woken()
        self._counts_called = False
        for hold in list(self._stalled)[:STALLED_LOOKED_AT_MAX]:
            del self._stalled[hold]
            for _ in range(min(len(hold.line), LINES_LOOKED_AT_MAX)):
                lanes = hold.line[0]
                if can_serve(lanes.name, lanes.worker_name):
                    item = self._next(hold)
                    if item is not None:
                        back.append(item)
                    break
                hold.line.rotate(-1)
            self._look_again(hold)
        self._counts_called = True
        return back

    @property
    def next_ms(self) -> int | None:
        """When there will be something to call, as far as time alone decides; None: never."""
        if self.is_spent or self._calls_left <= 0:
            return self.now_ms
        return self._timers[0][0] if self._timers else None

    def _call_woken(self) -> list[Item]:
        back: list[Item] = []
        for hold in list(self._woken):
            if self._calls_left <= 0:
                break
            del self._woken[hold]
            while hold.count and (item := self._next(hold)) is not None:
                back.append(item)
            self._look_again(hold)
        return back

    # --- lines

    def judge_next(self, hold: LimitHold, item: Item) -> int:
        """Whether the next of a line is called."""
        if self._waiting.get(item) is not hold:
            return SKIP
        limit = self._state.limits.get(hold.key)
        if limit is not None:
            tokens = _tokens_of(item, limit)
            if is_too_large(limit, tokens):
                hold.too_large[item] = None
                return THROTTLED
            if not self._fits(limit, hold, tokens, hold.called if self._counts_called else 0):
                self._set_timer(limit, hold, tokens)
                return LATER
        return START

    def _next(self, hold: LimitHold) -> Item | None:
        """Call the next of a line; None if there is none, or no room for it."""
        while hold.line and self._calls_left > 0:
            lanes = hold.line[0]
            item = lanes.take(hold)
            if item is not None:
                self._calls_left -= 1
                hold.line.rotate(-1)
                hold.count -= 1
                del self._waiting[item]
                tokens = _tokens_named(item, hold.key)
                hold.called += tokens
                self.called[item] = hold, tokens
                return item
            if lanes.is_runnable:
                return None  # its first has to wait, and all others with it
            hold.drop_first()
        return None

    def _look_again(self, hold: LimitHold) -> None:
        """After a look at a line: why it is not empty decides when the next look is."""
        if not hold.has_line or hold.count == len(hold.too_large):
            self._maybe_forget(hold)
        elif self._calls_left <= 0:
            self._woken[hold] = None
        elif hold.called:
            self._stalled[hold] = None

    def _put_aside(self, item: Item, limit: LimitRecord, tokens: int) -> None:
        hold = self._hold(limit)
        self._moves_left -= 1
        self._waiting[item] = hold
        hold.count += 1
        if is_too_large(limit, tokens):
            hold.too_large[item] = None
            return
        hold.push(item)
        # It may be the first of the line now, and what was called have no worker.
        (self._stalled if hold.called else self._woken)[hold] = None

    def _set_timer(self, limit: LimitRecord, hold: LimitHold, tokens: int) -> None:
        if hold.reserved:
            return  # it is looked at when that is applied, and the clock of the rate is moved
        at_ms = due_ms(limit, tokens)
        if at_ms > self.now_ms and (not hold.timer_ms or at_ms < hold.timer_ms):
            hold.timer_ms = at_ms
            heapq.heappush(self._timers, (at_ms, hold.key))

    def _maybe_wake(self, hold: LimitHold) -> None:
        if hold.count:
            self._woken[hold] = None

    def _hold(self, limit: LimitRecord) -> LimitHold:
        key = limit.scope, limit.name
        hold = self._holds.get(key)
        if hold is None:
            hold = self._holds[key] = LimitHold(key, self)
        return hold

    def _maybe_forget(self, hold: LimitHold) -> None:
        if hold.is_idle:
            self._woken.pop(hold, None)
            self._stalled.pop(hold, None)
            if self._holds.get(hold.key) is hold:
                del self._holds[hold.key]

    # --- room

    def _limits_of(self, item: Item) -> tuple[tuple[LimitRecord, int], ...]:
        if not self._state.limits:
            return ()
        alike = item.queue, item.client.client_id, item.exec_name, item.options.limits
        found = self._known.get(alike)
        if found is None:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            found = self._known[alike] = limits_of(self._state, *alike[:3], item.options)
        return found

    def _fits(
        self, limit: LimitRecord, hold: LimitHold | None, tokens: int, called: int = 0
    ) -> bool:
        """Whether one more start is within a limit, beside what runs, is decided and was called."""
        if hold is None:
            return fits(limit, tokens, reserved=0, starts=0, now_ms=self.now_ms)
        reserved = hold.reserved + called
        return fits(limit, tokens, reserved=reserved, starts=hold.starts, now_ms=self.now_ms)

    def _kept(self, limit: LimitRecord, hold: LimitHold | None, tokens: int) -> Kept:
        reserved, waiting = (hold.reserved, hold.count) if hold is not None else (0, 0)
        is_full = limit.running_max and limit.running + reserved + tokens > limit.running_max
        wait_ms = 0 if is_full else max(0, due_ms(limit, tokens) - self.now_ms)
        return Kept(limit, tokens, reserved, waiting, wait_ms)


def limit_keys_of(item: Item) -> list[LimitKey]:
    """All limits that may count for a job, whether they are set or not."""
    keys = [("exec", item.exec_name), ("queue", item.queue), ("client", item.client.client_id)]
    return keys + [("key", name) for name, _ in item.options.limits]


def _tokens_of(item: Item, limit: LimitRecord) -> int:
    return _tokens_named(item, (limit.scope, limit.name))


def _tokens_named(item: Item, key: LimitKey) -> int:
    scope, name = key
    if scope != "key":
        return 1
    return next(tokens for known, tokens in item.options.limits if known == name)

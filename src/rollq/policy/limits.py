"""The limits that operators set: how many attempts may run at once, and how fast they may start.

A decision reserves its tokens until it is applied or refused, so decisions in flight cannot exceed
a limit. An item that meets a limit is moved into the line of that limit, where it costs nothing
until there is room. A line has the order of lanes (`lanes`): queues in turn, priorities, weights of
clients, oldest job first. When tokens are freed, a limit is raised or a start is due, as many items
as have room are *called*: returned to their lanes, from where they start like any other job.

No item overtakes a line: one that meets a limit whose line is not empty, or which has called items
that did not start yet, joins it. If the first item of a line needs more tokens than are free, the
line waits for them, so that small jobs do not starve large ones. Called items that no worker can
run now do not keep further ones from being called.

With several limits, the first that lacks room blocks the item, in one order for all items. A called
item skips the lines before its own and joins those after it, so it cannot go back and forth.
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

# Items that one turn may move into lines, and call; more would block the leader's loop.
MOVES_PER_TURN_MAX: Final = 4_096
STALLED_LOOKED_AT_MAX: Final = 64  # stalled limits that a turn examines
LINES_LOOKED_AT_MAX: Final = 64  # queues that a turn examines for each of them
RUN_PART: Final = 4  # one run takes at most this fraction of the room of a limit

LIMITS_CACHE_MAX: Final = 4_096  # cached results of `limits_of`
LimitKey: TypeAlias = tuple[str, str]  # scope and name
Taken: TypeAlias = "tuple[tuple[LimitHold, int], ...]"  # the tokens that a decision reserves


class BlockingLimit(NamedTuple):
    """The limit that blocks a job, and how many of its tokens the job needs."""

    limit: LimitRecord
    tokens: int
    reserved: int  # tokens of decisions that are not applied yet
    waiting: int  # jobs and arrays that wait for it
    wait_ms: int  # until a start is within the rate; 0: the rate does not block


class LimitHold:
    """One limit: decisions under way, and the items that wait for it. The judge of its own line."""

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
        self.starts = 0  # the number of those decisions
        self.called = 0  # tokens of called items that did not start yet
        self.count = 0  # items in `line` and `too_large`
        self.line: deque[QueueLanes] = deque()  # by queue, round-robin
        self._lanes: dict[tuple[str, str], QueueLanes] = {}  # of `line`, by queue and worker name
        self.too_large: dict[Item, None] = {}  # items that need more tokens than the limit ever has
        self.timer_ms = 0  # due time of its timer; 0: none

    @property
    def has_line(self) -> bool:
        """Whether an item that comes now has to wait behind others."""
        return self.called > 0 or self.count > len(self.too_large)

    @property
    def is_idle(self) -> bool:
        """Whether the entry can be dropped. Not while a timer is set: its heap entry would be left
        over."""
        return not (self.reserved or self.called or self.count or self.timer_ms)

    def push(self, item: Item) -> None:
        """Add an item to the line."""
        key = item.queue, item.options.worker_name
        lanes = self._lanes.get(key)
        if lanes is None:
            lanes = self._lanes[key] = QueueLanes(*key)
            self.line.append(lanes)
        lanes.push(item)

    def mark_stale(self, item: Item) -> None:
        """An item of the line no longer waits."""
        lanes = self._lanes.get((item.queue, item.options.worker_name))
        if lanes is not None:
            lanes.mark_stale(item)

    def drop_first(self) -> None:
        """Remove the first queue of the line, which is empty."""
        lanes = self.line.popleft()
        del self._lanes[lanes.name, lanes.worker_name]

    # --- as the judge of its line; caps of clients count in the lanes of the queue

    @property
    def weights(self) -> Mapping[ClientId, int]:
        return self._limits.weights

    def is_full(self, client: ClientRecord) -> bool:
        return False

    def park(self, client: ClientRecord, queue: QueueLanes, priority: int) -> None:
        raise AssertionError("caps are checked in the lanes of the queue")

    def judge(self, item: Item) -> int:
        return self._limits.judge_in_line(self, item)

    def is_decided(self, item: Item) -> bool:
        return False


class Limits:
    """All limits that have decisions under way or waiting items."""

    __slots__ = (
        "_calls_left",
        "_counts_called",
        "_holds",
        "_limits_cache",
        "_moves_left",
        "_stalled",
        "_state",
        "_timers",
        "_to_visit",
        "_waiting",
        "called",
        "now_ms",
        "weights",
    )

    def __init__(self, state: GridState) -> None:
        self._state = state
        self.weights: Mapping[ClientId, int] = state.weights
        self._holds: dict[LimitKey, LimitHold] = {}
        # Cache of `limits_of` for equal jobs; cleared when any limit changes.
        self._limits_cache: dict[tuple[object, ...], tuple[tuple[LimitRecord, int], ...]] = {}
        # The limit that each item waits for: an entry of a line is valid only if it is here.
        self._waiting: dict[Item, LimitHold] = {}
        # Called items that did not start yet: the limit that called each, and its tokens.
        self.called: dict[Item, tuple[LimitHold, int]] = {}
        # Limits with a line that may have room; read by the next `call`.
        self._to_visit: dict[LimitHold, None] = {}
        # Limits that may have room for more than was called, because no worker could run that so
        # far.
        self._stalled: dict[LimitHold, None] = {}
        # heap; an entry counts only if it equals the hold's `timer_ms`
        self._timers: list[tuple[int, LimitKey]] = []
        self.now_ms = 0  # the group's time at the last turn
        # How many items this turn may still move into lines, and call.
        self._moves_left = self._calls_left = MOVES_PER_TURN_MAX
        self._counts_called = True  # whether called items count against the room for more

    # --- checks of every new item

    def join_line(self, *items: Item) -> bool:
        """Put equal items into the line of the first of their limits that has one; False if none
        has. A limit without a line is checked when the item has its turn."""
        if not self._waiting and not self.called:
            return False
        for limit, tokens in self._limits_of(items[0]):
            hold = self._holds.get((limit.scope, limit.name))
            if hold is not None and hold.has_line:
                for item in items:
                    self._enqueue(item, limit, tokens)
                return True
        return False

    # --- checks before every start

    @property
    def is_spent(self) -> bool:
        """Whether this turn has moved as many items into lines as it may."""
        return self._moves_left <= 0

    def judge(self, item: Item) -> int:
        """The verdict on the first item of a lane, which may start otherwise: START if it is within
        its limits; THROTTLED, and put into a line; or LATER, if this turn may move nothing more."""
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
                self._enqueue(item, limit, tokens)
                if hold is not None and hold is not met:
                    self._schedule_visit(hold)  # its tokens are free for another
                    self._maybe_drop(hold)
                return THROTTLED
            is_passing = is_passing and met is not hold
        if hold is not None:
            self._maybe_drop(hold)
        return START

    def withdraw_call(self, item: Item) -> None:
        """Withdraw the call of an item, if it was called: it does not start for other reasons."""
        called = self.called.pop(item, None)
        if called is not None:
            hold, tokens = called
            hold.called -= tokens
            self._schedule_visit(hold)
            self._maybe_drop(hold)

    def room(self, item: Item) -> int:
        """How many items like this one, which may start, may be assigned with it, itself included:
        only a fraction of the room, so that other queues and clients of the limit have some of
        it."""
        room = RUN_JOBS_MAX
        for limit, tokens in self._limits_of(item):
            hold = self._holds.get((limit.scope, limit.name))
            if hold is not None and hold.has_line:
                return 1  # the next item of the line comes after it
            under_way = (hold.reserved, hold.starts) if hold is not None else (0, 0)
            count = starts_within(
                limit, tokens, reserved=under_way[0], starts=under_way[1], now_ms=self.now_ms
            )
            room = min(room, count // RUN_PART)
        return max(1, room)

    @property
    def waiting_count(self) -> int:
        """The number of jobs and arrays in lines."""
        return len(self._waiting)

    def is_waiting(self, item: Item) -> bool:
        """Whether an item is in a line."""
        return item in self._waiting

    def blocking_limit(self, item: Item) -> BlockingLimit | None:
        """The limit that blocks an item, if any."""
        waits_for = self._waiting.get(item)
        first = None
        for limit, tokens in self._limits_of(item):
            hold = self._holds.get((limit.scope, limit.name))
            is_waited_for = hold is not None and hold is waits_for
            if self._fits(limit, hold, tokens) and not is_waited_for:
                continue
            blocking = self._blocking(limit, hold, tokens)
            if is_waited_for:
                return blocking
            first = first or blocking
        return first

    # --- decisions

    def reserve(self, item: Item, count: int) -> Taken:
        """Reserve the tokens of `count` starts like this one; returns them for `release`."""
        if not self._state.limits:
            return ()
        taken = tuple([(self._hold(limit), tokens) for limit, tokens in self._limits_of(item)])
        for hold, tokens in taken:
            hold.reserved += tokens * count
            hold.starts += count
        return taken

    def release(self, taken: Taken, count: int) -> None:
        """Release the tokens of `count` decisions that are applied or refused."""
        for hold, tokens in taken:
            hold.reserved -= tokens * count
            hold.starts -= count
            self._schedule_visit(hold)
            self._maybe_drop(hold)

    # --- changes

    def tokens_freed(self, keys: Iterable[LimitKey]) -> None:
        """An attempt that held tokens of these limits has ended."""
        for key in keys:
            hold = self._holds.get(key)
            if hold is not None:
                self._schedule_visit(hold)

    def changed(self) -> None:
        """Limits were set or removed, or it is unknown which were freed: any limit may have
        room."""
        self._limits_cache.clear()
        for hold in self._holds.values():
            for item in hold.too_large:
                hold.push(item)
            hold.too_large.clear()
            self._schedule_visit(hold)

    def drop(self, item: Item) -> bool:
        """An item no longer waits; whether it was in a line, and so not in a lane of a queue."""
        self.withdraw_call(item)
        hold = self._waiting.pop(item, None)
        if hold is None:
            return False
        hold.count -= 1
        if item in hold.too_large:
            del hold.too_large[item]
        else:
            hold.mark_stale(item)
        self._schedule_visit(hold)
        self._maybe_drop(hold)
        return True

    # --- once a turn

    def call(self, now_ms: int) -> list[Item]:
        """Begin a turn: call the items that have room now."""
        self.now_ms = now_ms
        self._moves_left = self._calls_left = MOVES_PER_TURN_MAX
        while self._timers and self._timers[0][0] <= now_ms:
            at_ms, key = heapq.heappop(self._timers)
            hold = self._holds.get(key)
            if hold is not None and hold.timer_ms == at_ms:
                hold.timer_ms = 0
                self._to_visit[hold] = None
        return self._call_visited()

    def call_more(self, can_serve: Callable[[str, str], bool]) -> list[Item]:
        """Call the items that have room since `call`. Then call more from limits that still have
        room because no worker could run what was called: only items whose queue (and named worker)
        has a session with credit."""
        back = self._call_visited()
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
            self._reschedule(hold)
        self._counts_called = True
        return back

    @property
    def next_ms(self) -> int | None:
        """When there may be something to call because time has passed; None: never."""
        if self.is_spent or self._calls_left <= 0:
            return self.now_ms
        return self._timers[0][0] if self._timers else None

    def _call_visited(self) -> list[Item]:
        back: list[Item] = []
        for hold in list(self._to_visit):
            if self._calls_left <= 0:
                break
            del self._to_visit[hold]
            while hold.count and (item := self._next(hold)) is not None:
                back.append(item)
            self._reschedule(hold)
        return back

    # --- lines

    def judge_in_line(self, hold: LimitHold, item: Item) -> int:
        """The verdict on the next item of a line: START calls it."""
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
        """Call the next item of a line; None if there is none, or no room for it."""
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
                return None  # its first item has to wait, and so do all others
            hold.drop_first()
        return None

    def _reschedule(self, hold: LimitHold) -> None:
        """After a visit to a line: schedule the next visit by the reason why it is not empty."""
        if not hold.has_line or hold.count == len(hold.too_large):
            self._maybe_drop(hold)
        elif self._calls_left <= 0:
            self._to_visit[hold] = None
        elif hold.called:
            self._stalled[hold] = None

    def _enqueue(self, item: Item, limit: LimitRecord, tokens: int) -> None:
        hold = self._hold(limit)
        self._moves_left -= 1
        self._waiting[item] = hold
        hold.count += 1
        if is_too_large(limit, tokens):
            hold.too_large[item] = None
            return
        hold.push(item)
        # It may be first in the line, with no worker for the called items.
        (self._stalled if hold.called else self._to_visit)[hold] = None

    def _set_timer(self, limit: LimitRecord, hold: LimitHold, tokens: int) -> None:
        if hold.reserved:
            return  # visited when those are applied, which advances the rate's clock
        at_ms = due_ms(limit, tokens)
        if at_ms > self.now_ms and (not hold.timer_ms or at_ms < hold.timer_ms):
            hold.timer_ms = at_ms
            heapq.heappush(self._timers, (at_ms, hold.key))

    def _schedule_visit(self, hold: LimitHold) -> None:
        if hold.count:
            self._to_visit[hold] = None

    def _hold(self, limit: LimitRecord) -> LimitHold:
        key = limit.scope, limit.name
        hold = self._holds.get(key)
        if hold is None:
            hold = self._holds[key] = LimitHold(key, self)
        return hold

    def _maybe_drop(self, hold: LimitHold) -> None:
        if hold.is_idle:
            self._to_visit.pop(hold, None)
            self._stalled.pop(hold, None)
            if self._holds.get(hold.key) is hold:
                del self._holds[hold.key]

    # --- room

    def _limits_of(self, item: Item) -> tuple[tuple[LimitRecord, int], ...]:
        if not self._state.limits:
            return ()
        alike = item.queue, item.client.client_id, item.exec_name, item.options.limits
        found = self._limits_cache.get(alike)
        if found is None:
            if len(self._limits_cache) >= LIMITS_CACHE_MAX:
                self._limits_cache.clear()
            found = self._limits_cache[alike] = limits_of(self._state, *alike[:3], item.options)
        return found

    def _fits(
        self, limit: LimitRecord, hold: LimitHold | None, tokens: int, called: int = 0
    ) -> bool:
        """Whether one more start is within a limit, beside running, decided and called ones."""
        if hold is None:
            return fits(limit, tokens, reserved=0, starts=0, now_ms=self.now_ms)
        reserved = hold.reserved + called
        return fits(limit, tokens, reserved=reserved, starts=hold.starts, now_ms=self.now_ms)

    def _blocking(self, limit: LimitRecord, hold: LimitHold | None, tokens: int) -> BlockingLimit:
        reserved, waiting = (hold.reserved, hold.count) if hold is not None else (0, 0)
        is_full = limit.running_max and limit.running + reserved + tokens > limit.running_max
        wait_ms = 0 if is_full else max(0, due_ms(limit, tokens) - self.now_ms)
        return BlockingLimit(limit, tokens, reserved=reserved, waiting=waiting, wait_ms=wait_ms)


def limit_keys_of(item: Item) -> list[LimitKey]:
    """The keys of all limits that may apply to an item, whether they are set or not."""
    keys = [("exec", item.exec_name), ("queue", item.queue), ("client", item.client.client_id)]
    return keys + [("key", name) for name, _ in item.options.limits]


def _tokens_of(item: Item, limit: LimitRecord) -> int:
    return _tokens_named(item, (limit.scope, limit.name))


def _tokens_named(item: Item, key: LimitKey) -> int:
    scope, name = key
    if scope != "key":
        return 1
    return next(tokens for known, tokens in item.options.limits if known == name)

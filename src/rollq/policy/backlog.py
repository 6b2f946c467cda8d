"""Waiting jobs by queue, matched with the workers that serve them.

Joins the two halves of dispatch: queues (`lanes`) and pools of sessions (`pools`). A queue with
runnable items is in the rings of the pools that serve it; a pool with credit and a non-empty ring
is in the list of ready pools. Both are removed when a visit finds nothing, not when they become
empty, so a queue that alternates between empty and not costs nothing but its jobs.

A job that needs labels or resources waits in lanes of that need, which are served by the parts of
the pools that could run it (`pools`). So does a job of a program that some workers of its queue
lack: it is split off when a pool with such a worker meets it, so this costs nothing for a queue
that all its workers can run. Such lanes and the rest of the queue take turns.

Each need that is served costs time and memory for every worker that could run it. So a queue serves
at most NEEDS_SERVED_MAX needs at a time; further ones are deferred until others are empty or no
connected worker could run them, in FIFO order.

A job that names its worker is pinned: it waits in a queue of that worker alone, with a pool of its
own, served before all others. The worker must serve the job's queue as well.

Cost: `push`, `mark_changed` and a decision are O(1), `refresh` is O(changed sessions). Only a new
pattern with wildcards and a change of leader are O(queues).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Final

from rollq.base.jobs import DEFAULT_OPTIONS
from rollq.grid.state import GridState
from rollq.policy.holdings import BlobHolders
from rollq.policy.lanes import MIXED, Item, QueueLanes
from rollq.policy.needs import AnyNeed, Need, ProgramSet, need_of
from rollq.policy.pools import DispatchSession, Pool, Pools, only_queue
from rollq.policy.preferences import NEAR, Preferences

IDLE_MIN: Final = 64  # fewer empty queues are not worth a sweep
NEEDS_SERVED_MAX: Final = 64  # of one queue, at a time
# deferred needs that one turn starts to serve: each costs a scan of all workers
NEEDS_TRIED_MAX: Final = 8
PINNED_PATTERN: Final = ""  # of the pools of pinned queues: no worker can ask for it

_served_at = attrgetter("served_at")


class Backlog:
    """Queues of waiting items, matched with pools of sessions."""

    __slots__ = (
        "_changed",
        "_deferring",
        "_has_new_wildcards",
        "_named",
        "_pinned",
        "_policies_changed",
        "_pools",
        "_preferences",
        "_queues",
        "_state",
        "holdings",
        "ready_pinned_pools",
        "ready_pools",
    )

    def __init__(self, state: GridState, placement: str, holdings: BlobHolders) -> None:
        self._state = state
        self._preferences = Preferences(state, placement)
        self._policies_changed = True  # policies may have changed since the last `refresh`
        self.holdings = holdings
        # By name, from the first job until `_sweep`: most queues fill again.
        self._queues: dict[str, QueueLanes] = {}
        # Worker name → queue → lanes. Dropped when empty: there may be one for each worker.
        # Invariant: such lanes have exactly one whole pool, of the worker's sessions that serve
        # the queue; of most workers that is one session or none.
        self._pinned: dict[str, dict[str, QueueLanes]] = {}
        self._deferring: dict[QueueLanes, None] = {}  # queues with deferred needs
        self.clear_sessions()

    def clear_sessions(self) -> None:
        """Remove all sessions; waiting items stay."""
        self._pools = Pools(self.holdings)
        self._named: dict[str, dict[DispatchSession, None]] = {}  # by the name of their worker
        # Sessions whose credit or load changed since the last `refresh`.
        self._changed: dict[DispatchSession, None] = {}
        # Whether a new pattern has wildcards: such patterns are matched once a turn.
        self._has_new_wildcards = False
        # Pools with credit and a non-empty ring, round-robin; each at most once (`Pool.is_ready`).
        self.ready_pools: deque[Pool] = deque()
        self.ready_pinned_pools: deque[Pool] = deque()  # those of pinned queues, which come first
        for queue in self._queues.values():
            for lanes in queue.all:
                lanes.pools, lanes.absent = [], []
        for by_queue in self._pinned.values():
            for pinned in by_queue.values():
                self._add_pinned_pool(pinned)

    # --- items

    def push(self, item: Item) -> None:
        """Add a job or array that may be assigned."""
        queue = self._lanes_for(item)
        queue.push(item)
        if queue.absent:
            self.offer(queue)

    def push_run(self, items: list[Item]) -> None:
        """As `push` for several items in ascending seq with equal queue, client and options."""
        queue = self._lanes_for(items[0])
        queue.push_run(items)
        if queue.absent:
            self.offer(queue)

    def mark_stale(self, item: Item) -> None:
        """A pushed item no longer waits although `take` did not return it."""
        queue = self.queue_of(item)
        if queue is not None:
            queue.mark_stale(item)
            if not queue.size:
                for pool in queue.pools:
                    if pool.reserved_session is not None and not any(
                        lanes.size for lanes in pool.ring
                    ):
                        self.release_reserved(pool)
                self.maybe_drop_pinned(queue)

    def queue_of(self, item: Item) -> QueueLanes | None:
        """The lanes in which an item waits, or would."""
        queue = self.whole_queue_of(item)
        if queue is None or not (queue.split or queue.deferred):
            return queue
        need = need_of(item)
        return queue.split.get(need) or queue.deferred.get(need) or queue

    def whole_queue_of(self, item: Item) -> QueueLanes | None:
        """The queue of an item, served by all its pools, whatever their sessions can run."""
        if name := item.options.worker_name:
            return self._pinned.get(name, {}).get(item.queue)
        return self._queues.get(item.queue)

    def opened(self, name: str, worker_name: str = "") -> QueueLanes:
        """A queue, or its lanes pinned to a named worker; created if absent."""
        if worker_name:
            return self._pinned_queue(name, worker_name)
        queue = self._queues.get(name)
        return queue if queue is not None else self._open_queue(name)

    def idle_queue(self, name: str) -> QueueLanes | None:
        """The queue, if nothing in it is runnable (lanes of needs apart); else None."""
        queue = self._queues.get(name)
        if queue is None or queue.is_paused or queue.is_runnable:
            return None
        return queue

    def queues(self) -> Iterator[QueueLanes]:
        """Every queue, pinned ones too."""
        yield from self._queues.values()
        yield from self.pinned()

    def pinned(self) -> Iterator[QueueLanes]:
        """The queues pinned to named workers."""
        for by_queue in self._pinned.values():
            yield from by_queue.values()

    def queues_named(self, names: Iterable[str]) -> Iterator[QueueLanes]:
        """The queues of these names, without pinned ones."""
        for name in names:
            queue = self._queues.get(name)
            if queue is not None:
                yield queue

    def offer(self, queue: QueueLanes) -> None:
        """Add a runnable queue to the rings that it is absent from."""
        if queue.absent and queue.is_runnable:
            for pool in queue.absent:
                pool.ring.append(queue)
                self._maybe_mark_ready(pool)
            queue.absent = []

    def pause(self, name: str, is_paused: bool) -> None:
        """Stop assigning from a queue, or resume it."""
        queue = self._queues.get(name)
        pinned = [by_queue[name] for by_queue in self._pinned.values() if name in by_queue]
        for whole in pinned if queue is None else [queue, *pinned]:
            for lanes in whole.all:
                lanes.is_paused = is_paused
                self.offer(lanes)

    def split_off(self, queue: QueueLanes) -> int:
        """Move what `take` found unfit to the lanes of its need; returns the number of items."""
        unfit, queue.unfit = queue.unfit, []
        for item in unfit:
            need = need_of(item)
            lanes = queue.split.get(need)
            if lanes is None:
                lanes = self._new_lanes(queue.name, queue.worker_name)
                self._serve_need(queue, lanes, need)
            lanes.push(item)
            self.offer(lanes)
        return len(unfit)

    def maybe_split_all(self, queue: QueueLanes) -> bool:
        """As `split_off` for all that waits in a queue, if all of it needs the same program. Call
        if some worker that serves it lacks the program. O(1) in jobs: the lanes become those of the
        program, and new, empty ones become the queue."""
        need = queue.only_need
        if need == MIXED or not queue.size or need in queue.split:
            return False
        whole = self._new_lanes(queue.name, queue.worker_name)
        whole.pools, whole.absent = queue.pools, list(queue.pools)
        whole.split, queue.split = queue.split, {}
        whole.deferred, queue.deferred = queue.deferred, {}
        if self._deferring.pop(queue, True) is None:
            self._deferring[whole] = None
            whole.deferred_tries = queue.deferred_tries
        if queue.worker_name:
            self._pinned[queue.worker_name][queue.name] = whole
        else:
            self._queues[queue.name] = whole
        # The rings of its pools still hold these lanes; `Dispatcher._serve` removes them, because
        # their need differs from that of the pool.
        queue.pools = []
        self._serve_need(whole, queue, need)
        self.offer(queue)
        return True

    def _serve_need(self, queue: QueueLanes, lanes: QueueLanes, need: AnyNeed) -> None:
        """Serve the lanes of one need of a queue by the parts that could run it. Drops empty lanes
        of other needs if there are many."""
        if len(queue.split) > IDLE_MIN:
            self._drop_empty(queue)
        lanes.need = need
        queue.split[need] = lanes
        lanes.pools = [pool.part(need) for pool in queue.pools]
        lanes.absent = list(lanes.pools)

    def _drop_empty(self, queue: QueueLanes) -> None:
        for known in [known for known in queue.split.values() if not known.size]:
            self._stop_serving(queue, known)

    def _stop_serving(self, queue: QueueLanes, lanes: QueueLanes) -> None:
        """Remove the lanes of one need from the pools that serve them."""
        del queue.split[lanes.need]
        for pool in queue.pools:
            part = pool.parts.get(lanes.need)
            if part is not None and part in lanes.pools:
                if lanes in part.ring:
                    part.ring.remove(lanes)
                if not part.ring:
                    self.release_reserved(part)
                pool.drop_part(part)
        lanes.pools, lanes.absent = [], []

    def _lanes_of_need(self, queue: QueueLanes, need: Need) -> QueueLanes:
        """The lanes of one need of a queue, created if absent."""
        lanes = queue.split.get(need) or queue.deferred.get(need)
        if lanes is None:
            lanes = self._new_lanes(queue.name, queue.worker_name)
            if len(queue.split) >= NEEDS_SERVED_MAX:
                self._drop_empty(queue)
            if len(queue.split) < NEEDS_SERVED_MAX:
                self._serve_need(queue, lanes, need)
            else:
                lanes.need = need
                queue.deferred[need] = lanes
                self._deferring[queue] = None
                queue.deferred_tries += 1
        return lanes

    def _serve_deferred(self, queue: QueueLanes) -> None:
        """Start serving deferred needs of a crowded queue, as far as there is room."""
        self._drop_empty(queue)
        for known in [known for known in queue.split.values() if isinstance(known.need, Need)]:
            if not any(part.sessions for part in known.pools):
                self._stop_serving(queue, known)
                queue.deferred[known.need] = known  # behind all that came before
        for _ in range(min(NEEDS_TRIED_MAX, queue.deferred_tries, len(queue.deferred))):
            if len(queue.split) >= NEEDS_SERVED_MAX:
                return
            queue.deferred_tries -= 1
            need, lanes = next(iter(queue.deferred.items()))
            del queue.deferred[need]
            if lanes.size:
                self._serve_need(queue, lanes, need)
                self.offer(lanes)
        if not queue.deferred:
            del self._deferring[queue]
            queue.deferred_tries = 0

    def maybe_drop_pinned(self, queue: QueueLanes) -> None:
        """Drop a pinned queue that is empty; ordinary queues are dropped by `_sweep`."""
        if not queue.worker_name or queue.size:
            return
        by_queue = self._pinned.get(queue.worker_name, {})
        pinned = by_queue.get(queue.name)
        if pinned is None or any(lanes.size for lanes in pinned.all):
            return
        if pinned is queue or pinned.split.get(queue.need) is queue:
            del by_queue[queue.name]
            if not by_queue:
                del self._pinned[queue.worker_name]
            self._forget(pinned)
            for session in list(pinned.pools[0].sessions):
                pinned.pools[0].dismiss(session)

    # --- sessions

    def join(self, session: DispatchSession, patterns: Iterable[str]) -> None:
        """Add a session to the pools of its patterns, and to the queues pinned to its name; to none
        while its worker is drained."""
        if session.worker_id in self._state.drained:
            return
        for pool in self._pools.join(session, patterns):
            name = only_queue(pool.pattern)
            if name is None:
                self._has_new_wildcards = True
            elif name in self._queues:
                self._match(self._queues[name])
        if session.name:
            self._named.setdefault(session.name, {})[session] = None
            for pinned in self._pinned.get(session.name, {}).values():
                self._maybe_serve_pinned(pinned, session)
        self._retry_deferred()
        self.mark_changed(session)

    def leave(self, session: DispatchSession) -> None:
        """Remove a session from all pools."""
        self._pools.leave(session)
        named = self._named.get(session.name)
        if named is not None:
            named.pop(session, None)
            if not named:
                del self._named[session.name]

    def update_drain(self, session: DispatchSession, patterns: Iterable[str]) -> None:
        """Apply that the worker was drained (it keeps its credit for later) or undrained."""
        if not session.pools:
            self.join(session, patterns)
        elif session.worker_id in self._state.drained:
            credit = session.credit
            self.leave(session)
            session.credit = credit

    def announce(self, session: DispatchSession, programs: ProgramSet) -> None:
        """Replace the programs that a session can run."""
        for pool in self._pools.announce(session, programs):
            self._maybe_mark_ready(pool)
        self._retry_deferred()

    def mark_policies_changed(self) -> None:
        """Preferences of queues may have changed; `refresh` reloads them."""
        self._policies_changed = True

    def mark_changed(self, session: DispatchSession) -> None:
        """The credit or load of a session changed; `refresh` updates its pools."""
        self._changed[session] = None

    def refresh(self) -> None:
        """Apply all deferred updates. Called once a turn, however much changed."""
        waiting: list[Pool] = []
        for session in self._changed:
            session.update_load()
            waiting += [pool for pool in session.serving if not pool.is_ready and pool.ring]
            waiting += [part for part in session.measured if not part.is_ready and part.ring]
        self._changed.clear()
        if len(waiting) > 1:
            # Longest unserved first: where credit comes one by one, every pool leaves the list in
            # each turn, and the first of them would be served every time.
            waiting.sort(key=_served_at)
        for pool in waiting:
            self._maybe_mark_ready(pool)
        if self._has_new_wildcards:
            self._has_new_wildcards = False
            for queue in self._queues.values():
                self._match(queue)
        if self._policies_changed:
            self._policies_changed = False
            self._reload_policies()
        for queue in list(self._deferring):
            self._serve_deferred(queue)

    def _reload_policies(self) -> None:
        self._preferences.reload()
        used = self._preferences.used()
        self.holdings.is_used = any(one.placement in NEAR for one in used)
        self._pools.drop_orders(used)
        for queue in self._queues.values():
            preference = self._preferences.of(queue.name)
            for lanes in queue.all:
                lanes.preference = preference

    def _retry_deferred(self) -> None:
        """A worker may have come that could run a deferred need."""
        for queue in self._deferring:
            queue.deferred_tries = len(queue.deferred)

    def release_reserved(self, part: Pool) -> None:
        """Release the worker reserved for a part: the part had its job or has none."""
        part.overtaken_count = 0
        if part.reserved_session is not None:
            for other in part.release_reserved():
                self._maybe_mark_ready(other)

    def _maybe_mark_ready(self, pool: Pool) -> None:
        if not pool.is_ready and pool.ring and pool.candidates.count:
            pool.is_ready = True
            (self.ready_pools if pool.pattern else self.ready_pinned_pools).append(pool)

    def _lanes_for(self, item: Item) -> QueueLanes:
        queue = self.opened(item.queue, item.options.worker_name)
        if item.options is not DEFAULT_OPTIONS:
            need = need_of(item)
            if isinstance(need, Need):
                return self._lanes_of_need(queue, need)
        return queue.split.get(need_of(item), queue) if queue.split else queue

    def _open_queue(self, name: str) -> QueueLanes:
        if len(self._queues) > 2 * len(self._state.queues) + IDLE_MIN:
            self._sweep()
        queue = self._queues[name] = self._new_lanes(name, "")
        self._match(queue)
        return queue

    def _sweep(self) -> None:
        """Drop queues in which nothing waits."""
        for name, queue in list(self._queues.items()):
            if name in self._state.queues or any(lanes.size for lanes in queue.all):
                continue
            del self._queues[name]
            self._forget(queue)

    def _forget(self, queue: QueueLanes) -> None:
        for lanes in list(queue.split.values()):
            self._stop_serving(queue, lanes)
        self._deferring.pop(queue, None)

    def _pinned_queue(self, name: str, worker_name: str) -> QueueLanes:
        by_queue = self._pinned.setdefault(worker_name, {})
        pinned = by_queue.get(name)
        if pinned is None:
            pinned = by_queue[name] = self._new_lanes(name, worker_name)
            self._add_pinned_pool(pinned)
            for session in self._named.get(worker_name, ()):
                self._maybe_serve_pinned(pinned, session)
        return pinned

    def _new_lanes(self, name: str, worker_name: str) -> QueueLanes:
        queue = QueueLanes(name, worker_name)
        record = self._state.queues.get(name)
        queue.is_paused = record is not None and record.paused
        queue.preference = None if worker_name else self._preferences.of(name)
        return queue

    def _add_pinned_pool(self, pinned: QueueLanes) -> None:
        """Give a pinned queue its own pool, without sessions."""
        pool = Pool(PINNED_PATTERN, self.holdings)
        pool.start_serving()
        self._serve_by(pinned, [pool])

    def _maybe_serve_pinned(self, pinned: QueueLanes, session: DispatchSession) -> None:
        """Add a session to a queue pinned to its name, if it serves that queue."""
        serving = self._pools.serving(pinned.name)
        if any(pool in serving for pool in session.pools):
            pinned.pools[0].admit(session)
            for lanes in (pinned, *pinned.split.values()):
                self.offer(lanes)

    def _match(self, queue: QueueLanes) -> None:
        """Find the pools that serve a queue; new ones do not have it in their rings yet."""
        serving = self._pools.serving(queue.name)
        known = dict.fromkeys(queue.pools)
        new = [pool for pool in serving if pool not in known]
        for pool in new:
            pool.start_serving()
        if new or len(serving) != len(known):
            self._serve_by(queue, serving)

    def _serve_by(self, queue: QueueLanes, serving: list[Pool]) -> None:
        """Set the pools that serve a queue, and the parts that serve its lanes of needs."""
        before = queue.pools
        self._change_pools(queue, serving)
        for need, lanes in queue.split.items():
            for pool in before:
                part = pool.parts.get(need)
                if part is not None and part in lanes.pools and pool not in serving:
                    pool.drop_part(part)
            parts = [
                pool.parts[need] if pool in before and need in pool.parts else pool.part(need)
                for pool in serving
            ]
            self._change_pools(lanes, parts)

    def _change_pools(self, lanes: QueueLanes, pools: list[Pool]) -> None:
        known, kept = dict.fromkeys(lanes.pools), dict.fromkeys(pools)
        new = [pool for pool in pools if pool not in known]
        lanes.absent = [pool for pool in lanes.absent if pool in kept] + new
        lanes.pools = pools
        self.offer(lanes)

"""What waits, by queue, and who is ready to serve it.

Joins the two halves of dispatch: queues (`lanes`) and pools of sessions (`pools`). A queue with
something to give stands in the rings of the pools that serve it; a pool with credit and a ring
stands in a line. Both leave when they are visited in vain, not when they run dry, so that a queue
that flips between empty and not costs nothing but its jobs.

A job that needs labels or resources waits in lanes of that need, which are served by the parts of
the pools that could run it (`pools`). So does a job of a program that some workers of its queue
lack: it is split off when a pool with such a worker meets it, so a queue that all its workers can
run costs nothing for this. Such lanes and the rest of the queue take turns.

Each need that is served costs every worker that could run it. So of one queue NEEDS_SERVED_MAX are
served at a time; the lanes of further ones wait until others are empty, in the order in which they
came. Needs that no connected worker could ever run make way for those.

A job that names its worker is pinned: it waits in a queue of that worker alone, with a pool of its
own, served before everything else. The worker must serve the job's queue all the same.

What a turn costs: `push`, `mark_changed` and a decision are O(1) in jobs, queues, clients and
workers. `refresh` costs one move for each session that changed. O(queues) is only what is rare: a
new pattern with wildcards, and a change of leader.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Final

from rollq.base.jobs import DEFAULT_OPTIONS
from rollq.grid.state import GridState
from rollq.policy.holdings import Holdings
from rollq.policy.lanes import MIXED, Item, QueueLanes
from rollq.policy.needs import AnyNeed, Need, ProgramSet, need_of
from rollq.policy.pools import DispatchSession, Pool, Pools, only_queue
from rollq.policy.preferences import NEAR, Preferences

IDLE_MIN: Final = 64  # fewer empty queues are not worth a sweep
NEEDS_SERVED_MAX: Final = 64  # of one queue, at a time
NEEDS_TRIED_MAX: Final = 8  # that one turn begins to serve: each costs a look at every worker
PINNED_PATTERN: Final = ""  # of the pools of pinned queues: no worker can ask for it

_served_at = attrgetter("served_at")


class Backlog:
    """Queues with what waits in them, matched with pools of sessions."""

    __slots__ = (
        "_changed",
        "_crowded",
        "_named",
        "_pinned",
        "_policies_new",
        "_pools",
        "_preferences",
        "_queues",
        "_state",
        "_wildcards_new",
        "holdings",
        "line",
        "pinned_line",
    )

    def __init__(self, state: GridState, placement: str, holdings: Holdings) -> None:
        self._state = state
        self._preferences = Preferences(state, placement)
        self._policies_new = True  # policies may have changed since the last `refresh`
        self.holdings = holdings
        # By name, made with the first job; kept while the state has the queue, and somewhat longer
        # (`_sweep`), because most queues fill again.
        self._queues: dict[str, QueueLanes] = {}
        # Worker name → queue → lanes. Dropped when empty: there may be one for each worker.
        # Invariant: such lanes have exactly one whole pool, of the worker's sessions that serve
        # the queue; of most workers that is one session or none.
        self._pinned: dict[str, dict[str, QueueLanes]] = {}
        self._crowded: dict[QueueLanes, None] = {}  # queues with needs that are served later
        self.clear_sessions()

    def clear_sessions(self) -> None:
        """All sessions are gone at once; what waits stays."""
        self._pools = Pools(self.holdings)
        self._named: dict[str, dict[DispatchSession, None]] = {}  # by the name of their worker
        # Sessions whose credit or load changed since the last `refresh`.
        self._changed: dict[DispatchSession, None] = {}
        # A pattern that may match any queue is new; they are matched once a turn, however many
        # workers came in it.
        self._wildcards_new = False
        # Pools with credit and a ring, in turns; each at most once (`Pool.is_ready`).
        self.line: deque[Pool] = deque()
        self.pinned_line: deque[Pool] = deque()  # those of pinned queues, which come first
        for queue in self._queues.values():
            for lanes in queue.all:
                lanes.pools, lanes.absent = [], []
        for by_queue in self._pinned.values():
            for pinned in by_queue.values():
                self._add_pinned_pool(pinned)

    # --- what waits

    def push(self, item: Item) -> None:
        """A job, or an array, may be assigned from now on."""
        queue = self._lanes_for(item)
        queue.push(item)
        if queue.absent:
            self.offer(queue)

    def push_run(self, items: list[Item]) -> None:
        """As `push` for each, of several given by seq that are alike in queue, client, options."""
        queue = self._lanes_for(items[0])
        queue.push_run(items)
        if queue.absent:
            self.offer(queue)

    def went_stale(self, item: Item) -> None:
        """What was pushed waits no more, though nobody took it."""
        queue = self.queue_of(item)
        if queue is not None:
            queue.went_stale(item)
            if not queue.size:
                for pool in queue.pools:
                    if pool.keeps is not None and not any(lanes.size for lanes in pool.ring):
                        self.stop_keeping(pool)
                self.maybe_drop_pinned(queue)

    def queue_of(self, item: Item) -> QueueLanes | None:
        """Where an item waits, or would."""
        queue = self.whole_queue_of(item)
        if queue is None or not (queue.split or queue.later):
            return queue
        need = need_of(item)
        return queue.split.get(need) or queue.later.get(need) or queue

    def whole_queue_of(self, item: Item) -> QueueLanes | None:
        """The queue of an item, which is served by all who serve it, whatever they can run."""
        return self.lanes_named(item.queue, item.options.worker_name)

    def lanes_named(self, name: str, worker_name: str = "") -> QueueLanes | None:
        """A queue, or what waits in it for one named worker."""
        if worker_name:
            return self._pinned.get(worker_name, {}).get(name)
        return self._queues.get(name)

    def idle_queue(self, name: str) -> QueueLanes | None:
        """A queue in which nothing waits that could be given to a worker, but for what waits apart;
        None if there is no such queue, or if it is paused."""
        queue = self._queues.get(name)
        if queue is None or queue.is_paused or queue.is_runnable:
            return None
        return queue

    def queues(self) -> Iterator[QueueLanes]:
        """Every queue, pinned ones too."""
        yield from self._queues.values()
        yield from self.pinned()

    def pinned(self) -> Iterator[QueueLanes]:
        """Those of named workers."""
        for by_queue in self._pinned.values():
            yield from by_queue.values()

    def queues_named(self, names: Iterable[str]) -> Iterator[QueueLanes]:
        """Those of these names, pinned ones apart."""
        for name in names:
            queue = self._queues.get(name)
            if queue is not None:
                yield queue

    def offer(self, queue: QueueLanes) -> None:
        """Put a queue that has something to give into the rings that it is missing from."""
        if queue.absent and queue.is_runnable:
            for pool in queue.absent:
                pool.ring.append(queue)
                self._maybe_line_up(pool)
            queue.absent = []

    def pause(self, name: str, is_paused: bool) -> None:
        """Assign nothing from a queue, or again."""
        queue = self._queues.get(name)
        pinned = [by_queue[name] for by_queue in self._pinned.values() if name in by_queue]
        for whole in pinned if queue is None else [queue, *pinned]:
            for lanes in whole.all:
                lanes.is_paused = is_paused
                self.offer(lanes)

    def split_off(self, queue: QueueLanes) -> int:
        """Let what `take` found unfit wait for those who can run it; how many that were."""
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
        """As `split_off` for all that waits in a queue, if all of it needs the same program; call
        if some worker that serves it lacks that. Costs the same for one job and for a million: the
        lanes become those of the program, and new, empty ones become the queue."""
        need = queue.only_need
        if need == MIXED or not queue.size or need in queue.split:
            return False
        whole = self._new_lanes(queue.name, queue.worker_name)
        whole.pools, whole.absent = queue.pools, list(queue.pools)
        whole.split, queue.split = queue.split, {}
        whole.later, queue.later = queue.later, {}
        if self._crowded.pop(queue, True) is None:
            self._crowded[whole] = None
            whole.tries_left = queue.tries_left
        if queue.worker_name:
            self._pinned[queue.worker_name][queue.name] = whole
        else:
            self._queues[queue.name] = whole
        # The rings of its pools still hold these lanes; `Dispatcher._serve` takes them out, because
        # they have a need now and the pools have not.
        queue.pools = []
        self._serve_need(whole, queue, need)
        self.offer(queue)
        return True

    def _serve_need(self, queue: QueueLanes, lanes: QueueLanes, need: AnyNeed) -> None:
        """Lanes hold what has one need of a queue, and are served by those who could run it. Empty
        lanes of others go if many are."""
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
        """Lanes of one need of a queue are served by nobody any more."""
        del queue.split[lanes.need]
        for pool in queue.pools:
            part = pool.parts.get(lanes.need)
            if part is not None and part in lanes.pools:
                if lanes in part.ring:
                    part.ring.remove(lanes)
                if not part.ring:
                    self.stop_keeping(part)
                pool.drop_part(part)
        lanes.pools, lanes.absent = [], []

    def _lanes_of_need(self, queue: QueueLanes, need: Need) -> QueueLanes:
        """Lanes of a queue for what has one need, made if there are none."""
        lanes = queue.split.get(need) or queue.later.get(need)
        if lanes is None:
            lanes = self._new_lanes(queue.name, queue.worker_name)
            if len(queue.split) >= NEEDS_SERVED_MAX:
                self._drop_empty(queue)
            if len(queue.split) < NEEDS_SERVED_MAX:
                self._serve_need(queue, lanes, need)
            else:
                lanes.need = need
                queue.later[need] = lanes
                self._crowded[queue] = None
                queue.tries_left += 1
        return lanes

    def _serve_later(self, queue: QueueLanes) -> None:
        """Let needs of a crowded queue be served that were not, as far as there is room."""
        self._drop_empty(queue)
        for known in [known for known in queue.split.values() if isinstance(known.need, Need)]:
            if not any(part.sessions for part in known.pools):
                self._stop_serving(queue, known)
                queue.later[known.need] = known  # behind all that came before
        for _ in range(min(NEEDS_TRIED_MAX, queue.tries_left, len(queue.later))):
            if len(queue.split) >= NEEDS_SERVED_MAX:
                return
            queue.tries_left -= 1
            need, lanes = next(iter(queue.later.items()))
            del queue.later[need]
            if lanes.size:
                self._serve_need(queue, lanes, need)
                self.offer(lanes)
        if not queue.later:
            del self._crowded[queue]
            queue.tries_left = 0

    def maybe_drop_pinned(self, queue: QueueLanes) -> None:
        """Forget a pinned queue that was emptied; ordinary queues are swept now and then."""
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

    # --- who serves

    def join(self, session: DispatchSession, patterns: Iterable[str]) -> None:
        """A session serves the queues of its patterns from now on, and those pinned to its name;
        none, while its worker is drained."""
        if session.worker_id in self._state.drained:
            return
        for pool in self._pools.join(session, patterns):
            name = only_queue(pool.pattern)
            if name is None:
                self._wildcards_new = True
            elif name in self._queues:
                self._match(self._queues[name])
        if session.name:
            self._named.setdefault(session.name, {})[session] = None
            for pinned in self._pinned.get(session.name, {}).values():
                self._maybe_serve_pinned(pinned, session)
        self._try_later()
        self.mark_changed(session)

    def leave(self, session: DispatchSession) -> None:
        """A session serves nobody any more."""
        self._pools.leave(session)
        named = self._named.get(session.name)
        if named is not None:
            named.pop(session, None)
            if not named:
                del self._named[session.name]

    def follow_drain(self, session: DispatchSession, patterns: Iterable[str]) -> None:
        """Its worker was drained, and its credit waits for the end of that; or that is the end."""
        if not session.pools:
            self.join(session, patterns)
        elif session.worker_id in self._state.drained:
            credit = session.credit
            self.leave(session)
            session.credit = credit

    def announce(self, session: DispatchSession, programs: ProgramSet) -> None:
        """A session can run other programs from now on."""
        for pool in self._pools.announce(session, programs):
            self._maybe_line_up(pool)
        self._try_later()

    def mark_policies_changed(self) -> None:
        """Queues may prefer other workers from now on; `refresh` will look at it."""
        self._policies_new = True

    def mark_changed(self, session: DispatchSession) -> None:
        """The credit or the load of a session changed; `refresh` will look at it."""
        self._changed[session] = None

    def refresh(self) -> None:
        """Catch up with all that was put off: once a turn, however much has happened in it."""
        waiting: list[Pool] = []
        for session in self._changed:
            session.update_load()
            waiting += [pool for pool in session.serving if not pool.is_ready and pool.ring]
            waiting += [part for part in session.measured if not part.is_ready and part.ring]
        self._changed.clear()
        if len(waiting) > 1:
            # Whoever was served longest ago is first: where credit comes one by one, all pools
            # leave the line in every turn, and the first of them would have it every time.
            waiting.sort(key=_served_at)
        for pool in waiting:
            self._maybe_line_up(pool)
        if self._wildcards_new:
            self._wildcards_new = False
            for queue in self._queues.values():
                self._match(queue)
        if self._policies_new:
            self._policies_new = False
            self._follow_policies()
        for queue in list(self._crowded):
            self._serve_later(queue)

    def _follow_policies(self) -> None:
        self._preferences.follow_state()
        used = self._preferences.used()
        self.holdings.is_used = any(one.placement in NEAR for one in used)
        self._pools.drop_orders(used)
        for queue in self._queues.values():
            preference = self._preferences.of(queue.name)
            for lanes in queue.all:
                lanes.preference = preference

    def _try_later(self) -> None:
        """Somebody may be there who could run a need that nobody could."""
        for queue in self._crowded:
            queue.tries_left = len(queue.later)

    def stop_keeping(self, part: Pool) -> None:
        """A part has what it waited for, or nothing that waits: no worker is kept for it."""
        part.overtaken_count = 0
        if part.keeps is not None:
            for other in part.stop_keeping():
                self._maybe_line_up(other)

    def _maybe_line_up(self, pool: Pool) -> None:
        if not pool.is_ready and pool.ring and pool.candidates.count:
            pool.is_ready = True
            (self.line if pool.pattern else self.pinned_line).append(pool)

    def _lanes_for(self, item: Item) -> QueueLanes:
        name = item.options.worker_name
        queue = self._queues.get(item.queue) if not name else self._pinned_queue(item.queue, name)
        if queue is None:
            queue = self._open_queue(item.queue)
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
        """Forget queues in which nothing waits."""
        for name, queue in list(self._queues.items()):
            if name in self._state.queues or any(lanes.size for lanes in queue.all):
                continue
            del self._queues[name]
            self._forget(queue)

    def _forget(self, queue: QueueLanes) -> None:
        for lanes in list(queue.split.values()):
            self._stop_serving(queue, lanes)
        self._crowded.pop(queue, None)

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
        """Give a pinned queue a pool of its own, still without sessions."""
        pool = Pool(PINNED_PATTERN, self.holdings)
        pool.start_serving()
        self._serve_by(pinned, [pool])

    def _maybe_serve_pinned(self, pinned: QueueLanes, session: DispatchSession) -> None:
        """Let a session take from a queue that is pinned to its name, if it serves the queue."""
        serving = self._pools.serving(pinned.name)
        if any(pool in serving for pool in session.pools):
            pinned.pools[0].admit(session)
            for lanes in (pinned, *pinned.split.values()):
                self.offer(lanes)

    def _match(self, queue: QueueLanes) -> None:
        """Find the pools that serve a queue; those that are new to it miss it in their rings."""
        serving = self._pools.serving(queue.name)
        known = dict.fromkeys(queue.pools)
        new = [pool for pool in serving if pool not in known]
        for pool in new:
            pool.start_serving()
        if new or len(serving) != len(known):
            self._serve_by(queue, serving)

    def _serve_by(self, queue: QueueLanes, serving: list[Pool]) -> None:
        """A queue is served by these pools from now on, and its split-off lanes by their parts."""
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

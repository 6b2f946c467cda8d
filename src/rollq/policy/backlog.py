"""What waits, by queue, and who is ready to serve it.

Joins the two halves of dispatch: queues (`lanes`) and pools of sessions (`pools`). A queue with
something to give stands in the rings of the pools that serve it; a pool with credit and a ring
stands in a line. Both leave when they are visited in vain, not when they run dry, so that a queue
that flips between empty and not costs nothing but its jobs.

A job of a program that some workers of its queue lack is split off: it waits in lanes of that
program, which are served by the parts of the pools that have it (`pools`). It moves there when a
pool with such a worker meets it, so a queue that all its workers can run costs nothing for this.
Split-off lanes and the rest of the queue take turns.

A job that names its worker is pinned: it waits in a queue of that worker alone, with a pool of its
own, served before everything else. The worker must serve the job's queue all the same.

What a turn costs: `push`, `mark_changed` and a decision are O(1) in jobs, queues, clients and
workers. `refresh` costs one move for each session that changed. O(queues) is only what is rare: a
new pattern with wildcards, and a change of leader.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from rollq.grid.state import GridState
from rollq.policy.lanes import MIXED, Item, QueueLanes
from rollq.policy.placement import Placement, RoundRobin, make_placement
from rollq.policy.pools import DispatchSession, Pool, Pools, ProgramSet, only_queue, program_of

IDLE_MIN: Final = 64  # fewer empty queues are not worth a sweep
PINNED_PATTERN: Final = ""  # of the pools of pinned queues: no worker can ask for it


class Backlog:
    """Queues with what waits in them, matched with pools of sessions."""

    __slots__ = (
        "_changed",
        "_named",
        "_pinned",
        "_placement",
        "_pools",
        "_queues",
        "_state",
        "_wildcards_new",
        "line",
        "pinned_line",
    )

    def __init__(self, state: GridState, placement: str) -> None:
        self._state = state
        self._placement = placement
        # By name, made with the first job; kept while the state has the queue, and somewhat longer
        # (`_sweep`), because most queues fill again.
        self._queues: dict[str, QueueLanes] = {}
        # Worker name → queue → lanes. Dropped when empty: there may be one for each worker.
        # Invariant: such lanes have exactly one whole pool, of the worker's sessions that serve
        # the queue; of most workers that is one session or none.
        self._pinned: dict[str, dict[str, QueueLanes]] = {}
        self.clear_sessions()

    def clear_sessions(self) -> None:
        """All sessions are gone at once; what waits stays."""
        self._pools = Pools(self._placement)
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
            for lanes in (queue, *queue.split.values()):
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
                self.maybe_drop_pinned(queue)

    def queue_of(self, item: Item) -> QueueLanes | None:
        """Where an item waits, or would."""
        queue = self.whole_queue_of(item)
        if queue is None or not queue.split:
            return queue
        return queue.split.get(program_of(item), queue)

    def whole_queue_of(self, item: Item) -> QueueLanes | None:
        """The queue of an item, which is served by all who serve it, whatever they can run."""
        name = item.options.worker_name
        if name:
            return self._pinned.get(name, {}).get(item.queue)
        return self._queues.get(item.queue)

    def idle_queue(self, name: str) -> QueueLanes | None:
        """A queue in which nothing waits that could be given to a worker; None if there is no such
        queue, if it is paused, or if programs of it wait apart."""
        queue = self._queues.get(name)
        if queue is None or queue.is_paused or queue.split or queue.is_runnable:
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
            for lanes in (whole, *whole.split.values()):
                lanes.is_paused = is_paused
                self.offer(lanes)

    def split_off(self, queue: QueueLanes) -> int:
        """Let what `take` found unfit wait for those who can run it; how many that were."""
        unfit, queue.unfit = queue.unfit, []
        for item in unfit:
            program = program_of(item)
            lanes = queue.split.get(program)
            if lanes is None:
                lanes = self._new_lanes(queue.name, queue.worker_name)
                self._add_split(queue, lanes, program)
            lanes.push(item)
            self.offer(lanes)
        return len(unfit)

    def maybe_split_all(self, queue: QueueLanes) -> bool:
        """As `split_off` for all that waits in a queue, if all of it needs the same program; call
        if some worker that serves it lacks that. Costs the same for one job and for a million: the
        lanes become those of the program, and new, empty ones become the queue."""
        program = queue.only_program
        if program == MIXED or not queue.size or program in queue.split:
            return False
        whole = self._new_lanes(queue.name, queue.worker_name)
        whole.pools, whole.absent = queue.pools, list(queue.pools)
        whole.split, queue.split = queue.split, {}
        if queue.worker_name:
            self._pinned[queue.worker_name][queue.name] = whole
        else:
            self._queues[queue.name] = whole
        # The rings of its pools still hold these lanes; `Dispatcher._serve` takes them out, because
        # they have a program now and the pools have not.
        queue.pools = []
        self._add_split(whole, queue, program)
        self.offer(queue)
        return True

    def _add_split(self, queue: QueueLanes, lanes: QueueLanes, program: str) -> None:
        """Lanes hold one program of a queue from now on. Empty lanes of others go if many are."""
        if len(queue.split) > IDLE_MIN:
            for known in [known for known in queue.split.values() if not known.size]:
                self._drop_split(queue, known)
        lanes.program = program
        queue.split[program] = lanes
        lanes.pools = [pool.part(program, self._candidates_of(pool)) for pool in queue.pools]
        lanes.absent = list(lanes.pools)

    def _drop_split(self, queue: QueueLanes, lanes: QueueLanes) -> None:
        """Forget empty lanes of one program."""
        del queue.split[lanes.program]
        for pool in queue.pools:
            part = pool.parts.get(lanes.program)
            if part is not None and part in lanes.pools:
                pool.drop_part(part)

    def _candidates_of(self, pool: Pool) -> Placement:
        return make_placement(self._placement) if pool.pattern else RoundRobin()

    def maybe_drop_pinned(self, queue: QueueLanes) -> None:
        """Forget a pinned queue that was emptied; ordinary queues are swept now and then."""
        if not queue.worker_name or queue.size:
            return
        by_queue = self._pinned.get(queue.worker_name, {})
        pinned = by_queue.get(queue.name)
        if pinned is None or pinned.size or any(lanes.size for lanes in pinned.split.values()):
            return
        if pinned is queue or pinned.split.get(queue.program) is queue:
            del by_queue[queue.name]
            if not by_queue:
                del self._pinned[queue.worker_name]
            for lanes in list(pinned.split.values()):
                self._drop_split(pinned, lanes)
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

    def mark_changed(self, session: DispatchSession) -> None:
        """The credit or the load of a session changed; `refresh` will look at it."""
        self._changed[session] = None

    def refresh(self) -> None:
        """Catch up with all that was put off: once a turn, however much has happened in it."""
        for session in self._changed:
            session.update_load()
            for pool in session.serving:
                if not pool.is_ready:
                    self._maybe_line_up(pool)
        self._changed.clear()
        if self._wildcards_new:
            self._wildcards_new = False
            for queue in self._queues.values():
                self._match(queue)

    def _maybe_line_up(self, pool: Pool) -> None:
        if not pool.is_ready and pool.ring and pool.candidates.count:
            pool.is_ready = True
            (self.line if pool.pattern else self.pinned_line).append(pool)

    def _lanes_for(self, item: Item) -> QueueLanes:
        name = item.options.worker_name
        queue = self._queues.get(item.queue) if not name else self._pinned_queue(item.queue, name)
        if queue is None:
            return self._open_queue(item.queue)
        return queue.split.get(program_of(item), queue) if queue.split else queue

    def _open_queue(self, name: str) -> QueueLanes:
        if len(self._queues) > 2 * len(self._state.queues) + IDLE_MIN:
            self._sweep()
        queue = self._queues[name] = self._new_lanes(name, "")
        self._match(queue)
        return queue

    def _sweep(self) -> None:
        """Forget queues in which nothing waits."""
        for name, queue in list(self._queues.items()):
            splits = list(queue.split.values())
            if queue.size or name in self._state.queues or any(one.size for one in splits):
                continue
            del self._queues[name]
            for lanes in splits:
                self._drop_split(queue, lanes)

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
        return queue

    def _add_pinned_pool(self, pinned: QueueLanes) -> None:
        """Give a pinned queue a pool of its own, still without sessions."""
        pool = Pool(PINNED_PATTERN, RoundRobin())
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
        for program, lanes in queue.split.items():
            for pool in before:
                part = pool.parts.get(program)
                if part is not None and part in lanes.pools and pool not in serving:
                    pool.drop_part(part)
            parts = [
                pool.parts[program]
                if pool in before and program in pool.parts
                else pool.part(program, self._candidates_of(pool))
                for pool in serving
            ]
            self._change_pools(lanes, parts)

    def _change_pools(self, lanes: QueueLanes, pools: list[Pool]) -> None:
        known, kept = dict.fromkeys(lanes.pools), dict.fromkeys(pools)
        new = [pool for pool in pools if pool not in known]
        lanes.absent = [pool for pool in lanes.absent if pool in kept] + new
        lanes.pools = pools
        self.offer(lanes)

"""What waits, by queue, and who is ready to serve it.

Joins the two halves of dispatch: queues (`lanes`) and pools of sessions (`pools`). A queue with
something to give stands in the rings of the pools that serve it; a pool with credit and a ring
stands in a line. Both leave when they are visited in vain, not when they run dry, so that a queue
that flips between empty and not costs nothing but its jobs.

What needs a program that some workers of its queue lack waits apart from the rest of the queue,
in lanes that are served by the parts of the pools that have it (`pools`). It is put there when one
who lacks it would have had it, and takes turns with the rest of the queue from then on.

A job that names its worker waits in a mailbox: a queue of that worker alone, with a pool of its
own, served before everything else. The worker must serve the job's queue all the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from rollq.grid.state import GridState
from rollq.policy.lanes import MIXED, Item, QueueLanes
from rollq.policy.placement import Placement, RoundRobin, make_placement
from rollq.policy.pools import Pool, Pools, Programs, Session, need_of, only_queue

IDLE_MIN: Final = 64  # empty queues that are not worth a sweep
MAIL_PATTERN: Final = ""  # no subject has it


class Backlog:
    """Queues with what waits in them, matched with pools of sessions."""

    __slots__ = (
        "_mailboxes",
        "_named",
        "_placement",
        "_pools",
        "_queues",
        "_state",
        "_touched",
        "_wildcards_new",
        "line",
        "mail_line",
    )

    def __init__(self, state: GridState, placement: str) -> None:
        self._state = state
        self._placement = placement
        self._queues: dict[str, QueueLanes] = {}
        self._mailboxes: dict[str, dict[str, QueueLanes]] = {}  # worker name → queue → lanes
        self.desert()

    def desert(self) -> None:
        """All sessions are gone at once."""
        self._pools = Pools(self._placement)
        self._named: dict[str, dict[Session, None]] = {}
        self._touched: dict[Session, None] = {}
        self._wildcards_new = False
        self.line: deque[Pool] = deque()  # pools to serve, in turns
        self.mail_line: deque[Pool] = deque()  # those of mailboxes, which come first
        for queue in self._queues.values():
            for lanes in (queue, *queue.apart.values()):
                lanes.pools, lanes.absent = [], []
        for boxes in self._mailboxes.values():
            for box in boxes.values():
                self._open_door(box)

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
                self.maybe_drop_mailbox(queue)

    def queue_of(self, item: Item) -> QueueLanes | None:
        """Where an item waits, or would."""
        queue = self.whole_queue_of(item)
        if queue is None or not queue.apart:
            return queue
        return queue.apart.get(need_of(item), queue)

    def whole_queue_of(self, item: Item) -> QueueLanes | None:
        """The queue of an item, which is served by all who serve it, whatever they can run."""
        name = item.options.worker_name
        if name:
            return self._mailboxes.get(name, {}).get(item.queue)
        return self._queues.get(item.queue)

    def queues(self) -> Iterator[QueueLanes]:
        """Every queue, and every mailbox."""
        yield from self._queues.values()
        for boxes in self._mailboxes.values():
            yield from boxes.values()

    def offer(self, queue: QueueLanes) -> None:
        """Put a queue that has something to give into the rings that it is missing from."""
        if queue.absent and queue.is_runnable:
            for pool in queue.absent:
                pool.ring.append(queue)
                self._line_up(pool)
            queue.absent = []

    def pause(self, name: str, is_paused: bool) -> None:
        """Assign nothing from a queue, or again."""
        queue = self._queues.get(name)
        boxes = [boxes[name] for boxes in self._mailboxes.values() if name in boxes]
        for whole in boxes if queue is None else [queue, *boxes]:
            for lanes in (whole, *whole.apart.values()):
                lanes.is_paused = is_paused
                self.offer(lanes)

    def put_apart(self, queue: QueueLanes) -> int:
        """Let what `take` found unfit wait for those who can run it; how many that were."""
        unfit, queue.unfit = queue.unfit, []
        for item in unfit:
            need = need_of(item)
            lanes = queue.apart.get(need)
            if lanes is None:
                lanes = self._new_lanes(queue.name, queue.worker_name)
                self._set_apart(queue, lanes, need)
            lanes.push(item)
            self.offer(lanes)
        return len(unfit)

    def maybe_put_all_apart(self, queue: QueueLanes) -> bool:
        """As `put_apart` for all that waits in a queue, at once, if all of it needs the same; call
        if somebody who serves it lacks that. The lanes stay what they are, and new ones become the
        queue."""
        need = queue.only_need
        if need == MIXED or not queue.size or need in queue.apart:
            return False
        whole = self._new_lanes(queue.name, queue.worker_name)
        whole.pools, whole.absent = queue.pools, list(queue.pools)
        whole.apart, queue.apart = queue.apart, {}
        if queue.worker_name:
            self._mailboxes[queue.worker_name][queue.name] = whole
        else:
            self._queues[queue.name] = whole
        queue.pools = []
        self._set_apart(whole, queue, need)
        self.offer(queue)
        return True

    def _set_apart(self, queue: QueueLanes, lanes: QueueLanes, need: str) -> None:
        """Lanes serve one program of a queue from now on."""
        if len(queue.apart) > IDLE_MIN:
            for known in [known for known in queue.apart.values() if not known.size]:
                self._let_go(queue, known)
        lanes.need = need
        queue.apart[need] = lanes
        lanes.pools = [pool.part(need, self._candidates_of(pool)) for pool in queue.pools]
        lanes.absent = list(lanes.pools)

    def _let_go(self, queue: QueueLanes, lanes: QueueLanes) -> None:
        """Forget lanes that stand apart and are empty."""
        del queue.apart[lanes.need]
        for pool in queue.pools:
            part = pool.parts.get(lanes.need)
            if part is not None and part in lanes.pools:
                pool.drop_part(part)

    def _candidates_of(self, pool: Pool) -> Placement:
        return make_placement(self._placement) if pool.pattern else RoundRobin()

    def maybe_drop_mailbox(self, queue: QueueLanes) -> None:
        """Forget a mailbox that was emptied; ordinary queues are swept now and then."""
        if not queue.worker_name or queue.size:
            return
        boxes = self._mailboxes.get(queue.worker_name, {})
        box = boxes.get(queue.name)
        if box is None or box.size or any(lanes.size for lanes in box.apart.values()):
            return
        if box is queue or box.apart.get(queue.need) is queue:
            del boxes[queue.name]
            if not boxes:
                del self._mailboxes[queue.worker_name]
            for lanes in list(box.apart.values()):
                self._let_go(box, lanes)
            for session in list(box.pools[0].sessions):
                box.pools[0].dismiss(session)

    # --- who serves

    def join(self, session: Session, patterns: Iterable[str]) -> None:
        """A session serves the queues of its patterns, and its mailboxes, from now on."""
        for pool in self._pools.join(session, patterns):
            name = only_queue(pool.pattern)
            if name is None:
                self._wildcards_new = True
            elif name in self._queues:
                self._match(self._queues[name])
        if session.name:
            self._named.setdefault(session.name, {})[session] = None
            for box in self._mailboxes.get(session.name, {}).values():
                self._maybe_deliver(box, session)

    def leave(self, session: Session) -> None:
        """A session serves nobody any more."""
        self._pools.leave(session)
        named = self._named.get(session.name)
        if named is not None:
            named.pop(session, None)
            if not named:
                del self._named[session.name]

    def announce(self, session: Session, programs: Programs) -> None:
        """A session can run other programs from now on."""
        for pool in self._pools.announce(session, programs):
            self._line_up(pool)

    def touch(self, session: Session) -> None:
        """The credit or the load of a session changed; `freshen` will look at it."""
        self._touched[session] = None

    def freshen(self) -> None:
        """Catch up with all that was put off: once a turn, however much has happened in it."""
        for session in self._touched:
            session.weigh()
            for pool in session.serving:
                if not pool.is_ready:
                    self._line_up(pool)
        self._touched.clear()
        if self._wildcards_new:
            self._wildcards_new = False
            for queue in self._queues.values():
                self._match(queue)

    def _line_up(self, pool: Pool) -> None:
        if not pool.is_ready and pool.ring and pool.candidates.count:
            pool.is_ready = True
            (self.line if pool.pattern else self.mail_line).append(pool)

    def _lanes_for(self, item: Item) -> QueueLanes:
        name = item.options.worker_name
        queue = self._queues.get(item.queue) if not name else self._mailbox(item.queue, name)
        if queue is None:
            return self._open_queue(item.queue)
        return queue.apart.get(need_of(item), queue) if queue.apart else queue

    def _open_queue(self, name: str) -> QueueLanes:
        if len(self._queues) > 2 * len(self._state.queues) + IDLE_MIN:
            self._sweep()
        queue = self._queues[name] = self._new_lanes(name, "")
        self._match(queue)
        return queue

    def _sweep(self) -> None:
        """Forget queues in which nothing waits."""
        for name, queue in list(self._queues.items()):
            lanes_apart = list(queue.apart.values())
            if queue.size or name in self._state.queues or any(one.size for one in lanes_apart):
                continue
            del self._queues[name]
            for lanes in lanes_apart:
                self._let_go(queue, lanes)

    def _mailbox(self, name: str, worker_name: str) -> QueueLanes:
        boxes = self._mailboxes.setdefault(worker_name, {})
        box = boxes.get(name)
        if box is None:
            box = boxes[name] = self._new_lanes(name, worker_name)
            self._open_door(box)
            for session in self._named.get(worker_name, ()):
                self._maybe_deliver(box, session)
        return box

    def _new_lanes(self, name: str, worker_name: str) -> QueueLanes:
        queue = QueueLanes(name, worker_name)
        record = self._state.queues.get(name)
        queue.is_paused = record is not None and record.paused
        return queue

    def _open_door(self, box: QueueLanes) -> None:
        """Give a mailbox a pool of its own, still without sessions."""
        pool = Pool(MAIL_PATTERN, RoundRobin())
        pool.engage()
        self._serve_by(box, [pool])

    def _maybe_deliver(self, box: QueueLanes, session: Session) -> None:
        """Let a session take from a mailbox if it serves the queue."""
        serving = self._pools.serving(box.name)
        if any(pool in serving for pool in session.pools):
            box.pools[0].admit(session)
            for lanes in (box, *box.apart.values()):
                self.offer(lanes)

    def _match(self, queue: QueueLanes) -> None:
        """Find the pools that serve a queue; those that are new to it miss it in their rings."""
        serving = self._pools.serving(queue.name)
        known = dict.fromkeys(queue.pools)
        new = [pool for pool in serving if pool not in known]
        for pool in new:
            pool.engage()
        if new or len(serving) != len(known):
            self._serve_by(queue, serving)

    def _serve_by(self, queue: QueueLanes, serving: list[Pool]) -> None:
        """A queue is served by these pools from now on, and what stands apart by their parts."""
        before = queue.pools
        self._change_pools(queue, serving)
        for need, lanes in queue.apart.items():
            for pool in before:
                part = pool.parts.get(need)
                if part is not None and part in lanes.pools and pool not in serving:
                    pool.drop_part(part)
            parts = [
                pool.parts[need]
                if pool in before and need in pool.parts
                else pool.part(need, self._candidates_of(pool))
                for pool in serving
            ]
            self._change_pools(lanes, parts)

    def _change_pools(self, lanes: QueueLanes, pools: list[Pool]) -> None:
        known, kept = dict.fromkeys(lanes.pools), dict.fromkeys(pools)
        new = [pool for pool in pools if pool not in known]
        lanes.absent = [pool for pool in lanes.absent if pool in kept] + new
        lanes.pools = pools
        self.offer(lanes)

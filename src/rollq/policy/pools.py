"""Worker sessions and the pools they form.

A pool is all open sessions that asked for one pattern. A queue is served by the pools whose
patterns match it: how many those are depends on the wildcards of its subject, not on the number of
workers, even if every worker has a pattern of its own besides the shared ones. A session is in as
many pools as it has patterns, with one credit for all of them.

Not every session can run every job. For a need that some lack, the pool gets a *part*: a pool of
those who could ever run it. A part for labels or resources is made with the first job that needs
them; one for a program when a pool meets a job whose program some of its sessions lack: as long as
all can run what waits, nothing is different. So a session is in as many parts as it could run needs
with jobs, and a decision looks at nobody who could not run the job.

A part whose need names resources is *measured*: its candidates are those with credit that have so
much free now. Small needs could keep a large one from ever finding enough at once. So when a part
waits for room and others that take of the same resources were started OVERTAKING_MAX times on
workers that it waits for, the worker of the last is *kept* for it: that is given nothing more of
those resources until the part had its job, or has none. One worker a part, and one part a worker.

Sessions and credits exist on the leader only and die with its leadership.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from rollq.base.ids import WorkerId
from rollq.base.needs import Amounts
from rollq.grid.state import AttemptOutcome
from rollq.policy.holdings import Holdings
from rollq.policy.needs import ANYTHING, AnyNeed, Need, ProgramSet, Room, has_labels
from rollq.policy.placement import Homes, LeastLoad, Placement, Preference, load_of, make_placement
from rollq.subjects.grammar import ANY_ONE, ANY_REST, parse_pattern
from rollq.subjects.queues import ASSIGN_PREFIX, assign_subject
from rollq.subjects.trie import Trie

if TYPE_CHECKING:
    from rollq.policy.lanes import Item, QueueLanes

UNTRIED_CHECKED_MAX: Final = 16  # sessions that are looked at for a job that was lost before
EMPTY_POOLS_MIN: Final = 64  # fewer pools without sessions are not worth a sweep
VERDICTS_MAX: Final = 4_096  # programs of which a pool remembers whether all sessions have them
OVERTAKING_MAX: Final = 16  # starts that a part lets pass while it waits for room


class DispatchSession:
    """One open session of a worker: what it may be given, and what it has."""

    __slots__ = (
        "cpu_use",
        "credit",
        "incarnation",
        "kept_for",
        "labels",
        "load",
        "measured",
        "memory_use",
        "name",
        "pools",
        "programs",
        "reserved",
        "room",
        "running",
        "serving",
        "worker_id",
    )

    def __init__(
        self,
        worker_id: WorkerId,
        incarnation: int,
        name: str,
        running: int,
        programs: ProgramSet = ANYTHING,
        *,
        labels: tuple[str, ...] = (),
        resources: Amounts = (),
    ) -> None:
        self.worker_id = worker_id
        self.incarnation = incarnation
        self.name = name
        # Jobs that it may still be given. Granted by the worker, spent by a decision, given back
        # when the group refuses it; 0 for good once the session is closed.
        # Invariant: credit + reserved <= CREDIT_MAX.
        self.credit = 0
        # Attempts that it has, and those that were decided for it. Goes down when an attempt ends,
        # whichever leader decided it.
        self.running = running
        # Of `running`, what was decided and is not applied yet; back in `_on_assigned` or
        # `refused`. Invariant: 0 <= reserved <= running.
        self.reserved = 0
        # `load_of(credit, running)` as its pools were last told: between `mark_changed` and
        # `refresh` it lags behind, so that ten acks in one entry cost one move.
        self.load = 0
        self.pools: list[Pool] = []  # all that it is in, parts too
        self.serving: list[Pool] = []  # of these, those that have a queue and are not measured
        self.measured: list[Pool] = []  # of these, the measured parts
        self.programs = programs
        self.labels = labels
        self.room = Room(resources)
        self.kept_for: Pool | None = None  # the part that it is kept for
        # Of its computer, in thousandths, as it said last.
        self.cpu_use = 0
        self.memory_use = 0

    def can_run(self, need: AnyNeed) -> bool:
        """Whether it could ever run what has this need."""
        if isinstance(need, Need):
            return (
                self.programs.has(need.program)
                and has_labels(need.labels, self.labels)
                and self.room.could_hold(need.resources)
            )
        return self.programs.has(need)

    def update_load(self) -> None:
        """Tell the pools that it serves in what credit, running and free resources have come to."""
        old, new = self.load, load_of(self.credit, self.running)
        if old != new:
            self.load = new
            for pool in self.serving:
                pool.candidates.move(self, old, new)
                if pool.orders:
                    pool.move_in_orders(self, old, new)
        for part in self.measured:
            part.follow(self)


class Pool:
    """Sessions that serve the same queues, and the queues that may have something for them.

    A pool that matches no queue keeps no order among its sessions: a pattern that nobody uses,
    such as a worker's own address, costs nothing while jobs run.
    """

    __slots__ = (
        "_holdings",
        "_homes",
        "_loads",
        "_resource_names",
        "_verdicts",
        "candidates",
        "has_queue",
        "is_ready",
        "keeps",
        "limited_count",
        "need",
        "orders",
        "overtaken_count",
        "part_size",
        "parts",
        "pattern",
        "resources",
        "ring",
        "round_left",
        "served_at",
        "sessions",
        "users",
    )

    def __init__(self, pattern: str, holdings: Holdings, need: AnyNeed = "") -> None:
        self.pattern = pattern  # that all sessions asked for; PINNED_PATTERN: of one pinned queue
        self.need = need  # of a part: what its sessions could ever run; empty: a whole pool
        # Of `sessions`, those that could take a job now, by their load; nobody unless `has_queue`.
        self.candidates = LeastLoad()
        # The same in other orders, for queues that prefer those: made with the first job of one,
        # dropped when no policy asks for them any more.
        self.orders: dict[Preference, Placement] = {}
        self._holdings = holdings
        self._homes: Homes = OrderedDict()  # of sticky queues; one for a pool and its parts
        # By need: the sessions that could ever run it. Made when a job needs something that some
        # lack, dropped with its last queue. Who is in a part is in the whole pool, too.
        self.parts: dict[AnyNeed, Pool] = {}
        self.users = 0  # of a part: queues that are served by it; at 0 it is dropped
        # Sessions that listed their programs; always 0 in a part, where all can run `need`.
        # While it is 0 no job is looked at for its program at all.
        self.limited_count = 0
        # By need: whether every session can run it. Forgotten when a session comes or goes.
        self._verdicts: dict[AnyNeed, bool] = {}
        # Queues in turn. A queue is in the ring or has this pool in its `absent`. One that ran dry
        # leaves when it is visited in vain, so that a queue of one job at a time stays in.
        self.ring: deque[QueueLanes] = deque()
        # Of a round in which each queue has one turn: turns that are left, and jobs of each.
        self.round_left = 0
        self.part_size = 1
        self.is_ready = False  # stands in `Backlog.line` or `pinned_line`, once
        self.served_at = 0  # counts decisions: the last that it had a turn in
        self.has_queue = False  # stays true: queues come back
        self.sessions: dict[DispatchSession, None] = {}  # a set with an order
        # Of a measured part: what an attempt takes, the load of each session as `candidates` was
        # told (0: it is none), starts of others that went before it, and who is kept for it.
        self.resources: Amounts = need.resources if isinstance(need, Need) else ()
        self._resource_names = frozenset(name for name, _ in self.resources)
        self._loads: dict[DispatchSession, int] = {}
        self.overtaken_count = 0
        self.keeps: DispatchSession | None = None

    def admit(self, session: DispatchSession) -> None:
        """A session becomes one of this pool's."""
        self.sessions[session] = None
        self.limited_count += not self.need and session.programs.names is not None
        self._verdicts.clear()
        session.pools.append(self)
        if self.has_queue:
            self._begin(session)
        for need, part in self.parts.items():
            if session.can_run(need):
                part.admit(session)

    def dismiss(self, session: DispatchSession) -> None:
        """A session leaves this pool alone; see `Pools.leave` for leaving all."""
        del self.sessions[session]
        self.limited_count -= not self.need and session.programs.names is not None
        self._verdicts.clear()
        session.pools.remove(self)
        if not self.has_queue:
            return
        if self.resources:
            if self.keeps is session:
                self.stop_keeping()
            session.measured.remove(self)
            self._move(session, self._loads.pop(session), 0)
        else:
            session.serving.remove(self)
            self._move(session, session.load, 0)

    def all_can_run(self, need: AnyNeed) -> bool:
        """Whether every session here can run it; ask only if `limited_count`."""
        verdict = self._verdicts.get(need)
        if verdict is None:
            if len(self._verdicts) >= VERDICTS_MAX:
                self._verdicts.clear()
            verdict = all(session.can_run(need) for session in self.sessions)
            self._verdicts[need] = verdict
        return verdict

    def part(self, need: AnyNeed) -> Pool:
        """The sessions of this pool that could run it, for one more queue."""
        part = self.parts.get(need)
        if part is None:
            part = self.parts[need] = Pool(self.pattern, self._holdings, need)
            part._homes = self._homes
            part.has_queue = True
            for session in self.sessions:
                if session.can_run(need):
                    part.admit(session)
        part.users += 1
        return part

    def drop_part(self, part: Pool) -> None:
        """One queue less is served by a part."""
        part.users -= 1
        if not part.users and self.parts.get(part.need) is part:
            del self.parts[part.need]
            for session in list(part.sessions):
                part.dismiss(session)

    def start_serving(self) -> None:
        """The pool matches a queue."""
        if not self.has_queue:
            self.has_queue = True
            for session in self.sessions:
                self._begin(session)

    # --- who is next

    def pick(self, item: Item, preference: Preference | None) -> DispatchSession:
        """The session for a job of a queue that prefers this. Ask only while there are
        candidates."""
        if preference is None:
            return self.candidates.pick(item)
        order = self.orders.get(preference)
        if order is None:
            order = make_placement(preference, self.candidates, self._homes, self._holdings)
            for session in self.sessions:
                if session in self.candidates:
                    order.move(session, 0, session.load)
            self.orders[preference] = order
        return order.pick(item)

    def untried(
        self, picked: DispatchSession, attempts: Sequence[AttemptOutcome]
    ) -> DispatchSession:
        """The one that was picked for a job, unless it has lost it before and another has credit:
        what kept the job from running there, a full disk for one, may well keep it again. Of a few
        others it is the one with the least load; all of them would cost what the pool has."""
        tried = [outcome.worker_id for outcome in attempts]
        if picked.worker_id not in tried:
            return picked
        few = islice(self.sessions, UNTRIED_CHECKED_MAX)
        others = [
            other for other in few if other.worker_id not in tried and other in self.candidates
        ]
        return min(others, key=attrgetter("load"), default=picked)

    def move_in_orders(self, session: DispatchSession, old: int, new: int) -> None:
        """`Placement.move` in all orders but that of load."""
        for order in self.orders.values():
            order.move(session, old, new)

    def drop_orders(self, used: Iterable[Preference]) -> None:
        """Forget orders that no policy asks for, here and in the parts."""
        kept = frozenset(used)
        for pool in (self, *self.parts.values()):
            pool.orders = {one: order for one, order in pool.orders.items() if one in kept}

    # --- of a measured part

    def follow(self, session: DispatchSession) -> None:
        """The load of a session, its free resources, or whom it is kept for may have changed."""
        new = session.load
        if new:
            free = session.room.free
            for name, amount in self.resources:
                if free.get(name, 0) < amount:
                    new = 0
                    break
            else:
                if session.kept_for is not None and self.competes_with(session.kept_for):
                    new = 0
        old = self._loads[session]
        if old != new:
            self._loads[session] = new
            self.candidates.move(session, old, new)
            if self.orders:
                self.move_in_orders(session, old, new)

    def competes_with(self, part: Pool) -> bool:
        """Whether another takes of the same resources."""
        return part is not self and not self._resource_names.isdisjoint(part._resource_names)

    def count_overtaking(self, session: DispatchSession) -> None:
        """This part has started something on a session: those that could run something there, and
        wait for room, were overtaken by it."""
        for part in session.measured:
            if part.ring and not part.candidates.count and part.competes_with(self):
                part.overtaken_count += 1
                is_late = part.overtaken_count >= OVERTAKING_MAX and part.keeps is None
                if is_late and session.kept_for is None:
                    part.keeps, session.kept_for = session, part

    def stop_keeping(self) -> list[Pool]:
        """Others may have the resources of the session again that was kept for this part; the parts
        that may have something for it."""
        session, self.keeps, self.overtaken_count = self.keeps, None, 0
        if session is None:
            return []
        session.kept_for = None
        for part in session.measured:
            part.follow(session)
        return session.measured

    def _begin(self, session: DispatchSession) -> None:
        if self.resources:
            session.measured.append(self)
            self._loads[session] = 0
            self.follow(session)
        else:
            session.serving.append(self)
            self._move(session, 0, session.load)

    def _move(self, session: DispatchSession, old: int, new: int) -> None:
        self.candidates.move(session, old, new)
        self.move_in_orders(session, old, new)


class Pools:
    """All pools by pattern, and which of them match a queue."""

    __slots__ = ("_by_pattern", "_empty_count", "_holdings", "_trie")

    def __init__(self, holdings: Holdings) -> None:
        self._holdings = holdings
        self._by_pattern: dict[str, Pool] = {}  # whole pools; parts hang in them
        self._trie: Trie[Pool] = Trie()  # the same by what their patterns match
        self._empty_count = 0  # of them, how many have no session; they are swept now and then

    def join(self, session: DispatchSession, patterns: Iterable[str]) -> list[Pool]:
        """Put a session into the pools of its patterns; the pools that are new by this."""
        made: list[Pool] = []
        for pattern in dict.fromkeys(patterns):
            pool = self._by_pattern.get(pattern)
            if pool is None:
                pool = Pool(pattern, self._holdings)
                self._trie.insert(pattern, pool)
                self._by_pattern[pattern] = pool
                made.append(pool)
            elif not pool.sessions:
                self._empty_count -= 1
            pool.admit(session)
        return made

    def leave(self, session: DispatchSession) -> None:
        """Take a session out of all its pools. Empty pools stay a while: workers come back."""
        session.credit = 0
        for pool in list(session.pools):
            pool.dismiss(session)
            if not pool.sessions and self._by_pattern.get(pool.pattern) is pool:
                self._empty_count += 1
        if self._empty_count > EMPTY_POOLS_MIN + len(self._by_pattern) // 2:
            self._sweep()

    def announce(self, session: DispatchSession, programs: ProgramSet) -> list[Pool]:
        """A session can run other programs from now on; all pools that it is in."""
        wholes = [pool for pool in session.pools if not pool.need]
        # Out of everything and in again: `admit` finds the parts, and the counts stay simple. A
        # worker announces when its programs change, not when it runs one.
        for pool in list(session.pools):
            pool.dismiss(session)
        session.programs = programs
        for pool in wholes:
            pool.admit(session)
        return session.pools

    def drop_orders(self, used: Iterable[Preference]) -> None:
        """Forget orders that no policy asks for any more."""
        for pool in self._by_pattern.values():
            pool.drop_orders(used)

    def serving(self, queue: str) -> list[Pool]:
        """The pools whose pattern matches a queue."""
        return self._trie.match(assign_subject(queue))

    def _sweep(self) -> None:
        for pattern, pool in list(self._by_pattern.items()):
            if not pool.sessions:
                del self._by_pattern[pattern]
                self._trie.remove(pattern, pool)
        self._empty_count = 0


def only_queue(pattern: str) -> str | None:
    """The one queue that a pattern can match; None if it has wildcards."""
    tokens = parse_pattern(pattern)
    if ANY_ONE in tokens or ANY_REST in tokens or tokens[:2] != ASSIGN_PREFIX:
        return None
    return ".".join(tokens[2:])

"""Worker sessions and the pools they form.

A pool is all open sessions that asked for one pattern. A queue is served by the pools whose
patterns match it: their number depends on the wildcards of its subject, not on the number of
workers, even if every worker has a pattern of its own besides the shared ones. A session is in as
many pools as it has patterns, with one credit for all of them.

Not every session can run every job. For a need that some lack, the pool has a *part*: a pool of the
sessions that could ever run it. A part for labels or resources is created with the first job that
needs them; one for a program when the pool meets a job whose program some of its sessions lack. So
a session is in one part for each need with jobs that it could run, and a decision never examines a
session that could not run the job.

A part whose need names resources is *measured*: its candidates are the sessions with credit that
have enough resources free now. Small needs could keep a large one from ever finding enough free at
once. So when a part waits for room, and OVERTAKING_MAX starts of other parts took the same
resources of workers that it waits for, the worker of the last such start is reserved for it: other
parts get nothing of those resources until the part had its job, or has none. At most one worker per
part, and one part per worker.

Sessions and credits exist on the leader only and are dropped with its leadership.
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
from rollq.policy.holdings import BlobHolders
from rollq.policy.needs import ANYTHING, AnyNeed, Need, ProgramSet, Room, has_labels
from rollq.policy.placement import Homes, LeastLoad, Placement, Preference, load_of, make_placement
from rollq.subjects.grammar import ANY_ONE, ANY_REST, parse_pattern
from rollq.subjects.queues import ASSIGN_PREFIX, assign_subject
from rollq.subjects.trie import Trie

if TYPE_CHECKING:
    from rollq.policy.lanes import Item, QueueLanes

UNTRIED_CHECKED_MAX: Final = 16  # sessions that are checked for a job whose attempt was lost
EMPTY_POOLS_MIN: Final = 64  # fewer pools without sessions are not worth a sweep
VERDICTS_MAX: Final = 4_096  # cached verdicts of `all_can_run`
OVERTAKING_MAX: Final = 16  # starts of others until a worker is reserved for a part


class DispatchSession:
    """One open session of a worker: its credit, its load, and what it can run."""

    __slots__ = (
        "cpu_use",
        "credit",
        "incarnation",
        "labels",
        "load",
        "measured",
        "memory_use",
        "name",
        "pools",
        "programs",
        "reserved",
        "reserved_for",
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
        # Granted by the worker, spent by a decision, returned when the group refuses it; 0 once the
        # session is closed. Invariant: 0 <= credit, credit + reserved <= CREDIT_MAX.
        self.credit = 0
        # Its attempts, and those decided for it. Decreases when an attempt ends, whichever leader
        # decided it.
        self.running = running
        # The part of `running` that is decided and not applied yet; released by `_on_assigned` or
        # `refused`. Invariant: 0 <= reserved <= running.
        self.reserved = 0
        # `load_of(credit, running)` as of the last update of its pools: between `mark_changed` and
        # `refresh` it lags behind, so that ten acks in one entry cost one move.
        self.load = 0
        self.pools: list[Pool] = []  # all pools that it is in, including parts
        self.serving: list[Pool] = []  # of `pools`, those that have a queue and are not measured
        self.measured: list[Pool] = []  # of `pools`, the measured parts
        self.programs = programs
        self.labels = labels
        self.room = Room(resources)
        self.reserved_for: Pool | None = None  # the part that it is reserved for
        # Of its host, in thousandths, as last reported.
        self.cpu_use = 0
        self.memory_use = 0

    def can_run(self, need: AnyNeed) -> bool:
        """Whether it could ever run a job of this need."""
        if isinstance(need, Need):
            return (
                self.programs.has(need.program)
                and has_labels(need.labels, self.labels)
                and self.room.could_hold(need.resources)
            )
        return self.programs.has(need)

    def update_load(self) -> None:
        """Update the pools it serves in after a change of credit, running or free resources."""
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
    """Sessions that serve the same queues, and a ring of those queues.

    A pool that matches no queue keeps no order of its sessions: a pattern without a queue, such as
    a worker's own address, costs nothing while jobs run.
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
        "limited_count",
        "need",
        "orders",
        "overtaken_count",
        "part_size",
        "parts",
        "pattern",
        "reserved_session",
        "resources",
        "ring",
        "round_left",
        "served_at",
        "sessions",
        "users",
    )

    def __init__(self, pattern: str, holdings: BlobHolders, need: AnyNeed = "") -> None:
        self.pattern = pattern  # requested by all its sessions; PINNED_PATTERN: of one pinned queue
        self.need = need  # of a part: the need that its sessions could run; empty: a whole pool
        # The sessions that can take a job now, by load; empty unless `has_queue`.
        self.candidates = LeastLoad()
        # The candidates in other orders, for queues that prefer those: created with the first job
        # of one, dropped when no policy uses it any more.
        self.orders: dict[Preference, Placement] = {}
        self._holdings = holdings
        self._homes: Homes = OrderedDict()  # for sticky queues; shared by a pool and its parts
        # By need: the sessions that could run it. Created when a job needs something that some
        # lack, dropped with its last queue. The sessions of a part are in the whole pool, too.
        self.parts: dict[AnyNeed, Pool] = {}
        self.users = 0  # of a part: the queues that it serves; at 0 it is dropped
        # Sessions that listed their programs; always 0 in a part, where all can run `need`. While
        # it is 0, programs of jobs are not checked.
        self.limited_count = 0
        # By need: whether every session can run it. Cleared when a session joins or leaves.
        self._verdicts: dict[AnyNeed, bool] = {}
        # Queues, round-robin. A queue is in the ring or has this pool in its `absent`. An empty
        # queue is removed when a visit finds nothing, so a queue of one job at a time stays in.
        self.ring: deque[QueueLanes] = deque()
        # In a round in which each queue has one turn: the turns left, and the jobs of each.
        self.round_left = 0
        self.part_size = 1
        self.is_ready = False  # is in `Backlog.ready_pools` or `ready_pinned_pools`
        self.served_at = 0  # number of the decision that served it last
        self.has_queue = False  # never reset, because queues come back
        self.sessions: dict[DispatchSession, None] = {}  # an ordered set
        # Of a measured part: what an attempt takes, the load of each session as in `candidates` (0:
        # no candidate), the starts that overtook it, and the session reserved for it.
        self.resources: Amounts = need.resources if isinstance(need, Need) else ()
        self._resource_names = frozenset(name for name, _ in self.resources)
        self._loads: dict[DispatchSession, int] = {}
        self.overtaken_count = 0
        self.reserved_session: DispatchSession | None = None

    def admit(self, session: DispatchSession) -> None:
        """Add a session."""
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
        """Remove a session from this pool only; `Pools.leave` removes it from all."""
        del self.sessions[session]
        self.limited_count -= not self.need and session.programs.names is not None
        self._verdicts.clear()
        session.pools.remove(self)
        if not self.has_queue:
            return
        if self.resources:
            if self.reserved_session is session:
                self.release_reserved()
            session.measured.remove(self)
            self._move(session, self._loads.pop(session), 0)
        else:
            session.serving.remove(self)
            self._move(session, session.load, 0)

    def all_can_run(self, need: AnyNeed) -> bool:
        """Whether every session can run it; call only if `limited_count`."""
        verdict = self._verdicts.get(need)
        if verdict is None:
            if len(self._verdicts) >= VERDICTS_MAX:
                self._verdicts.clear()
            verdict = all(session.can_run(need) for session in self.sessions)
            self._verdicts[need] = verdict
        return verdict

    def part(self, need: AnyNeed) -> Pool:
        """The part for a need, with one more queue that uses it."""
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
        """A part has one queue less."""
        part.users -= 1
        if not part.users and self.parts.get(part.need) is part:
            del self.parts[part.need]
            for session in list(part.sessions):
                part.dismiss(session)

    def start_serving(self) -> None:
        """The pool matches a queue: start to order its sessions."""
        if not self.has_queue:
            self.has_queue = True
            for session in self.sessions:
                self._begin(session)

    # --- placement

    def pick(self, item: Item, preference: Preference | None) -> DispatchSession:
        """The session for an item of a queue with this preference. Call only if there are
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

    def prefer_untried(
        self, picked: DispatchSession, attempts: Sequence[AttemptOutcome]
    ) -> DispatchSession:
        """The picked session, unless it lost this job before and another candidate exists: the
        cause, such as a full disk, may well persist. Among a few others the least loaded; comparing
        all would be O(sessions)."""
        tried = [outcome.worker_id for outcome in attempts]
        if picked.worker_id not in tried:
            return picked
        few = islice(self.sessions, UNTRIED_CHECKED_MAX)
        others = [
            other for other in few if other.worker_id not in tried and other in self.candidates
        ]
        return min(others, key=attrgetter("load"), default=picked)

    def move_in_orders(self, session: DispatchSession, old: int, new: int) -> None:
        """`Placement.move` in all orders but that by load."""
        for order in self.orders.values():
            order.move(session, old, new)

    def drop_orders(self, used: Iterable[Preference]) -> None:
        """Drop orders that no policy uses, here and in the parts."""
        kept = frozenset(used)
        for pool in (self, *self.parts.values()):
            pool.orders = {one: order for one, order in pool.orders.items() if one in kept}

    # --- of a measured part

    def follow(self, session: DispatchSession) -> None:
        """Update the candidate of a measured part after its load, free resources or reservation
        changed."""
        new = session.load
        if new:
            free = session.room.free
            for name, amount in self.resources:
                if free.get(name, 0) < amount:
                    new = 0
                    break
            else:
                if session.reserved_for is not None and self.competes_with(session.reserved_for):
                    new = 0
        old = self._loads[session]
        if old != new:
            self._loads[session] = new
            self.candidates.move(session, old, new)
            if self.orders:
                self.move_in_orders(session, old, new)

    def competes_with(self, part: Pool) -> bool:
        """Whether another part takes some of the same resources."""
        return part is not self and not self._resource_names.isdisjoint(part._resource_names)

    def count_overtaking(self, session: DispatchSession) -> None:
        """This part has started a job on a session: count it against the measured parts that wait
        for room there."""
        for part in session.measured:
            if part.ring and not part.candidates.count and part.competes_with(self):
                part.overtaken_count += 1
                is_late = part.overtaken_count >= OVERTAKING_MAX and part.reserved_session is None
                if is_late and session.reserved_for is None:
                    part.reserved_session, session.reserved_for = session, part

    def release_reserved(self) -> list[Pool]:
        """Release the session that is reserved for this part; returns the parts that may use it
        now."""
        session, self.reserved_session, self.overtaken_count = self.reserved_session, None, 0
        if session is None:
            return []
        session.reserved_for = None
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
    """All pools by pattern, and a trie of their patterns."""

    __slots__ = ("_by_pattern", "_empty_count", "_holdings", "_trie")

    def __init__(self, holdings: BlobHolders) -> None:
        self._holdings = holdings
        self._by_pattern: dict[str, Pool] = {}  # whole pools, each of which owns its parts
        self._trie: Trie[Pool] = Trie()  # the same pools, by the subjects their patterns match
        self._empty_count = 0  # of `_by_pattern`, pools without sessions; swept now and then

    def join(self, session: DispatchSession, patterns: Iterable[str]) -> list[Pool]:
        """Add a session to the pools of its patterns; returns the pools that were created."""
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
        """Remove a session from all its pools. Empty pools stay a while: workers come back."""
        session.credit = 0
        for pool in list(session.pools):
            pool.dismiss(session)
            if not pool.sessions and self._by_pattern.get(pool.pattern) is pool:
                self._empty_count += 1
        if self._empty_count > EMPTY_POOLS_MIN + len(self._by_pattern) // 2:
            self._sweep()

    def announce(self, session: DispatchSession, programs: ProgramSet) -> list[Pool]:
        """Replace the programs that a session can run; returns all pools that it is in."""
        wholes = [pool for pool in session.pools if not pool.need]
        # Remove and add again: `admit` finds the parts, and the counts stay simple. A worker
        # announces when its programs change, not when it runs one.
        for pool in list(session.pools):
            pool.dismiss(session)
        session.programs = programs
        for pool in wholes:
            pool.admit(session)
        return session.pools

    def drop_orders(self, used: Iterable[Preference]) -> None:
        """Drop orders that no policy uses."""
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

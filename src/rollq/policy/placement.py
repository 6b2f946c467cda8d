"""Which worker of a pool gets the next job.

One class per placement, all behind `Placement`. It is notified of every change of a session's load
and picks a session that can take a job now; both are O(1) in sessions. Ties go to the session that
has waited longest, so a choice depends only on the history of calls.

Every pool orders its candidates by load (`LeastLoad`); other orders are kept beside that, where a
queue prefers them (`preferences`).
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

from rollq.base.ids import ClientId
from rollq.base.limits import CREDIT_MAX
from rollq.base.needs import SCORES, Amounts

if TYPE_CHECKING:
    from rollq.policy.holdings import BlobHolders
    from rollq.policy.lanes import Item
    from rollq.policy.pools import DispatchSession

RUNNING_SPAN: Final = 1 << 20  # more attempts than one worker can hold
SLACK_MIN: Final = 64  # fewer empty buckets are not worth a sweep
STICKY_KEYS_MAX: Final = 65_536  # keys per pool; the oldest are evicted
COMPARED_MAX: Final = 8  # sessions that are scored, besides those that hold files

# The session that the last job of each key went to.
Homes: TypeAlias = "OrderedDict[str | tuple[ClientId, str], DispatchSession]"


class Preference(NamedTuple):
    """How a queue chooses a worker, if not by load."""

    placement: str  # base.needs.PLACEMENTS
    weights: Amounts = ()  # of the placement "score"


class Placement(Protocol):
    """An order of the sessions that can take a job now.

    `old` and `new` are `DispatchSession.load` before and after a change: lower is better; 0: the
    session cannot take a job now and is not picked.
    """

    def move(self, session: DispatchSession, old: int, new: int) -> None:
        """The load of a session changed; the other load is 0 when it joins or leaves."""

    def pick(self, item: Item) -> DispatchSession:
        """The session for this item. Call only if there is a candidate."""


def load_of(credit: int, running: int) -> int:
    """Most credit first, then fewest running, as one number; 0: no credit."""
    return (CREDIT_MAX + 1 - credit) * RUNNING_SPAN + running if credit else 0


class LeastLoad:
    """The lowest load first.

    Sessions of equal load are in one bucket, the one that has waited longest first; a heap orders
    the buckets. The number of buckets is that of distinct loads, which does not grow with the
    number of sessions: a change costs two dict operations, and a heap push only for a new load.
    """

    __slots__ = ("_best", "_buckets", "count")

    def __init__(self) -> None:
        # By load. Empty buckets stay, because the same few loads recur; `pick` and `_open_bucket`
        # remove them.
        self._buckets: dict[int, OrderedDict[DispatchSession, None]] = {}
        self._best: list[int] = []  # heap of exactly the keys of `_buckets`, empty ones too
        self.count = 0  # sessions in all buckets; a field, because every decision reads it

    def __contains__(self, session: DispatchSession) -> bool:
        return session in self._buckets.get(session.load, ())

    def move(self, session: DispatchSession, old: int, new: int) -> None:
        if old:
            del self._buckets[old][session]
            self.count -= 1
        if new:
            bucket = self._buckets.get(new)
            if bucket is None:
                bucket = self._open_bucket(new)
            bucket[session] = None
            self.count += 1

    def pick(self, item: Item) -> DispatchSession:
        buckets, best = self._buckets, self._best
        bucket = buckets[best[0]]
        while not bucket:
            del buckets[heapq.heappop(best)]
            bucket = buckets[best[0]]
        return next(iter(bucket))

    def _open_bucket(self, load: int) -> OrderedDict[DispatchSession, None]:
        if len(self._buckets) > 2 * self.count + SLACK_MIN:
            self._buckets = {known: bucket for known, bucket in self._buckets.items() if bucket}
            self._best = sorted(self._buckets)
        bucket = self._buckets[load] = OrderedDict()
        heapq.heappush(self._best, load)
        return bucket


class RoundRobin:
    """Sessions with credit in turn."""

    __slots__ = ("_turns",)

    def __init__(self) -> None:
        self._turns: OrderedDict[DispatchSession, None] = OrderedDict()  # the next one first

    def move(self, session: DispatchSession, old: int, new: int) -> None:
        if not new:
            self._turns.pop(session, None)
        elif not old:
            self._turns[session] = None

    def pick(self, item: Item) -> DispatchSession:
        session = next(iter(self._turns))
        self._turns.move_to_end(session)
        return session


class Sticky:
    """Jobs of one key go to the same worker while it can take them, else to the least loaded. A job
    without a key uses client and program.

    For programs that warm up: the worker that ran one last has its files and caches.
    """

    __slots__ = ("_candidates", "_homes")

    def __init__(self, candidates: LeastLoad, homes: Homes) -> None:
        self._candidates = candidates
        # By key, least recently used first. May name sessions that are closed or have left the
        # pool; `pick` checks.
        self._homes = homes

    def move(self, session: DispatchSession, old: int, new: int) -> None:
        """Nothing to update: `candidates` are moved by their pool."""

    def pick(self, item: Item) -> DispatchSession:
        key = item.options.sticky_key or (item.client.client_id, item.exec_name)
        home = self._homes.get(key)
        # A closed session has no credit; a session that cannot run the job is no candidate.
        if home is None or not home.credit or home not in self._candidates:
            home = self._homes[key] = self._candidates.pick(item)
            if len(self._homes) > STICKY_KEYS_MAX:
                self._homes.popitem(last=False)
        self._homes.move_to_end(key)
        return home


class Locality:
    """The candidate that holds most bytes of the job's files, if any holds some; else the least
    loaded. A job never waits for a worker that holds its files."""

    __slots__ = ("_candidates", "_holdings")

    def __init__(self, candidates: LeastLoad, holdings: BlobHolders) -> None:
        self._candidates = candidates
        self._holdings = holdings

    def move(self, session: DispatchSession, old: int, new: int) -> None:
        """Nothing to update: `candidates` are moved by their pool."""

    def pick(self, item: Item) -> DispatchSession:
        held = self._holdings.held_bytes(item)
        near = [
            (-count, session.load, place, session)
            for place, (session, count) in enumerate(self._holdings.sessions(held))
            if session in self._candidates
        ]
        return min(near)[-1] if near else self._candidates.pick(item)


class Score:
    """The highest weighted sum of figures, each from 0 (bad) to 1000, among a few sessions: those
    that were compared least recently, and those that hold files of the job. So the cost does not
    grow with the number of workers, and the choice is nearly as good as the best of all."""

    __slots__ = ("_candidates", "_holdings", "_turns", "_weights")

    def __init__(self, candidates: LeastLoad, holdings: BlobHolders, weights: Amounts) -> None:
        self._candidates = candidates
        self._holdings = holdings
        given = dict(weights) or dict.fromkeys(SCORES, 1)
        self._weights = [given.get(name, 0) for name in SCORES]
        # the next to be compared first
        self._turns: OrderedDict[DispatchSession, None] = OrderedDict()

    def move(self, session: DispatchSession, old: int, new: int) -> None:
        if not new:
            self._turns.pop(session, None)
        elif not old:
            self._turns[session] = None

    def pick(self, item: Item) -> DispatchSession:
        few = list(islice(self._turns, COMPARED_MAX))
        for session in few:
            self._turns.move_to_end(session)
        held = self._holdings.held_bytes(item) if self._weights[-1] else {}
        near = [one for one, _ in self._holdings.sessions(held) if one in self._candidates]
        most = max(held.values(), default=0)
        return max(
            dict.fromkeys((*few, *near)),  # the first of equals wins
            key=lambda session: self._score(session, held.get(session.worker_id, 0), most),
        )

    def _score(self, session: DispatchSession, held: int, most: int) -> int:
        credit, running, cpu, memory, near = self._weights
        return (
            credit * (1_000 * session.credit // (session.credit + session.running))
            + running * (1_000 // (1 + session.running))
            + cpu * (1_000 - session.cpu_use)
            + memory * (1_000 - session.memory_use)
            + (near * (1_000 * held // most) if most else 0)
        )


def make_placement(
    preference: Preference, candidates: LeastLoad, homes: Homes, holdings: BlobHolders
) -> Placement:
    """A new, empty order of a pool's candidates, for queues that prefer it."""
    if preference.placement == "round-robin":
        return RoundRobin()
    if preference.placement == "sticky":
        return Sticky(candidates, homes)
    if preference.placement == "locality":
        return Locality(candidates, holdings)
    return Score(candidates, holdings, preference.weights)

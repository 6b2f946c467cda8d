"""Which worker of a pool gets the next job.

One class a policy, all behind `Placement`. A policy is told of every change of a session's load
and is asked for one session with credit; both cost the same whatever the number of
sessions. Ties go to the session that has waited longest, so the choice depends on the history of
calls alone.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Protocol

from rollq.base.errors import ErrorCode, LocalError
from rollq.base.ids import ClientId
from rollq.base.limits import CREDIT_MAX

if TYPE_CHECKING:
    from rollq.policy.lanes import Item
    from rollq.policy.pools import DispatchSession

RUNNING_SPAN: Final = 1 << 20  # more attempts than one worker can hold
SLACK_MIN: Final = 64  # fewer empty buckets are not worth a sweep
STICKY_PAIRS_MAX: Final = 65_536  # remembered (client, exec) pairs a pool; the oldest go first


class Placement(Protocol):
    """Sessions with credit, and which of them is next.

    `old` and `new` are `DispatchSession.load` before and after a change: the lower the better; 0
    for a session without credit, which is not chosen.
    """

    @property
    def count(self) -> int:
        """How many sessions have credit."""

    def move(self, session: DispatchSession, old: int, new: int) -> None:
        """The load of a session changed; for one that comes or leaves the other load is 0."""

    def pick(self, item: Item) -> DispatchSession:
        """The session for this job. Ask only while there is one with credit."""


def load_of(credit: int, running: int) -> int:
    """Most credit first, then fewest running, as one number; 0: no credit at all."""
    return (CREDIT_MAX + 1 - credit) * RUNNING_SPAN + running if credit else 0


class LeastLoad:
    """The lowest load first.

    Sessions of equal load lie in one bucket, the one that has waited longest first; a heap knows
    the best bucket. There are as many buckets as different loads, which does not grow with the
    number of sessions: a change costs two dict operations, and a push only for a load that is new.
    """

    __slots__ = ("_best", "_buckets", "count")

    def __init__(self) -> None:
        # By load. Buckets stay when they run empty, because the same few loads come again and
        # again; `pick` and `_open_bucket` remove them.
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
    """Sessions with credit take turns."""

    __slots__ = ("_turns",)

    def __init__(self) -> None:
        self._turns: OrderedDict[DispatchSession, None] = OrderedDict()  # the next one first

    @property
    def count(self) -> int:
        return len(self._turns)

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
    """The same (client, exec) to the same worker while it has credit, else the least loaded.

    For programs that warm something up: the worker that ran it last has its files and caches.
    """

    __slots__ = ("_homes", "_others")

    def __init__(self) -> None:
        # Who ran a pair last; the pair that was used longest ago first. May name sessions that
        # are closed or have left the pool: `pick` asks.
        self._homes: OrderedDict[tuple[ClientId, str], DispatchSession] = OrderedDict()
        self._others = LeastLoad()  # all sessions with credit

    @property
    def count(self) -> int:
        return self._others.count

    def move(self, session: DispatchSession, old: int, new: int) -> None:
        self._others.move(session, old, new)

    def pick(self, item: Item) -> DispatchSession:
        pair = (item.client.client_id, item.exec_name)
        home = self._homes.get(pair)
        # A closed session has no credit; one that lacks the program now is in another pool.
        if home is None or not home.credit or home not in self._others:
            home = self._homes[pair] = self._others.pick(item)
            if len(self._homes) > STICKY_PAIRS_MAX:
                self._homes.popitem(last=False)
        self._homes.move_to_end(pair)
        return home


PLACEMENTS: Final[dict[str, type[LeastLoad] | type[RoundRobin] | type[Sticky]]] = {
    "least-load": LeastLoad,
    "round-robin": RoundRobin,
    "sticky": Sticky,
}


def make_placement(name: str) -> Placement:
    """A new placement of the policy with this name.

    Raises:
        LocalError: BAD_OPTIONS, if there is no such policy.
    """
    kind = PLACEMENTS.get(name)
    if kind is None:
        known = ", ".join(PLACEMENTS)
        raise LocalError(ErrorCode.BAD_OPTIONS, f"no placement policy {name!r}", f"one of: {known}")
    return kind()

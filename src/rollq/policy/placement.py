"""Which worker of a pool gets the next job.

One class a policy, all behind `Placement`. A policy is told of every change of a session's credit
or load and is asked for one session with credit; both cost the same whatever the number of
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
    from rollq.policy.pools import Session

RUNNING_SPAN: Final = 1 << 20  # more attempts than one worker can hold
SLACK_MIN: Final = 64  # empty buckets that are not worth a sweep
STICKY_PAIRS_MAX: Final = 65_536  # remembered (client, exec) pairs a pool; the oldest go first


class Placement(Protocol):
    """Sessions with credit, and which of them is next."""

    def __bool__(self) -> bool:
        """Whether any session has credit."""

    def update(self, session: Session) -> None:
        """The credit or the load of a session changed; without credit it is not chosen."""

    def pick(self, client_id: ClientId, exec_name: str) -> Session:
        """The session for this job. Ask only while there is one with credit."""


class LeastLoad:
    """Most credit first, then fewest running.

    Sessions lie in buckets by (credit, running); a heap knows the best bucket. There are as many
    buckets as different loads, which does not grow with the number of sessions.
    """

    __slots__ = ("_best", "_buckets", "_keys")

    def __init__(self) -> None:
        self._keys: dict[Session, int] = {}
        self._buckets: dict[int, OrderedDict[Session, None]] = {}
        self._best: list[int] = []  # heap of the keys of _buckets

    def __bool__(self) -> bool:
        return bool(self._keys)

    def update(self, session: Session) -> None:
        credit = session.credit
        old = self._keys.get(session)
        if not credit:
            if old is not None:
                del self._keys[session], self._buckets[old][session]
            return
        key = (CREDIT_MAX - credit) * RUNNING_SPAN + session.running
        if key == old:
            return  # it keeps its place among its equals
        if old is not None:
            del self._buckets[old][session]
        self._keys[session] = key
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._open_bucket(key)
        bucket[session] = None

    def pick(self, client_id: ClientId, exec_name: str) -> Session:
        buckets, best = self._buckets, self._best
        bucket = buckets[best[0]]
        while not bucket:
            del buckets[heapq.heappop(best)]
            bucket = buckets[best[0]]
        return next(iter(bucket))

    def _open_bucket(self, key: int) -> OrderedDict[Session, None]:
        if len(self._buckets) > 2 * len(self._keys) + SLACK_MIN:
            self._buckets = {known: bucket for known, bucket in self._buckets.items() if bucket}
            self._best = sorted(self._buckets)
        bucket = self._buckets[key] = OrderedDict()
        heapq.heappush(self._best, key)
        return bucket


class RoundRobin:
    """Sessions with credit take turns."""

    __slots__ = ("_turns",)

    def __init__(self) -> None:
        self._turns: OrderedDict[Session, None] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._turns)

    def update(self, session: Session) -> None:
        if not session.credit:
            self._turns.pop(session, None)
        elif session not in self._turns:
            self._turns[session] = None

    def pick(self, client_id: ClientId, exec_name: str) -> Session:
        session = next(iter(self._turns))
        self._turns.move_to_end(session)
        return session


class Sticky:
    """The same (client, exec) to the same worker while it has credit, else the least loaded.

    For programs that warm something up: the worker that ran it last has its files and caches.
    """

    __slots__ = ("_homes", "_others")

    def __init__(self) -> None:
        self._homes: OrderedDict[tuple[ClientId, str], Session] = OrderedDict()
        self._others = LeastLoad()

    def __bool__(self) -> bool:
        return bool(self._others)

    def update(self, session: Session) -> None:
        self._others.update(session)

    def pick(self, client_id: ClientId, exec_name: str) -> Session:
        pair = (client_id, exec_name)
        home = self._homes.get(pair)
        if home is None or not home.credit:  # a closed session has no credit
            home = self._homes[pair] = self._others.pick(client_id, exec_name)
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

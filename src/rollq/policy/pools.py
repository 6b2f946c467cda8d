"""Worker sessions and the pools they form.

A pool is all open sessions that asked for one pattern. A queue is served by the pools whose
patterns match it: how many those are depends on the wildcards of its subject, not on the number of
workers, even if every worker has a pattern of its own besides the shared ones. A session is in as
many pools as it has patterns, with one credit for all of them.

Sessions and credits exist on the leader only and die with its leadership.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from rollq.base.ids import WorkerId
from rollq.grid.state import AttemptOutcome
from rollq.policy.placement import Placement, load_of, make_placement
from rollq.subjects.grammar import ANY_ONE, ANY_REST, parse_pattern
from rollq.subjects.queues import ASSIGN_PREFIX, assign_subject
from rollq.subjects.trie import Trie

if TYPE_CHECKING:
    from rollq.policy.lanes import QueueLanes

UNTRIED_LOOKS_MAX: Final = 16  # sessions that are looked at for a job that was lost before
DESERTED_MIN: Final = 64  # pools without sessions that are not worth a sweep


class Session:
    """One open session of a worker: what it may be given, and what it has."""

    __slots__ = (
        "credit",
        "incarnation",
        "load",
        "name",
        "pools",
        "reserved",
        "running",
        "serving",
        "worker_id",
    )

    def __init__(self, worker_id: WorkerId, incarnation: int, name: str, running: int) -> None:
        self.worker_id = worker_id
        self.incarnation = incarnation
        self.name = name
        self.credit = 0
        self.running = running  # attempts that it has, or will have when decisions are applied
        self.reserved = 0  # of these, decided but not applied yet
        self.load = 0  # as its pools know it; see `weigh`
        self.pools: list[Pool] = []  # all of its pools
        self.serving: list[Pool] = []  # of these, the ones that have a queue at all

    def weigh(self) -> None:
        """Tell the pools that it serves in what credit and running have come to."""
        old, new = self.load, load_of(self.credit, self.running)
        if old != new:
            self.load = new
            for pool in self.serving:
                pool.crew.move(self, old, new)


class Pool:
    """Sessions that serve the same queues, and the queues that may have something for them.

    A pool that matches no queue keeps no order among its sessions: a pattern that nobody uses,
    such as a worker's own address, costs nothing while jobs run.
    """

    __slots__ = ("crew", "has_queue", "is_ready", "pattern", "ring", "sessions")

    def __init__(self, pattern: str, crew: Placement) -> None:
        self.pattern = pattern
        self.crew = crew
        self.ring: deque[QueueLanes] = deque()  # queues take turns; idle ones leave when visited
        self.is_ready = False  # stands in the line of pools that are served
        self.has_queue = False
        self.sessions: dict[Session, None] = {}

    def admit(self, session: Session) -> None:
        """A session becomes one of this pool's."""
        self.sessions[session] = None
        session.pools.append(self)
        if self.has_queue:
            session.serving.append(self)
            self.crew.move(session, 0, session.load)

    def dismiss(self, session: Session) -> None:
        """A session leaves this pool alone; see `Pools.leave` for leaving all."""
        del self.sessions[session]
        session.pools.remove(self)
        if self.has_queue:
            session.serving.remove(self)
            self.crew.move(session, session.load, 0)

    def untried(self, picked: Session, attempts: Sequence[AttemptOutcome]) -> Session:
        """The one that was picked for a job, unless it has lost it before and another could take it
        at once: what kept it from running there, a full disk for one, may well keep it again. Of a
        few others it is the one with the least load."""
        tried = [outcome.worker_id for outcome in attempts]
        if picked.worker_id not in tried:
            return picked
        few = islice(self.sessions, UNTRIED_LOOKS_MAX)
        others = [other for other in few if other.credit and other.worker_id not in tried]
        return min(others, key=attrgetter("load"), default=picked)

    def engage(self) -> None:
        """The pool matches a queue."""
        if not self.has_queue:
            self.has_queue = True
            for session in self.sessions:
                session.serving.append(self)
                self.crew.move(session, 0, session.load)


class Pools:
    """All pools by pattern, and which of them match a queue."""

    __slots__ = ("_by_pattern", "_deserted_count", "_placement", "_trie")

    def __init__(self, placement: str) -> None:
        make_placement(placement)  # a wrong name is refused now, not at the first worker
        self._placement = placement
        self._by_pattern: dict[str, Pool] = {}
        self._trie: Trie[Pool] = Trie()
        self._deserted_count = 0

    def join(self, session: Session, patterns: Iterable[str]) -> list[Pool]:
        """Put a session into the pools of its patterns; the pools that are new by this."""
        made: list[Pool] = []
        for pattern in dict.fromkeys(patterns):
            pool = self._by_pattern.get(pattern)
            if pool is None:
                pool = Pool(pattern, make_placement(self._placement))
                self._trie.insert(pattern, pool)
                self._by_pattern[pattern] = pool
                made.append(pool)
            elif not pool.sessions:
                self._deserted_count -= 1
            pool.admit(session)
        return made

    def leave(self, session: Session) -> None:
        """Take a session out of all its pools. Deserted ones stay a while: workers come back."""
        session.credit = 0
        for pool in list(session.pools):
            pool.dismiss(session)
            if not pool.sessions and self._by_pattern.get(pool.pattern) is pool:
                self._deserted_count += 1
        if self._deserted_count > DESERTED_MIN + len(self._by_pattern) // 2:
            self._sweep()

    def serving(self, queue: str) -> list[Pool]:
        """The pools whose pattern matches a queue."""
        return self._trie.match(assign_subject(queue))

    def _sweep(self) -> None:
        for pattern, pool in list(self._by_pattern.items()):
            if not pool.sessions:
                del self._by_pattern[pattern]
                self._trie.remove(pattern, pool)
        self._deserted_count = 0


def only_queue(pattern: str) -> str | None:
    """The one queue that a pattern can match; None if it has wildcards."""
    tokens = parse_pattern(pattern)
    if ANY_ONE in tokens or ANY_REST in tokens or tokens[:2] != ASSIGN_PREFIX:
        return None
    return ".".join(tokens[2:])

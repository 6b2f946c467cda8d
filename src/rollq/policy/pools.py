"""Worker sessions and the pools they form.

A pool is all open sessions that asked for one pattern. A queue is served by the pools whose
patterns match it: how many those are depends on the wildcards of its subject, not on the number of
workers, even if every worker has a pattern of its own besides the shared ones. A session is in as
many pools as it has patterns, with one credit for all of them.

Sessions and credits exist on the leader only and die with its leadership.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from rollq.base.ids import WorkerId
from rollq.policy.placement import Placement, make_placement
from rollq.subjects.grammar import ANY_ONE, ANY_REST, parse_pattern
from rollq.subjects.queues import ASSIGN_PREFIX, assign_subject
from rollq.subjects.trie import Trie

if TYPE_CHECKING:
    from rollq.policy.lanes import QueueLanes

DESERTED_MIN: Final = 64  # pools without sessions that are not worth a sweep


class Session:
    """One open session of a worker: what it may be given, and what it has."""

    __slots__ = ("credit", "incarnation", "name", "pools", "reserved", "running", "worker_id")

    def __init__(self, worker_id: WorkerId, incarnation: int, name: str, running: int) -> None:
        self.worker_id = worker_id
        self.incarnation = incarnation
        self.name = name
        self.credit = 0
        self.running = running  # attempts that it has, or will have when decisions are applied
        self.reserved = 0  # of these, decided but not applied yet
        self.pools: list[Pool] = []


class Pool:
    """Sessions that serve the same queues, and the queues that may have something for them."""

    __slots__ = ("crew", "is_ready", "pattern", "ring", "session_count")

    def __init__(self, pattern: str, crew: Placement) -> None:
        self.pattern = pattern
        self.crew = crew
        self.ring: deque[QueueLanes] = deque()  # queues take turns; idle ones leave when visited
        self.is_ready = False  # stands in the line of pools that are served
        self.session_count = 0

    def admit(self, session: Session) -> None:
        """A session becomes one of this pool's."""
        session.pools.append(self)
        self.session_count += 1
        self.crew.update(session)


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
            elif not pool.session_count:
                self._deserted_count -= 1
            pool.admit(session)
        return made

    def leave(self, session: Session) -> None:
        """Take a session out of all its pools. Deserted ones stay a while: workers come back."""
        session.credit = 0
        for pool in session.pools:
            pool.crew.update(session)
            pool.session_count -= 1
            if not pool.session_count and self._by_pattern.get(pool.pattern) is pool:
                self._deserted_count += 1
        session.pools.clear()
        if self._deserted_count > DESERTED_MIN + len(self._by_pattern) // 2:
            self._sweep()

    def serving(self, queue: str) -> list[Pool]:
        """The pools whose pattern matches a queue."""
        return self._trie.match(assign_subject(queue))

    def _sweep(self) -> None:
        for pattern, pool in list(self._by_pattern.items()):
            if not pool.session_count:
                del self._by_pattern[pattern]
                self._trie.remove(pattern, pool)
        self._deserted_count = 0


def only_queue(pattern: str) -> str | None:
    """The one queue that a pattern can match; None if it has wildcards."""
    tokens = parse_pattern(pattern)
    if ANY_ONE in tokens or ANY_REST in tokens or tokens[:2] != ASSIGN_PREFIX:
        return None
    return ".".join(tokens[2:])

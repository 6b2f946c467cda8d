"""Distribution of the group's caches to workers. Pure; on the elected leader alone.

The state has the contents of each cache and its target patterns. The leader requests each target
worker to fetch it, in waves: a large cache is fetched from a member by one worker, and by the
others from workers that have it, so that the member's disk is read once. A worker that failed is
asked again later, a new worker when it connects, and one that holds a removed cache is told to drop
it. These requests take no credit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from operator import attrgetter
from typing import Final

from rollq.base.digests import digest_to_text
from rollq.base.ids import WorkerId
from rollq.base.limits import (
    CACHE_AGAIN_MS,
    CACHE_AGAIN_MS_MAX,
    CACHE_DIRECT_BYTES,
    CACHE_LOOKS_MAX,
    CACHE_PUTS_AHEAD,
    CACHE_SILENT_MS_MAX,
    CACHE_SOURCES_MAX,
    CACHE_SWEEP_MS,
    CACHE_TAKERS_PER_SOURCE,
)
from rollq.base.stamp import Clock
from rollq.grid import commands
from rollq.grid.effects import Applied, Outcome
from rollq.grid.state import CacheRecord
from rollq.grid.views import RawHolderView
from rollq.roles.member.leader.origins import Origin
from rollq.roles.member.leader.replies import Replies
from rollq.roles.member.leader.session_log import named
from rollq.roles.member.leader.sessions import Session, Sessions, WorkerSession
from rollq.roles.member.replica import Replica
from rollq.subjects.overlap import overlaps
from rollq.wire.features import CACHE
from rollq.wire.messages import NOT_ASKED, CachePut
from rollq.wire.models import (
    STATUS_FAILED,
    STATUS_HELD,
    STATUS_MOVING,
    STATUS_OK,
    STATUS_SKIPPED,
    STATUS_WAITING,
    CacheEntryModel,
    CachePutRequest,
    CachePutResult,
    encode_model,
)

HAVE: Final = (STATUS_OK, STATUS_SKIPPED)


@dataclass(slots=True)
class CacheHolding:
    """One cache on one worker: the last request and the last status."""

    status: str = STATUS_WAITING
    message: str = ""
    done_bytes: int = 0
    heard_ms: int = 0  # of the request, or of the last progress report
    again_ms: int = 0  # of the next request, if the status is FAILED
    failures: int = 0  # in a row; the wait doubles with each
    is_requested: bool = False  # requested and not finished: it is in `CacheSpread.requested`


@dataclass(slots=True)
class CacheSpread:
    """One cache among the connected workers. A worker is in at most one of `have`, `requested` and
    `waiting`, and in `holdings` if it is in any; it leaves all four when its session ends."""

    size_bytes: int
    holdings: dict[WorkerId, CacheHolding] = field(default_factory=dict)
    have: dict[WorkerId, None] = field(default_factory=dict)  # sources, least recently used first
    requested: dict[WorkerId, None] = field(default_factory=dict)
    waiting: dict[WorkerId, None] = field(default_factory=dict)


class GroupCaches:
    """Caches by name, and their distribution."""

    def __init__(
        self,
        replica: Replica,
        sessions: Sessions,
        replies: Replies,
        clock: Clock,
    ) -> None:
        self._replica = replica
        self._sessions = sessions
        self._replies = replies
        self._send = replies.send
        self._clock = clock
        self._spreads: dict[str, CacheSpread] = {}
        self._request_counts: dict[WorkerId, int] = {}
        self._sweep_ms = 0

    # --- inputs

    def opened(self, worker: WorkerSession) -> None:
        """A worker's session opened: request its caches."""
        self.gone(worker)
        for cache in self._replica.state.caches.values():
            if not cache.removed and is_target(cache.targets, worker.patterns):
                self._want(cache, worker)
        self._pump_worker(worker)

    def gone(self, session: Session) -> None:
        """A session was removed."""
        if not isinstance(session, WorkerSession):
            return
        worker_id = session.worker_id
        self._request_counts.pop(worker_id, None)
        for cache_id, spread in self._spreads.items():
            if spread.holdings.pop(worker_id, None) is not None:
                spread.have.pop(worker_id, None)
                spread.waiting.pop(worker_id, None)
                if worker_id in spread.requested:
                    del spread.requested[worker_id]
                    self._pump(cache_id)

    def settle_change(
        self,
        origin: Origin,
        command: commands.PutCache | commands.RemoveCache,
        outcome: Outcome,
        applied: Applied,
    ) -> None:
        """A cache was put or removed: answer the client, and notify the workers."""
        self._replies.settle_request(origin, command, outcome, applied)
        self._changed(command.cache_id)

    def _changed(self, cache_id: str) -> None:
        cache = self._replica.state.caches.get(cache_id)
        if cache is None or cache.removed:
            self._sweep()
            return
        for worker in self._sessions.workers():
            if worker.opened and is_target(cache.targets, worker.patterns):
                self._want(cache, worker)
        self._pump(cache_id)

    def needed(self, worker: WorkerSession, cache_ids: Iterable[str]) -> None:
        """A job that needs these caches goes to this worker: request them before it is sent."""
        for cache_id in cache_ids:
            cache = self._replica.state.caches.get(cache_id)
            if cache is not None:
                holding = self._want(cache, worker)
                if holding.status not in HAVE and not holding.is_requested:
                    self._request(cache, worker)

    def take_status(self, worker: WorkerSession, result: CachePutResult) -> None:
        """Take a worker's status of a cache."""
        cache_id = result.cache_id
        if cache_id not in self._replica.state.caches:
            if result.status in (*HAVE, STATUS_HELD):
                self._remove_from(worker, cache_id)
            return
        spread = self._spreads.get(cache_id)
        holding = None if spread is None else spread.holdings.get(worker.worker_id)
        if spread is None or holding is None or not holding.is_requested:
            return
        holding.heard_ms = self._clock.now_ms()
        if isinstance(result.done_bytes, int):
            holding.done_bytes = result.done_bytes
        if result.status == STATUS_MOVING:
            holding.status = STATUS_MOVING
        elif result.status in HAVE:
            self._settled(spread, worker.worker_id, result.status, result.message or "")
            spread.have[worker.worker_id] = None
            holding.done_bytes, holding.failures = spread.size_bytes, 0
        elif result.status == STATUS_FAILED:
            self._failed(spread, worker.worker_id, result.message or "")
        else:
            return
        self._pump(cache_id)
        self._pump_worker(worker)

    def due(self) -> None:
        """Once a turn: retry failed workers, and fail silent ones."""
        if self._clock.now_ms() >= self._sweep_ms and self._spreads:
            self._sweep()

    def clear(self) -> None:
        """Leadership is lost."""
        self._spreads.clear()
        self._request_counts.clear()

    # --- views

    def holders(self, cache_id: str) -> list[RawHolderView]:
        """The status of a cache on each of its target workers."""
        cache = self._replica.state.caches.get(cache_id)
        spread = self._spreads.get(cache_id)
        if cache is None:
            return []
        found = []
        for worker in self._sessions.workers():
            holding = None if spread is None else spread.holdings.get(worker.worker_id)
            if holding is None:
                if not worker.opened or not is_target(cache.targets, worker.patterns):
                    continue
                holding = _UNABLE if CACHE not in worker.features else CacheHolding()
            found.append(
                RawHolderView(
                    worker.worker_id,
                    named(worker),
                    patterns=worker.patterns,
                    status=holding.status,
                    message=holding.message,
                    done_bytes=holding.done_bytes,
                )
            )
        return found

    def nearest(
        self, cache_ids: tuple[str, ...], suits: Callable[[WorkerId], bool]
    ) -> WorkerId | None:
        """A worker that holds the largest of some caches and satisfies `suits`. At most
        CACHE_LOOKS_MAX are tried; the chosen one is tried last the next time."""
        spreads = [self._spreads[one] for one in cache_ids if one in self._spreads]
        spread = max(spreads, key=attrgetter("size_bytes"), default=None)
        if spread is None:
            return None
        for worker_id in islice(spread.have, CACHE_LOOKS_MAX):
            if suits(worker_id):
                del spread.have[worker_id]
                spread.have[worker_id] = None
                return worker_id
        return None

    # --- helpers

    def _want(self, cache: CacheRecord, worker: WorkerSession) -> CacheHolding:
        """Note that a worker must hold a cache."""
        if CACHE not in worker.features:
            return _UNABLE
        spread = self._spreads.get(cache.cache_id)
        if spread is None:
            size_bytes = sum(entry.blob.size for entry in cache.entries)
            spread = self._spreads[cache.cache_id] = CacheSpread(size_bytes)
        holding = spread.holdings.get(worker.worker_id)
        if holding is None:
            holding = spread.holdings[worker.worker_id] = CacheHolding()
            spread.waiting[worker.worker_id] = None
        elif holding.status == STATUS_FAILED:  # a new request retries it
            holding.status = STATUS_WAITING
            spread.waiting[worker.worker_id] = None
        return holding

    def _pump(self, cache_id: str) -> None:
        """Request a cache from waiting workers, as many as its sources can serve."""
        spread = self._spreads.get(cache_id)
        cache = self._replica.state.caches.get(cache_id)
        if spread is None or cache is None:
            return
        for worker_id in list(spread.waiting):
            if not _has_source(spread):
                return
            worker = self._sessions.worker(worker_id)
            if worker is not None and self._request_counts.get(worker_id, 0) < CACHE_PUTS_AHEAD:
                self._request(cache, worker)

    def _pump_worker(self, worker: WorkerSession) -> None:
        """Request waiting caches from a worker, up to its limit at a time."""
        for cache_id, spread in self._spreads.items():
            if self._request_counts.get(worker.worker_id, 0) >= CACHE_PUTS_AHEAD:
                return
            cache = self._replica.state.caches.get(cache_id)
            if cache is not None and worker.worker_id in spread.waiting and _has_source(spread):
                self._request(cache, worker)

    def _request(self, cache: CacheRecord, worker: WorkerSession) -> None:
        if CACHE not in worker.features:
            return
        spread = self._spreads[cache.cache_id]
        holding = spread.holdings[worker.worker_id]
        spread.waiting.pop(worker.worker_id, None)
        spread.requested[worker.worker_id] = None
        self._request_counts[worker.worker_id] = self._request_counts.get(worker.worker_id, 0) + 1
        holding.is_requested, holding.heard_ms = True, self._clock.now_ms()
        request = CachePutRequest(
            cache.cache_id,
            tuple(
                CacheEntryModel(
                    entry.name,
                    digest=digest_to_text(entry.blob.digest),
                    size=entry.blob.size,
                    mode=entry.mode,
                )
                for entry in cache.entries
            ),
            "",
            kept=True,
            sources=self._sources(spread),
        )
        self._send(worker.number, CachePut(NOT_ASKED, encode_model(request)))

    def _sources(self, spread: CacheSpread) -> tuple[str, ...]:
        """The addresses of some workers that have it, in rotation."""
        if spread.size_bytes <= CACHE_DIRECT_BYTES:
            return ()
        named = []
        for worker_id in list(spread.have):
            worker = self._sessions.worker(worker_id)
            if worker is not None and worker.blob_address:
                named.append(worker.blob_address)
                del spread.have[worker_id]
                spread.have[worker_id] = None
                if len(named) == CACHE_SOURCES_MAX:
                    break
        return tuple(named)

    def _settled(self, spread: CacheSpread, worker_id: WorkerId, status: str, message: str) -> None:
        holding = spread.holdings[worker_id]
        holding.status, holding.message, holding.is_requested = status, message, False
        del spread.requested[worker_id]
        self._request_counts[worker_id] -= 1

    def _failed(self, spread: CacheSpread, worker_id: WorkerId, message: str) -> None:
        self._settled(spread, worker_id, STATUS_FAILED, message)
        holding = spread.holdings[worker_id]
        wait_ms = min(CACHE_AGAIN_MS_MAX, CACHE_AGAIN_MS << min(holding.failures, 16))
        holding.failures += 1
        holding.again_ms = self._clock.now_ms() + wait_ms

    def _sweep(self) -> None:
        now_ms = self._clock.now_ms()
        self._sweep_ms = now_ms + CACHE_SWEEP_MS
        caches = self._replica.state.caches
        for cache_id, spread in list(self._spreads.items()):
            if cache_id not in caches:
                self._drop(cache_id, spread)
                continue
            for worker_id, holding in spread.holdings.items():
                if holding.is_requested and now_ms - holding.heard_ms > CACHE_SILENT_MS_MAX:
                    self._failed(
                        spread, worker_id, f"no progress for {CACHE_SILENT_MS_MAX // 1000} s"
                    )
                elif holding.status == STATUS_FAILED and now_ms >= holding.again_ms:
                    holding.status = STATUS_WAITING
                    spread.waiting[worker_id] = None
            self._pump(cache_id)

    def _drop(self, cache_id: str, spread: CacheSpread) -> None:
        """A removed cache: drop it on the workers."""
        del self._spreads[cache_id]
        for worker_id in spread.holdings:
            if worker_id in spread.requested:
                self._request_counts[worker_id] -= 1
            worker = self._sessions.worker(worker_id)
            if worker is not None:
                self._remove_from(worker, cache_id)

    def _remove_from(self, worker: WorkerSession, cache_id: str) -> None:
        request = CachePutRequest(cache_id, (), "", kept=True, removed=True)
        self._send(worker.number, CachePut(NOT_ASKED, encode_model(request)))


def _has_source(spread: CacheSpread) -> bool:
    """Whether one more worker may fetch a cache now: a small one at any time, else from a worker
    that has it and serves few; the first from a member."""
    if spread.size_bytes <= CACHE_DIRECT_BYTES:
        return True
    return len(spread.requested) < max(1, CACHE_TAKERS_PER_SOURCE * len(spread.have))


def is_target(targets: tuple[str, ...], patterns: tuple[str, ...]) -> bool:
    """Whether a worker with these patterns matches one of the targets."""
    return any(_overlaps(target, pattern) for target in targets for pattern in patterns)


_overlaps = lru_cache(maxsize=16_384)(overlaps)
_UNABLE: Final = CacheHolding(STATUS_FAILED, "this worker cannot fetch files by digest")

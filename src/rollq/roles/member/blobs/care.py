"""Background work on a member's blobs: fetch missing ones, verify stored ones, evict unneeded ones.

Slow and bounded on purpose: jobs and transfers come first. One thread verifies and evicts.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from rollq.base.digests import Digest, digest_to_text
from rollq.base.errors import RollqError
from rollq.base.limits import (
    BLOB_FETCH_AGAIN_MS,
    BLOB_FETCH_AGAIN_MS_MAX,
    BLOB_FETCHES_MAX,
    BLOB_LEFTOVER_MS,
)
from rollq.roles.member.blobs.copies import Copies
from rollq.roles.member.setup import BlobsSetup
from rollq.roles.service import end_tasks
from rollq.store.blobs.keeper import Keeper
from rollq.store.blobs.protocol import BlobStore
from rollq.store.blobs.scrub import Scrub

log = logging.getLogger("rollq.blobs")


class Retries:
    """Backoff of failed fetches. Pure."""

    def __init__(self) -> None:
        self._due_ms: dict[Digest, int] = {}
        self._waits_ms: dict[Digest, int] = {}

    def due(self, digests: Iterable[Digest], now_ms: int) -> list[Digest]:
        """The digests to try now; drops the backoff of digests that are not in the list."""
        wanted = dict.fromkeys(digests)
        self._due_ms = {one: at for one, at in self._due_ms.items() if one in wanted}
        self._waits_ms = {one: self._waits_ms[one] for one in self._due_ms}
        return [one for one in wanted if self._due_ms.get(one, 0) <= now_ms]

    def failed(self, digest: Digest, now_ms: int) -> None:
        """A fetch failed."""
        wait_ms = self._waits_ms.get(digest, BLOB_FETCH_AGAIN_MS)
        self._due_ms[digest] = now_ms + wait_ms
        self._waits_ms[digest] = min(2 * wait_ms, BLOB_FETCH_AGAIN_MS_MAX)

    def next_ms(self) -> int | None:
        """When the first retry is due; None if nothing failed."""
        return min(self._due_ms.values(), default=None)


class Care:
    """Two tasks on the loop, from `start` to `stop`.

    Args:
        setup: Rates and bounds.
        store: Of this member.
        keeper: Its index.
        copies: Fetches blobs.
        may_evict: Whether the applied state has all references, so that unreferenced blobs may go.
        lost: Called with a blob that was found corrupt.
        now_ms: The time; monotonic.
    """

    def __init__(
        self,
        *,
        setup: BlobsSetup,
        store: BlobStore,
        keeper: Keeper,
        copies: Copies,
        may_evict: Callable[[], bool],
        lost: Callable[[Digest], None],
        now_ms: Callable[[], int],
    ) -> None:
        self._setup = setup
        self._store = store
        self._keeper = keeper
        self._copies = copies
        self._may_evict = may_evict
        self._lost = lost
        self._now_ms = now_ms
        self._rotten: dict[Digest, None] = {}  # to fetch again even without references
        self._retries = Retries()
        self._wake_up = asyncio.Event()
        self._scrub = Scrub(store, keeper.lost, secrets.randbelow(256))
        self._thread: ThreadPoolExecutor | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start both tasks. Idempotent."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "blobs-care")
            self._tasks = [
                asyncio.create_task(self._fetch_always()),
                asyncio.create_task(self._verify_and_evict(self._thread)),
            ]
            self.wake()

    async def stop(self) -> None:
        """Stop, after the read under way. Idempotent."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        await end_tasks(self._tasks)
        await asyncio.get_running_loop().run_in_executor(None, thread.shutdown)
        self._scrub.close()

    def wake(self) -> None:
        """Look for missing blobs soon."""
        self._wake_up.set()

    # --- fetch missing blobs

    async def _fetch_always(self) -> None:
        while True:
            self._wake_up.clear()
            wanted = (*self._keeper.wanted(), *self._rotten)
            due = iter(self._retries.due(wanted, self._now_ms()))
            async with asyncio.TaskGroup() as group:
                for _ in range(BLOB_FETCHES_MAX):
                    group.create_task(self._fetch_all(due))
            await self._until_next()

    async def _fetch_all(self, digests: Iterator[Digest]) -> None:
        for digest in digests:
            try:
                await self._copies.take(digest)
            except Exception as error:  # the other blobs are fetched all the same
                is_bug = not isinstance(error, RollqError)
                name = digest_to_text(digest)
                log.warning("blob %s cannot be fetched yet: %s", name, error, exc_info=is_bug)
                self._retries.failed(digest, self._now_ms())
            else:
                self._rotten.pop(digest, None)

    async def _until_next(self) -> None:
        next_ms = self._retries.next_ms()
        wait_s = None if next_ms is None else max(0, next_ms - self._now_ms()) / 1000
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._wake_up.wait()

    # --- verify and evict

    async def _verify_and_evict(self, thread: ThreadPoolExecutor) -> None:
        loop, setup = asyncio.get_running_loop(), self._setup
        scrub_ms = evict_ms = self._now_ms()
        while True:
            await asyncio.sleep(setup.scrub_every_ms / 1000)
            now_ms = self._now_ms()
            try:
                if now_ms >= scrub_ms:
                    rounds = self._scrub.rounds
                    rotten = await loop.run_in_executor(thread, self._scrub.step, setup.scrub_bytes)
                    self._refetch(rotten)
                    if self._scrub.rounds > rounds:
                        scrub_ms = now_ms + setup.scrub_round_ms
                if now_ms >= evict_ms and self._may_evict():
                    evict_ms = now_ms + setup.evict_every_ms
                    await loop.run_in_executor(thread, self._evict)
            except Exception as error:  # retried at the next step
                is_bug = not isinstance(error, RollqError)
                log.warning("verification or eviction of blobs failed: %s", error, exc_info=is_bug)

    def _refetch(self, rotten: list[Digest]) -> None:
        for digest in rotten:
            log.error("blob %s is corrupt: quarantined, and fetched again", digest_to_text(digest))
            self._rotten[digest] = None
            self._lost(digest)
        if rotten:
            self.wake()

    def _evict(self) -> None:
        """Evict unreferenced blobs; on the thread."""
        setup, now_ms = self._setup, self._now_ms()
        evicted = self._keeper.evict(now_ms, setup.bytes_max or None, setup.age_ms or None)
        if evicted:
            evicted_bytes = sum(blob.size for blob in evicted)
            log.info("evicted %d unreferenced blobs, %d bytes", len(evicted), evicted_bytes)
        self._store.sweep(now_ms - BLOB_LEFTOVER_MS)

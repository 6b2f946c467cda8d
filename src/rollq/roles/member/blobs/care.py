"""Background work on a member's blobs: fetch those that are missing, verify those that are there,
evict those that nothing needs.

Slow and bounded by intent: jobs and transfers come first. One thread verifies and evicts.
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
    """When to try again what failed: later and later. Pure."""

    def __init__(self) -> None:
        self._due_ms: dict[Digest, int] = {}
        self._waits_ms: dict[Digest, int] = {}

    def due(self, digests: Iterable[Digest], now_ms: int) -> list[Digest]:
        """Those that may be tried now; all others that were ever tried are forgotten."""
        wanted = dict.fromkeys(digests)
        self._due_ms = {one: at for one, at in self._due_ms.items() if one in wanted}
        self._waits_ms = {one: self._waits_ms[one] for one in self._due_ms}
        return [one for one in wanted if self._due_ms.get(one, 0) <= now_ms]

    def failed(self, digest: Digest, now_ms: int) -> None:
        """It could not be done."""
        wait_ms = self._waits_ms.get(digest, BLOB_FETCH_AGAIN_MS)
        self._due_ms[digest] = now_ms + wait_ms
        self._waits_ms[digest] = min(2 * wait_ms, BLOB_FETCH_AGAIN_MS_MAX)

    def next_ms(self) -> int | None:
        """When the first one is due; None if nothing failed."""
        return min(self._due_ms.values(), default=None)


class Care:
    """Two tasks on the loop, from `start` to `stop`.

    Args:
        setup: How much, how often.
        store: Our own.
        keeper: Its index.
        copies: Where blobs are fetched from.
        may_evict: Whether what nothing refers to here is really not referred to.
        lost: Told of a blob of ours that was corrupt.
        now_ms: The time; never set back.
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
        self._rotten: dict[Digest, None] = {}  # to be fetched again even if nothing refers to them
        self._retries = Retries()
        self._news = asyncio.Event()
        self._scrub = Scrub(store, keeper.lost, secrets.randbelow(256))
        self._thread: ThreadPoolExecutor | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin. Twice is no error."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "blobs-care")
            self._tasks = [
                asyncio.create_task(self._fetch_always()),
                asyncio.create_task(self._verify_and_evict(self._thread)),
            ]
            self.wake()

    async def stop(self) -> None:
        """Stop; what is being read is read to its end. Twice is no error."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        await end_tasks(self._tasks)
        await asyncio.get_running_loop().run_in_executor(None, thread.shutdown)
        self._scrub.close()

    def wake(self) -> None:
        """Something may be lacking."""
        self._news.set()

    # --- what is lacking

    async def _fetch_always(self) -> None:
        while True:
            self._news.clear()
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
            except Exception as error:  # of one blob; the others are fetched all the same
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
                await self._news.wait()

    # --- what is there

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
                    self._found(rotten)
                    if self._scrub.rounds > rounds:
                        scrub_ms = now_ms + setup.scrub_round_ms
                if now_ms >= evict_ms and self._may_evict():
                    evict_ms = now_ms + setup.evict_every_ms
                    await loop.run_in_executor(thread, self._evict)
            except Exception as error:  # the next step may have more luck
                is_bug = not isinstance(error, RollqError)
                log.warning("verification or eviction of blobs failed: %s", error, exc_info=is_bug)

    def _found(self, rotten: list[Digest]) -> None:
        for digest in rotten:
            log.error("blob %s is corrupt: quarantined, and fetched again", digest_to_text(digest))
            self._rotten[digest] = None
            self._lost(digest)
        if rotten:
            self.wake()

    def _evict(self) -> None:
        """On the thread."""
        setup, now_ms = self._setup, self._now_ms()
        gone = self._keeper.evict(now_ms, setup.bytes_max or None, setup.age_ms or None)
        if gone:
            gone_bytes = sum(blob.size for blob in gone)
            log.info("evicted %d unreferenced blobs, %d bytes", len(gone), gone_bytes)
        self._store.sweep(now_ms - BLOB_LEFTOVER_MS)

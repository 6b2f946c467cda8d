"""The worker's blob store: inputs are fetched once and kept; outputs are kept until the grid has
them.

Blobs in use by a job or named by a result that is not taken are pinned. Of the others, the least
recently used are evicted when the store is too large or the disk is full. Disk work is done on
threads; everything else here runs on the loop.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

from rollq.base.counters import RARE_MS, Histogram
from rollq.base.digests import Digest, digest_to_text
from rollq.base.errors import ErrorCode, RollqError, StateError
from rollq.base.jobs import BlobRef
from rollq.roles.blobs.client import RETRYABLE, BlobClient
from rollq.roles.blobs.client_session import Progress
from rollq.roles.worker.exits import leave_exits_to_others
from rollq.roles.worker.inputs import Linked, linked_to
from rollq.roles.worker.neighbours import Neighbours
from rollq.roles.worker.verified import VerifiedBlobs
from rollq.security.credentials import NONE, Credentials
from rollq.store.blobs.keeper import Keeper
from rollq.store.blobs.local import FOLDER, LocalBlobs
from rollq.store.blobs.scrub import Scrub
from rollq.wire.blob_messages import WORKER

log = logging.getLogger("rollq.worker")

P = ParamSpec("P")
T = TypeVar("T")

Moved = Callable[[Digest, int], None]  # a blob, and its bytes so far

AT_ONCE: Final = 16  # parallel transfers for one job
THREADS: Final = 2
GIVE_AGAIN_S: Final = 1.0
ROUND_S: Final = 60.0  # between maintenance runs
SCRUB_BYTES: Final = 64 * 1024**2  # verified in one run
LEFTOVER_MS: Final = 24 * 3_600_000  # for how long partial transfers are kept


class WorkerBlobs:
    """Store, index and links to members. `start` first; `stop` is idempotent.

    Args:
        state_dir: The store is a folder in it.
        addresses: Members of the group.
        bytes_max: Bound of the store, without pinned blobs.
        age_ms: How long an unused blob is kept.
        credentials: For links to members and other workers.
        unsafe_no_auth: Serve workers of other machines without certificates too.
    """

    def __init__(
        self,
        state_dir: Path,
        addresses: Sequence[str],
        bytes_max: int,
        age_ms: int,
        *,
        credentials: Credentials = NONE,
        unsafe_no_auth: bool = False,
    ) -> None:
        self._folder = state_dir / FOLDER
        self._bytes_max = bytes_max
        self._age_ms = age_ms
        self._members = tuple(addresses)
        self._client = BlobClient(addresses, who=WORKER, credentials=credentials)
        self._neighbours = Neighbours(credentials, unsafe_no_auth=unsafe_no_auth)
        self.address = ""  # at which other workers can fetch from here
        # Fetches under way; each has at least one waiting caller of `bring`.
        self._fetches: dict[Digest, _Fetch] = {}
        self._pool = ThreadPoolExecutor(THREADS, "worker-blobs", leave_exits_to_others)
        self._keeping: dict[asyncio.Task[BlobRef], None] = {}  # copies under way on threads
        self._round_s = 0.0  # start of the last maintenance
        self._rounds = threading.Lock()  # held during maintenance
        self._opened = False  # `_store`, `_keeper`, `_verified` and `_scrub` exist once it is true
        self._closed = False
        self.fetch_ms = Histogram(RARE_MS)  # durations of fetches

    @property
    def bytes_stored(self) -> int:
        """The bytes of all blobs here."""
        return self._keeper.bytes_stored if self._opened else 0

    @property
    def count(self) -> int:
        """The number of blobs here."""
        return self._keeper.count if self._opened else 0

    async def start(self, owed: Iterable[BlobRef] = ()) -> None:
        """Open the store. `owed`: blobs of results that the grid has not taken yet.

        Raises:
            DiskError: the store cannot be opened.
        """
        self._loop = asyncio.get_running_loop()
        pins = [(blob.digest, 1) for blob in owed]
        self._store, self._keeper = await self.on_thread(_open, self._folder, pins)
        self._verified = VerifiedBlobs(self._store)
        self._opened = True
        self._scrub = Scrub(self._store, self._rotted, secrets.randbelow(256))
        self.address = await self._neighbours.serve(self._store, self._members)
        self._trim_soon()

    async def stop(self) -> None:
        """Close the connections and the store; stop all waiting callers first."""
        if self._closed:
            return
        self._closed = True
        for fetch in list(self._fetches.values()):
            fetch.task.cancel()
        await asyncio.gather(*self._keeping, return_exceptions=True)
        await self._client.stop()
        await self._neighbours.stop()
        await asyncio.get_running_loop().run_in_executor(None, self._pool.shutdown)
        if self._opened:
            self._scrub.close()
            self._store.close()

    # --- pins

    def pin(self, blobs: Iterable[BlobRef]) -> None:
        """Protect blobs from eviction; they may be missing yet."""
        for blob in blobs:
            self._keeper.pin(blob.digest)

    def unpin(self, blobs: Iterable[BlobRef]) -> None:
        """Undo one `pin` of each blob."""
        now_ms = _now_ms()
        for blob in blobs:
            self._keeper.unpin(blob.digest, now_ms)
        self._trim_soon()

    def path(self, digest: Digest) -> Path:
        """The file of a stored blob; blocks. Raises StateError BLOB_MISSING."""
        path = self._store.path(digest)
        if path is None:
            self._keeper.lost(digest)
            raise StateError(
                ErrorCode.BLOB_MISSING,
                f"the blob {digest_to_text(digest)} is not among those that the job refers to, "
                "or was taken from the worker's store",
            )
        return path

    def check_links(self, links: Sequence[Linked]) -> Future[None]:
        """Check the linked inputs of an ended job: changed files are verified again."""
        return self._pool.submit(self._check_links, links)

    # --- transfers

    def lacking(self, blobs: Sequence[BlobRef]) -> list[BlobRef]:
        """The blobs that are not stored here."""
        return [blob for blob in blobs if not self._keeper.holds(blob.digest)]

    async def bring(
        self,
        blobs: Sequence[BlobRef],
        sources: Sequence[str] = (),
        progress: Moved | None = None,
    ) -> int:
        """Fetch missing and damaged blobs; each is fetched once for all callers. They must be
        pinned.

        Args:
            blobs: The wanted blobs.
            sources: Workers to try before the members.
            progress: Called with each blob and its bytes so far.

        Returns:
            The fetched bytes, without fetches that another caller had begun.

        Raises:
            RollqError: one of them cannot be fetched: BLOB_MISSING, BLOB_CORRUPT, DISK_FULL, …
        """
        if any(self._keeper.holds(blob.digest) for blob in blobs):
            await self.on_thread(self._quarantine_damaged, blobs)
        begun: list[BlobRef] = []
        bring = partial(self._bring, begun=begun, sources=sources, progress=progress)
        await _in_pages(bring, self.lacking(blobs))
        return sum([blob.size for blob in begun])

    async def keep(self, path: Path) -> BlobRef:
        """Store a copy of a file and pin it.

        Raises:
            DiskError: DISK_FULL and others.
        """
        return await self._with_room(partial(self.on_thread, self._keep, path))

    async def keep_open(self, fd: int) -> BlobRef:
        """Store a copy of an open file and pin it. The descriptor is closed here.

        Raises:
            DiskError: DISK_FULL and others.
        """
        work = self._loop.create_task(self._keep_and_close(fd))
        self._keeping[work] = None
        work.add_done_callback(self._keeping.pop)
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:  # a thread cannot be stopped: its blob is unpinned later
            work.add_done_callback(self._unpin_result)
            raise

    async def give(self, blobs: Sequence[BlobRef]) -> None:
        """Upload blobs; returns when the group has them, retrying as long as that takes.

        Raises:
            RollqError: the group refuses one.
        """
        while True:
            try:
                await _in_pages(self._give, blobs)
            except RollqError as error:
                if error.code not in RETRYABLE:
                    raise
                log.warning("%d blobs cannot be uploaded yet: %s", len(blobs), error)
                await asyncio.sleep(GIVE_AGAIN_S)
            else:
                return

    async def on_thread(self, task: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run disk work on a thread."""
        return await self._loop.run_in_executor(self._pool, partial(task, *args, **kwargs))

    # --- helpers

    async def _bring(
        self,
        blob: BlobRef,
        begun: list[BlobRef],
        sources: Sequence[str],
        progress: Moved | None,
    ) -> None:
        fetch = self._fetches.get(blob.digest)
        if fetch is None:
            begun.append(blob)
            fetch = _Fetch(self._loop.create_task(self._fetch(blob, sources, progress)))
            self._fetches[blob.digest] = fetch
        fetch.waiting += 1
        try:
            await asyncio.shield(fetch.task)
        finally:
            fetch.waiting -= 1
            if not fetch.waiting:
                fetch.task.cancel()  # no caller waits any more; no effect if it is done
                if self._fetches.get(blob.digest) is fetch:
                    del self._fetches[blob.digest]

    async def _fetch(self, blob: BlobRef, sources: Sequence[str], progress: Moved | None) -> None:
        stored = partial(self._keeper.stored, blob.digest, blob.size)
        moved = None if progress is None else lambda done, _: progress(blob.digest, done)
        began_s = time.monotonic()
        while True:  # an eviction that began before the pin may remove it once
            await self._with_room(partial(self._fetch_once, blob, sources, moved))
            if await self.on_thread(stored, _now_ms()):
                await self.on_thread(self._verified.note, blob.digest, _now_ms())
                break
        self.fetch_ms.add(int((time.monotonic() - began_s) * 1000))
        log.info("fetched the blob %s, %d bytes", digest_to_text(blob.digest)[:16], blob.size)
        self._trim_soon()

    def _quarantine_damaged(self, blobs: Sequence[BlobRef]) -> None:
        """Quarantine damaged blobs; on a thread."""
        for blob in blobs:
            if self._keeper.holds(blob.digest) and not self._verified.is_sound(
                blob.digest, _now_ms()
            ):
                self._keeper.lost(blob.digest)
                name = digest_to_text(blob.digest)
                log.error("blob %s is corrupt on disk: set aside, fetching it again", name)

    async def _fetch_once(
        self, blob: BlobRef, sources: Sequence[str], moved: Progress | None
    ) -> None:
        if not sources or not await self._neighbours.fetch(sources, blob, self._store, moved):
            await self._client.fetch(blob.digest, self._store, blob.size, moved)

    async def _give(self, blob: BlobRef) -> None:
        path = await self.on_thread(self.path, blob.digest)
        await self._client.put(path)

    async def _keep_and_close(self, fd: int) -> BlobRef:
        try:
            return await self.keep(Path(f"/dev/fd/{fd}"))
        finally:
            os.close(fd)

    def _unpin_result(self, work: asyncio.Task[BlobRef]) -> None:
        if not work.cancelled() and work.exception() is None:
            self.unpin((work.result(),))

    def _keep(self, path: Path) -> BlobRef:
        """Copy and pin; on a thread."""
        while True:
            digest, size = self._store.put_file(path)
            self._keeper.pin(digest)
            if self._keeper.stored(digest, size, _now_ms()):
                return BlobRef(digest, size)
            self._keeper.unpin(digest, _now_ms())

    async def _with_room(self, act: Callable[[], Awaitable[T]]) -> T:
        """Do something that needs disk space; if the disk is full, evict unused blobs and retry."""
        try:
            return await act()
        except RollqError as error:
            if error.code is not ErrorCode.DISK_FULL:
                raise
            gone = await self.on_thread(self._keeper.evict, _now_ms(), 0)
            if not gone:
                raise
            log.warning("the disk is full: evicted %d unused blobs", len(gone))
            return await act()

    def tick(self) -> None:
        """Called a few times a second; starts maintenance when it is due."""
        now_s = time.monotonic()
        if not self._closed and now_s - self._round_s > ROUND_S:
            self._round_s = now_s
            self._pool.submit(self._go_round)

    def _trim_soon(self) -> None:
        if not self._closed and self._keeper.bytes_stored > self._bytes_max:
            self._pool.submit(self._trim)

    def _trim(self) -> None:
        """Evict beyond the bounds; on a thread."""
        try:
            self._keeper.evict(_now_ms(), self._bytes_max, self._age_ms)
        except RollqError as error:
            log.warning("cannot evict unused blobs: %s", error)

    def _go_round(self) -> None:
        """Evict old blobs, and verify some others; on a thread."""
        if not self._rounds.acquire(blocking=False):
            return  # the last run is not over
        try:
            self._trim()
            self._store.sweep(_now_ms() - LEFTOVER_MS)
            self._scrub.step(SCRUB_BYTES)
        except RollqError as error:
            log.warning("blob maintenance failed: %s", error)
        finally:
            self._rounds.release()

    def _rotted(self, digest: Digest) -> None:
        """A blob was found corrupt; on a thread."""
        log.error("blob %s is corrupt on disk: set aside", digest_to_text(digest))
        self._keeper.lost(digest)

    def _check_links(self, links: Sequence[Linked]) -> None:
        """See `check_links`; on a thread."""
        for link in links:
            try:
                path = self._store.path(link.digest)
                if path is None or linked_to(path, link.digest) == link:
                    continue
                if self._store.verify(link.digest):
                    path.chmod(link.look[2] & 0o777)
                    continue
            except (RollqError, OSError) as error:
                log.warning("the blob %s: %s", digest_to_text(link.digest), error)
            self._keeper.lost(link.digest)
            log.warning(
                "blob %s was changed by a job that had it as an input: set aside",
                digest_to_text(link.digest),
            )


class _Fetch:
    """A fetch under way, with the number of waiting callers; cancelled when that falls to 0."""

    __slots__ = ("task", "waiting")

    def __init__(self, task: asyncio.Task[None]) -> None:
        self.task = task
        self.waiting = 0


async def _in_pages(act: Callable[[BlobRef], Awaitable[None]], blobs: Sequence[BlobRef]) -> None:
    """Process all blobs, a page at a time; raises the first error after its page has ended."""
    for at in range(0, len(blobs), AT_ONCE):
        page = blobs[at : at + AT_ONCE]
        for outcome in await asyncio.gather(*map(act, page), return_exceptions=True):
            if outcome is not None:
                raise outcome


def _open(folder: Path, pins: list[tuple[Digest, int]]) -> tuple[LocalBlobs, Keeper]:
    store = LocalBlobs(folder)
    try:
        return store, Keeper(store, pins)
    except BaseException:
        store.close()
        raise


def _now_ms() -> int:
    return time.time_ns() // 1_000_000

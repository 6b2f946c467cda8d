"""The worker's caches: named sets of files, stored before jobs refer to them.

A put has the files inside, or (for a cache of the group) names blobs to fetch. It takes no slot and
no credit. Equal files are SKIPPED, other files under the same name FAILED. The names of a cache are
known as soon as its put arrives, so a job waits only for the files that it uses.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Final, Protocol

from msgspec import UNSET
from msgspec.structs import replace

from rollq.base.digests import Digest, digest_from_text, digest_to_text
from rollq.base.errors import ErrorCode, RemoteError, RollqError, StateError
from rollq.base.jobs import AttemptRef, BlobRef, CacheEntry
from rollq.base.limits import CACHE_ENTRIES_MAX, CACHE_ID_BYTES_MAX
from rollq.base.names import checked_tree
from rollq.roles.service import end_tasks
from rollq.roles.worker.assignments import CACHED_FILE
from rollq.roles.worker.cache_files import CacheFiles, FileStore
from rollq.roles.worker.cache_index import FOLDER, Cache, CacheIndex
from rollq.roles.worker.setup import NodeSetup
from rollq.roles.worker.signals import InputsFailed
from rollq.wire.messages import NOT_ASKED, AssignJob, CacheAck, CachePut
from rollq.wire.models import (
    STATUS_FAILED,
    STATUS_HELD,
    STATUS_MOVING,
    STATUS_OK,
    STATUS_SKIPPED,
    CachePutRequest,
    CachePutResult,
    InputFile,
    JobRequest,
    decode_if_marked,
    decode_model,
    encode_model,
)

log = logging.getLogger("rollq.worker")

SendAcks = Callable[[Sequence[CacheAck]], None]
Jobs = list[tuple[AssignJob, AttemptRef]]
TOLD_S: Final = 0.2  # between progress reports
DEFAULT_MODE: Final = 0o644
NAMES_TOLD: Final = 5  # file names shown in the error for a missing one


class CacheStore(FileStore, Protocol):
    """The part of the worker's blob store that is used here."""

    def pin(self, blobs: Sequence[BlobRef]) -> None:
        """Protect these from eviction."""

    def lacking(self, blobs: Sequence[BlobRef]) -> list[BlobRef]:
        """The blobs that are not stored here."""

    async def bring(
        self,
        blobs: Sequence[BlobRef],
        sources: Sequence[str] = (),
        progress: Callable[[Digest, int], None] | None = None,
    ) -> int:
        """Fetch missing blobs, from one of the sources if possible."""

    async def keep(self, path: Path) -> BlobRef:
        """Store a copy of a file and pin it."""


class WorkerCaches:
    """All caches of one worker. Runs on the loop."""

    def __init__(self, setup: NodeSetup, blobs: CacheStore, send: SendAcks) -> None:
        self._index = CacheIndex(setup.state_dir / FOLDER)
        self._blobs = blobs
        folder = setup.cache_dir
        self._files = CacheFiles(folder, setup.state_dir, blobs) if folder else None
        self._name = setup.name
        self._send = send
        self._caches: dict[str, Cache] = {}  # complete ones
        self._arriving: dict[str, Cache] = {}  # of puts under way
        self._turns: dict[str, tuple[asyncio.Lock, int]] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._last_number = 0

    async def load(self) -> list[BlobRef]:
        """Read the index; returns the blobs of all caches, for the caller to pin."""
        self._loop = asyncio.get_running_loop()
        for cache in await self._loop.run_in_executor(None, self._index.load):
            self._caches[cache.cache_id] = cache
        return [blob for cache in self._caches.values() for blob in cache.blobs]

    async def take_files(self) -> None:
        """Make caches of the folders in the cache directory, before the first job. Needs the
        blobs."""
        if self._files is None:
            return
        found = await self._loop.run_in_executor(None, self._files.find)
        for cache_id in self._files.gone(found):
            if (cache := self._caches.get(cache_id)) is not None and not cache.is_kept:
                await self._forget(cache)
        for cache_id, modes in found.items():
            known = self._caches.get(cache_id) or Cache(cache_id, (), is_kept=False)
            try:
                if not known.is_kept:
                    self._caches[cache_id] = await self._files.take(known, modes, self._index.write)
            except (RollqError, OSError) as error:
                log.warning("the folder of cache %a is not taken: %s", cache_id, error)

    async def stop(self) -> None:
        """Cancel puts; the next leader sends them again."""
        await end_tasks(self._tasks)

    # --- messages of the leader

    def greet(self) -> None:
        """Report the caches of the group; the leader answers with removals of unknown ones."""
        held = [cache for cache in self._caches.values() if cache.is_kept]
        if held:
            self._send([self._ack(NOT_ASKED, one.cache_id, STATUS_HELD, "") for one in held])

    def take(self, message: CachePut) -> None:
        """Handle a put, or (from the group) a removal."""
        cache = None
        if message.request_id == NOT_ASKED:
            with contextlib.suppress(RemoteError):  # the task reports it
                request = decode_model(message.payload, CachePutRequest)
                cache = _kept_cache(request) if request.removed is not True else None
        if cache is not None:
            self._arriving[cache.cache_id] = cache  # the next message may be a job that uses it
        task = self._loop.create_task(self._take(message, cache))
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    # --- inputs of jobs

    def resolved(self, jobs: Jobs, on_fail: Callable[[InputsFailed], None]) -> Jobs:
        """The jobs, with digests for their files in caches. Jobs whose cache is missing here are
        returned: another worker may have it. If the file is missing in a cache of the group, the
            job fails: it would everywhere."""
        if not any(CACHED_FILE.search(job.body) for job, _ in jobs):
            return jobs
        found: Jobs = []
        for job, ref in jobs:
            try:
                found.append((self._resolve(job) if CACHED_FILE.search(job.body) else job, ref))
            except RollqError as error:
                on_fail(InputsFailed(ref, error))
        return found

    def _resolve(self, job: AssignJob) -> AssignJob:
        try:
            request = decode_if_marked(job.body, JobRequest, "JobId")
        except RemoteError:
            return job  # its execution reports the error
        if request is None or not request.files:
            return job
        if not any(map(_is_cached, request.files)):
            return job
        blobs: dict[BlobRef, None] = dict.fromkeys(job.blobs)
        files = []
        for file in request.files:
            if _is_cached(file):
                entry = self._find(file.cache_id or "", file.name)
                blobs[entry.blob] = None
                files.append(_by_digest(file, entry))
            else:
                files.append(file)
        body = encode_model(replace(request, files=tuple(files)))
        return replace(job, body=body, blobs=tuple(blobs))

    def _find(self, cache_id: str, name: str) -> CacheEntry:
        cache = self._arriving.get(cache_id) or self._caches.get(cache_id)
        if cache is None:
            raise StateError(
                ErrorCode.UNKNOWN_CACHE, f"the cache {cache_id[:64]!a} is not on this worker"
            )
        for entry in cache.entries:
            if entry.name == name:
                return entry
        why = f"no file {name[:64]!a} is in the cache {cache_id[:64]!a}"
        if cache.is_kept:
            some = ", ".join(ascii(entry.name[:64]) for entry in cache.entries[:NAMES_TOLD])
            raise RemoteError(ErrorCode.BAD_PAYLOAD, why, f"it has {some}")
        raise StateError(ErrorCode.UNKNOWN_CACHE, why)

    # --- puts

    async def _take(self, message: CachePut, cache: Cache | None) -> None:
        cache_id = ""
        try:
            # Decoding takes long if there are files in it.
            decode = partial(decode_model, message.payload, CachePutRequest)
            request = await self._loop.run_in_executor(None, decode)
            cache_id = request.cache_id
            if request.removed is True:
                await self._remove(cache_id)
                return
            status, text = await self._put(request, cache, message.request_id)
        except (RollqError, OSError) as error:
            status, text = STATUS_FAILED, str(error)
        finally:
            if cache is not None and self._arriving.get(cache.cache_id) is cache:
                del self._arriving[cache.cache_id]
        if status == STATUS_FAILED:
            log.warning("cache %s: %s", cache_id, text)
        else:
            log.info("cache %s: %s %s", cache_id, status, text)
        self._send([self._ack(message.request_id, cache_id, status, text)])

    async def _put(
        self, request: CachePutRequest, cache: Cache | None, request_id: bytes
    ) -> tuple[str, str]:
        cache_id = request.cache_id
        if not 0 < len(cache_id.encode()) <= CACHE_ID_BYTES_MAX:
            raise RemoteError(ErrorCode.BAD_PAYLOAD, "the name of a cache is empty or too long")
        if len(request.entries or ()) > CACHE_ENTRIES_MAX:
            raise RemoteError(ErrorCode.BAD_PAYLOAD, f"more than {CACHE_ENTRIES_MAX} files")
        checked_tree([entry.name for entry in request.entries or ()])
        async with self._alone(cache_id):
            if request.kept is True:
                cache = cache or _kept_cache(request)
                sources = () if request.sources is UNSET else request.sources
                outcome = await self._fetch(cache, sources, request_id)
            else:
                outcome = await self._store(request)
            if self._files is not None and cache_id in self._caches:
                write = partial(self._files.write, self._caches[cache_id])
                await self._loop.run_in_executor(None, write)
            return outcome

    async def _fetch(
        self, cache: Cache, sources: tuple[str, ...], request_id: bytes
    ) -> tuple[str, str]:
        """Put a cache of the group, which replaces an older version."""
        known = self._caches.get(cache.cache_id)
        if known is not None and not known.is_kept and known.entries != cache.entries:
            raise _conflict(cache.cache_id, known.entries[0].name)
        blobs = cache.blobs
        lacking = self._blobs.lacking(blobs)
        if known == cache and not lacking:
            return STATUS_SKIPPED, f"already-present={len(blobs)}"
        self._blobs.pin(blobs)
        try:
            total_bytes = sum(blob.size for blob in blobs)
            done_bytes = total_bytes - sum(blob.size for blob in lacking)
            progress = _Progress(self, request_id, cache.cache_id, done_bytes, total_bytes)
            await self._blobs.bring(blobs, sources, progress.moved)
            await self._loop.run_in_executor(None, self._index.write, cache)
        except BaseException:
            self._blobs.unpin(blobs)
            raise
        if known is not None:
            self._blobs.unpin(known.blobs)
            await self._remove_files(cache.cache_id)
        self._caches[cache.cache_id] = cache
        return STATUS_OK, f"added={len(blobs)}"

    async def _store(self, request: CachePutRequest) -> tuple[str, str]:
        """Put files inside the message. Later puts may add files to the cache."""
        cache_id = request.cache_id
        known = self._caches.get(cache_id)
        before = {} if known is None else {entry.name: entry for entry in known.entries}
        added: list[CacheEntry] = []
        try:
            for entry in request.entries or ():
                blob = await self._kept(entry.content or b"")
                added.append(CacheEntry(entry.name, blob))
                there = before.get(entry.name)
                if there is not None and there.blob != blob:
                    raise _conflict(cache_id, entry.name)
            new = [entry for entry in added if entry.name not in before]
            checked_tree([*before, *(entry.name for entry in new)])
            if new:
                entries = tuple(sorted((*before.values(), *new), key=attrgetter("name")))
                cache = Cache(cache_id, entries, is_kept=known is not None and known.is_kept)
                if cache.is_kept:
                    raise _conflict(cache_id, new[0].name)
                await self._loop.run_in_executor(None, self._index.write, cache)
        except BaseException:
            self._blobs.unpin([entry.blob for entry in added])
            raise
        self._blobs.unpin([entry.blob for entry in added if entry.name in before])
        if not new:
            return STATUS_SKIPPED, f"already-present={len(added)}"
        self._caches[cache_id] = cache
        skipped = len(added) - len(new)
        return STATUS_OK, f"added={len(new)}" + (f", skipped={skipped}" if skipped else "")

    @contextlib.asynccontextmanager
    async def _alone(self, cache_id: str) -> AsyncIterator[None]:
        """Serialise the puts of one cache."""
        lock, users = self._turns.get(cache_id, (asyncio.Lock(), 0))
        self._turns[cache_id] = lock, users + 1
        try:
            async with lock:
                yield
        finally:
            lock, users = self._turns.pop(cache_id)
            if users > 1:
                self._turns[cache_id] = lock, users - 1

    async def _kept(self, content: bytes) -> BlobRef:
        self._last_number += 1
        path = self._index.incoming(self._last_number)
        try:
            await self._loop.run_in_executor(None, path.write_bytes, content)
            return await self._blobs.keep(path)
        finally:
            await self._loop.run_in_executor(None, partial(path.unlink, missing_ok=True))

    async def _remove(self, cache_id: str) -> None:
        """Remove a cache that the group removed; blobs in use by a job stay until it ends."""
        async with self._alone(cache_id):
            cache = self._caches.get(cache_id)
            if cache is not None and cache.is_kept:
                await self._forget(cache)

    async def _forget(self, cache: Cache) -> None:
        del self._caches[cache.cache_id]
        await self._remove_files(cache.cache_id)  # first, or a start would make a cache of them
        await self._loop.run_in_executor(None, self._index.remove, cache.cache_id)
        self._blobs.unpin(cache.blobs)
        log.info("cache %s: removed", cache.cache_id)

    async def _remove_files(self, cache_id: str) -> None:
        if self._files is not None:
            await self._loop.run_in_executor(None, self._files.remove, cache_id)

    def _ack(self, request_id: bytes, cache_id: str, status: str, text: str) -> CacheAck:
        result = CachePutResult(cache_id, status, text, self._name)
        return CacheAck(request_id, encode_model(result))

    def report(self, request_id: bytes, cache_id: str, done_bytes: int, total_bytes: int) -> None:
        """Report the progress of a put."""
        result = CachePutResult(cache_id, STATUS_MOVING, "", self._name, done_bytes, total_bytes)
        self._send([CacheAck(request_id, encode_model(result))])


class _Progress:
    """Reports the progress of a put, rate limited."""

    def __init__(
        self, caches: WorkerCaches, request_id: bytes, cache_id: str, done: int, total: int
    ) -> None:
        self._report = partial(caches.report, request_id, cache_id)
        self._done_bytes = done
        self._total_bytes = total
        self._loop = asyncio.get_running_loop()
        self._reported_s = 0.0
        self._moved: dict[Digest, int] = {}

    def moved(self, digest: Digest, done_bytes: int) -> None:
        """Note the bytes of a blob so far."""
        self._done_bytes += done_bytes - self._moved.get(digest, 0)
        self._moved[digest] = done_bytes
        now_s = self._loop.time()
        if now_s - self._reported_s >= TOLD_S:
            self._reported_s = now_s
            self._report(self._done_bytes, self._total_bytes)


def _is_cached(file: InputFile) -> bool:
    return bool(file.cache_id) and file.content is None and file.digest is UNSET


def _by_digest(file: InputFile, entry: CacheEntry) -> InputFile:
    return replace(
        file,
        cache_id=None,
        digest=digest_to_text(entry.blob.digest),
        size=entry.blob.size,
        mode=entry.mode,
    )


def _kept_cache(request: CachePutRequest) -> Cache:
    checked_tree([entry.name for entry in request.entries or ()])
    entries = tuple(sorted(_entries(request), key=attrgetter("name")))
    return Cache(request.cache_id, entries, is_kept=True)


def _entries(request: CachePutRequest) -> Iterator[CacheEntry]:
    for entry in request.entries or ():
        if entry.digest is UNSET or entry.size is UNSET or entry.size < 0:
            raise RemoteError(ErrorCode.BAD_PAYLOAD, "kept caches need digests and sizes")
        mode = DEFAULT_MODE if entry.mode is UNSET else entry.mode
        yield CacheEntry(entry.name, BlobRef(digest_from_text(entry.digest), entry.size), mode)


def _conflict(cache_id: str, name: str) -> StateError:
    return StateError(
        ErrorCode.CACHE_CONFLICT,
        f"the cache {cache_id[:64]!a} holds other files, {name[:64]!a} for one",
        "use another cache id, or remove the cache first",
    )

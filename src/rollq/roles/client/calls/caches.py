"""`client.caches`: named sets of files that workers keep for jobs, and blobs of the group."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from rollq.base.errors import DeadlineError, ErrorCode, LocalError, RollqError, StateError
from rollq.base.jobs import BlobRef
from rollq.base.limits import CLIENT_AGAIN_MS, CLIENT_UPLOAD_TRIES
from rollq.grid import views
from rollq.roles.client.answers import decode_as, decode_known
from rollq.roles.client.calls.facades import PAGE, GroupCalls
from rollq.roles.client.jobs.supply import BytesMoved, InputBlob
from rollq.roles.client.results.outputs import Output
from rollq.roles.client.results.views import CacheView, HolderView
from rollq.subjects.overlap import overlaps
from rollq.subjects.queues import check_typed, worker_pattern

Spread: TypeAlias = Callable[[list[HolderView]], None]

LOOK_S: Final = 0.1  # poll interval
HAVE: Final = ("OK", "SKIPPED")
OVER: Final = (*HAVE, "FAILED")
PUT_TIMEOUT_S: Final = 600.0


class CacheReport(msgspec.Struct, frozen=True):
    """How far a cache was distributed when `cache_put` returned.

    Attributes:
        workers: The connected workers that match the target.
        needed: How many of them were required to hold it.
        timed_out: Whether the timeout ended the wait.
    """

    cache_id: str
    workers: tuple[HolderView, ...]
    needed: int
    timed_out: bool = False

    @property
    def held(self) -> int:
        """How many workers hold it."""
        return sum(1 for worker in self.workers if worker.status in HAVE)

    @property
    def is_enough(self) -> bool:
        """Whether the required number of workers hold it."""
        return self.held >= self.needed

    def raise_for_status(self) -> CacheReport:
        """Return itself, if enough workers hold the cache.

        Raises:
            DeadlineError: TIMED_OUT.
            StateError: too many workers failed; the message has the error of one of them.
        """
        if self.is_enough:
            return self
        lacks = [one for one in self.workers if one.status not in HAVE]
        what = f"{self.held} of {self.needed} workers hold the cache {self.cache_id!r}"
        why = f"; {lacks[0].name}: {lacks[0].message or lacks[0].status.lower()}" if lacks else ""
        hint = "workers are told again by themselves; `rollq cache ls` shows how it goes on"
        if self.timed_out:
            raise DeadlineError(ErrorCode.TIMED_OUT, what + why, hint)
        raise StateError(ErrorCode.WRONG_STATE, what + why, hint)


class CacheCalls(GroupCalls):
    """Caches of one group, and blobs."""

    async def cache_put(
        self,
        cache_id: str,
        files: Mapping[str, Any],
        *,
        target: str = "",
        need: int | str = "all",
        timeout: float = PUT_TIMEOUT_S,
        on_upload: BytesMoved | None = None,
        on_spread: Spread | None = None,
    ) -> CacheReport:
        """Store files in the group under a name, and wait until workers hold them.

        Storing the same files again is a no-op. Workers that connect later fetch them by
        themselves.

        Args:
            cache_id: The name that jobs refer to.
            files: Names, and bytes, paths (a folder includes its files) or references to blobs.
            target: The workers to distribute to: those with a pattern that overlaps this one;
                empty: all.
            need: How many must hold them: `all` connected ones, a number, or a share like `50%`.
            timeout: How many seconds to wait for the workers. An upload that makes progress does
                not count; finding a leader may take this long or the client's timeout, the shorter
                one.
            on_upload: Called with the bytes uploaded and the total.
            on_spread: Called repeatedly with the state of every worker.

        Raises:
            StateError: CACHE_CONFLICT if the name has other files.
            LocalError: a file cannot be read, or a name is invalid.
        """
        count = needed_of(need)
        if target:
            check_typed(target)
        pattern = worker_pattern(target)
        entries, pieces = await self._engine.inputs.entries(files)
        for tries in range(CLIENT_UPLOAD_TRIES):
            await self._give(
                pieces, on_upload, min(timeout, self._engine.timeout_s), again=tries > 0
            )
            try:
                await self._change(
                    "put_cache", cache_id=cache_id, entries=entries, target_pattern=target
                )
                break
            except RollqError as error:  # storing again is idempotent
                again = error.code in (ErrorCode.BLOB_MISSING, ErrorCode.OUTCOME_UNKNOWN)
                if not again or tries + 1 == CLIENT_UPLOAD_TRIES:
                    raise
            await asyncio.sleep((tries + 1) * CLIENT_AGAIN_MS / 1000)
        return await self._spread(cache_id, pattern, count, timeout_s=timeout, on_spread=on_spread)

    async def upload(self, content: bytes) -> BlobRef:
        """Store bytes in the group as a blob. It is kept for at least an hour, and longer if a job
        or a cache refers to it by then."""
        entries, pieces = await self._engine.inputs.entries({"content": content})
        await self._engine.supplier.give(pieces, None, again=False)
        return entries[0].blob

    async def download(self, ref: BlobRef) -> bytes:
        """Return the bytes of a blob, after verifying its digest."""
        return await Output("content", ref, fetcher=self._engine).aread()

    async def cache_remove(self, cache_id: str) -> None:
        """Remove a cache. Workers delete its files when no job needs them any more.

        Raises:
            StateError: UNKNOWN_CACHE.
        """
        await self._change("remove_cache", cache_id=cache_id)

    async def cache(self, cache_id: str) -> CacheView | None:
        """Return a cache with its files; None if it does not exist."""
        return decode_known(await self._query("cache", cache_id.encode()), CacheView)

    async def cache_holders(self, cache_id: str) -> list[HolderView]:
        """Return the state of a cache on every connected worker that matches its target."""
        answer = await self._query("holders", cache_id.encode())
        return [HolderView.of(one) for one in decode_as(answer, list[views.RawHolderView])]

    async def _give(
        self,
        pieces: Sequence[InputBlob],
        on_upload: BytesMoved | None,
        find_s: float,
        *,
        again: bool,
    ) -> None:
        """Upload the files that the group does not have.

        Raises:
            DeadlineError: TIMED_OUT, if no leader was found in time.
        """
        given = asyncio.ensure_future(self._engine.supplier.give(pieces, on_upload, again=again))
        try:
            if not await self._engine.uploaded(given, find_s):
                raise self._engine.timeout_error("the files of a cache", find_s, submits=False)
        finally:
            given.cancel()
        await given

    async def _spread(
        self,
        cache_id: str,
        pattern: str,
        needed: Callable[[int], int],
        *,
        timeout_s: float,
        on_spread: Spread | None,
    ) -> CacheReport:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while True:
            workers = [
                one
                for one in await self.cache_holders(cache_id)
                if any(overlaps(pattern, mine) for mine in one.patterns)
            ]
            if on_spread is not None:
                on_spread(workers)
            count = needed(len(workers))
            report = CacheReport(cache_id, tuple(workers), count)
            is_over = count <= len(workers) and all(one.status in OVER for one in workers)
            if report.is_enough or is_over:
                return report
            if loop.time() + LOOK_S > deadline:
                return msgspec.structs.replace(report, timed_out=True)
            await asyncio.sleep(LOOK_S)


class Caches(CacheCalls):
    """`client.caches`. Calling it iterates over all caches."""

    async def __call__(self) -> AsyncGenerator[CacheView, None]:
        """Iterate over all caches, without their files, ordered by name."""
        after = ""
        kind = list[CacheView]
        while page := decode_as(await self._query("caches", after.encode(), PAGE), kind):
            for view in page:
                yield view
            after = page[-1].cache_id

    async def supply(self, pieces: Sequence[InputBlob]) -> None:
        """Like `upload`, for files that have been read already."""
        await self._engine.supplier.give(pieces, None, again=False)


def needed_of(need: int | str) -> Callable[[int], int]:
    """Parse `need` to a function from the number of workers to how many must hold a cache.

    Raises:
        LocalError: BAD_OPTIONS.
    """
    text = str(need).strip().lower()
    if text == "all":
        return lambda count: count
    number = text.removesuffix("%")
    if not number.isdecimal() or (number != text and int(number) > 100):
        raise LocalError(
            ErrorCode.BAD_OPTIONS, f"need {text[:32]!r}", "use `all`, a number, or 0% to 100%"
        )
    if number == text:
        return lambda _: int(number)
    return lambda count: -(-count * int(number) // 100)

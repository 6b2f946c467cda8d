"""`client.caches`: files that workers hold before jobs come, put under a name, looked at, removed.
Also bytes that the group keeps by their digest."""

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
from rollq.roles.client.asking import PAGE, GroupCalls
from rollq.roles.client.outputs import Output
from rollq.roles.client.supply import BytesMoved, InputBlob
from rollq.roles.client.views import CacheView, HolderView
from rollq.subjects.overlap import overlaps
from rollq.subjects.queues import check_typed, worker_pattern

Spread: TypeAlias = Callable[[list[HolderView]], None]

LOOK_S: Final = 0.1  # how often it is asked how far the workers are
HAVE: Final = ("OK", "SKIPPED")
OVER: Final = (*HAVE, "FAILED")
PUT_TIMEOUT_S: Final = 600.0


class CacheReport(msgspec.Struct, frozen=True):
    """How far a cache had spread when nobody waited any longer.

    Attributes:
        workers: Those that were meant and were there.
        needed: How many of them had to have it.
        timed_out: Some had not answered.
    """

    cache_id: str
    workers: tuple[HolderView, ...]
    needed: int
    timed_out: bool = False

    @property
    def held(self) -> int:
        """How many have it."""
        return sum(1 for worker in self.workers if worker.status in HAVE)

    @property
    def is_enough(self) -> bool:
        """Whether as many have it as were needed."""
        return self.held >= self.needed

    def raise_for_status(self) -> CacheReport:
        """Itself, if enough workers have the cache.

        Raises:
            DeadlineError: TIMED_OUT; StateError: too many could not, and why one could not.
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
        """Keep files in the group under a name, and wait until workers hold them.

        The same files again are no error; workers that come later get them by themselves.

        Args:
            cache_id: The name that jobs refer to them by.
            files: Names, and bytes, paths (a folder is its files) or references to blobs.
            target: Which workers are meant: those one of whose patterns overlaps this one; all.
            need: How many must hold them: `all` that are there, a number, or `50%` of those.
            timeout: How many seconds workers have for it. The upload takes as long as it takes,
                but no longer than this, or than calls of this client, to find a leader.
            on_upload: Told how many bytes of how many the group has.
            on_spread: Told what every worker has, again and again.

        Raises:
            StateError: CACHE_CONFLICT if the name holds other files.
            LocalError: a file cannot be read, or a name is refused.
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
            except RollqError as error:  # it may be put twice, and blobs may have to be
                again = error.code in (ErrorCode.BLOB_MISSING, ErrorCode.OUTCOME_UNKNOWN)
                if not again or tries + 1 == CLIENT_UPLOAD_TRIES:
                    raise
            await asyncio.sleep((tries + 1) * CLIENT_AGAIN_MS / 1000)
        return await self._spread(cache_id, pattern, count, timeout_s=timeout, on_spread=on_spread)

    async def upload(self, content: bytes) -> BlobRef:
        """Keep bytes in the group, by their digest. Nothing refers to them yet: they are kept for
        an hour at least, and longer if a job or a cache names them by then."""
        entries, pieces = await self._engine.inputs.entries({"content": content})
        await self._engine.supplier.give(pieces, None, again=False)
        return entries[0].blob

    async def download(self, ref: BlobRef) -> bytes:
        """Bytes that the group keeps, verified."""
        return await Output("content", ref, fetcher=self._engine).aread()

    async def cache_remove(self, cache_id: str) -> None:
        """Let workers forget a cache, as soon as no job needs it.

        Raises:
            StateError: UNKNOWN_CACHE.
        """
        await self._change("remove_cache", cache_id=cache_id)

    async def cache(self, cache_id: str) -> CacheView | None:
        """One cache, with its files; None if there is none."""
        return decode_known(await self._query("cache", cache_id.encode()), CacheView)

    async def cache_holders(self, cache_id: str) -> list[HolderView]:
        """What every worker that is there, and meant to hold a cache, has of it."""
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
        """Send files that the group lacks.

        Raises:
            DeadlineError: TIMED_OUT, if no leader was found in time.
        """
        given = asyncio.ensure_future(self._engine.supplier.give(pieces, on_upload, again=again))
        try:
            if not await self._engine.uploaded(given, find_s):
                raise self._engine.overdue("the files of a cache", find_s, submits=False)
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
    """`client.caches` with a name behind it; called, it gives every cache."""

    async def __call__(self) -> AsyncGenerator[CacheView, None]:
        """Every cache, by name, without its files."""
        after = ""
        kind = list[CacheView]
        while page := decode_as(await self._query("caches", after.encode(), PAGE), kind):
            for view in page:
                yield view
            after = page[-1].cache_id

    async def supply(self, pieces: Sequence[InputBlob]) -> None:
        """As `upload`, of files that were read before."""
        await self._engine.supplier.give(pieces, None, again=False)


def needed_of(need: int | str) -> Callable[[int], int]:
    """How many of so many workers must hold a cache.

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

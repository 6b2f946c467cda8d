"""Uploads and downloads of files of one group. A request that refers to blobs is sent after their
upload; if the leader responds with BLOB_MISSING, they are uploaded again.

There is one task per request that refers to blobs, and none for others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from rollq.base.digests import Digest
from rollq.base.errors import DialError, ErrorCode, RollqError
from rollq.base.ids import MessageId
from rollq.base.jobs import BlobRef
from rollq.base.limits import (
    CLIENT_AGAIN_MS,
    CLIENT_DIGESTS_MAX,
    CLIENT_FETCH_TRIES,
    CLIENT_UPLOAD_TRIES,
    CLIENT_UPLOADS,
)
from rollq.roles.blobs.client import BlobClient
from rollq.roles.client.jobs.supply import (
    NOTHING,
    BytesMoved,
    InputBlob,
    Supply,
    changed,
    check_same,
    refs_of,
)
from rollq.roles.client.session.group_session import Answer, GroupSession, OnAnswer
from rollq.roles.client.session.signals import Request, id_of
from rollq.security.credentials import NONE, Credentials
from rollq.wire import messages as wire
from rollq.wire.blob_messages import CLIENT, READER

log = logging.getLogger("rollq.client")

NEVER: Final = float("-inf")


class Supplier:
    """Sends requests with files, and downloads blobs.

    Args:
        session: The session with the group.
        addresses: The members of the group.
        make: Makes a blob client for a link kind.
        credentials: For its links, if `make` is not given.
    """

    def __init__(
        self,
        session: GroupSession,
        addresses: tuple[str, ...],
        make: Callable[[str], BlobClient] | None = None,
        *,
        credentials: Credentials = NONE,
    ) -> None:
        self.session = session
        self._make = make or partial(_make_client, addresses, credentials)
        self._blobs: dict[str, BlobClient] = {}
        self._tasks: dict[MessageId, tuple[asyncio.Task[None], OnAnswer]] = {}
        self._held: dict[Digest, None] = {}  # known to be in the group
        self._moving: dict[Digest, asyncio.Future[None]] = {}  # being uploaded
        self._uploads = 0
        self._uploaded_at = NEVER
        self._slots: asyncio.Semaphore | None = None
        self._running = False

    def start(self) -> None:
        """Connect to the leader, in the background. Blob links are dialed on first use."""
        self._running = True
        self.session.start()

    def ask(self, request: Request, on_answer: OnAnswer, supply: Supply) -> None:
        """Upload the blobs of a request, then send it; the callback gets the response."""
        if supply is NOTHING and not refs_of(request):
            self.session.ask(request, on_answer)
        else:
            self._begin(request, on_answer, supply, tries=0)

    def give_up(self, request_id: MessageId) -> None:
        """Abandon a request and its uploads."""
        entry = self._tasks.pop(request_id, None)
        if entry is not None:
            entry[0].cancel()
        self.session.give_up(request_id)

    async def give(
        self, pieces: Sequence[InputBlob], progress: BytesMoved | None, *, again: bool
    ) -> None:
        """Upload the files that the group lacks. `again`: after BLOB_MISSING."""
        if again:
            for piece in pieces:
                self._held.pop(piece.ref.digest, None)
        supply = Supply({piece.ref.digest: piece for piece in pieces}, progress)
        await self._upload([piece.ref for piece in pieces], supply, again=again)

    def uploaded_at(self) -> float:
        """When an upload was last in progress, by the loop's clock. One that waits for a leader is
        not in progress."""
        if not self._uploads:
            return self._uploaded_at
        return max(self._uploaded_at, *(one.connected_at() for one in self._blobs.values()), NEVER)

    async def fetch(
        self,
        ref: BlobRef,
        path: Path,
        progress: BytesMoved | None = None,
        tries: int = CLIENT_FETCH_TRIES,
    ) -> None:
        """Download a blob to a file and verify it: from any member, or else from the leader. A new
        leader may have to copy it first, so it is tried several times."""
        for number in range(1, tries + 1):
            who = READER if number % 2 else CLIENT
            try:
                await self._client(who).fetch(ref.digest, path, ref.size, progress)
                return
            except RollqError as error:
                if error.code is not ErrorCode.BLOB_MISSING or number == tries:
                    raise
            await asyncio.sleep(number * CLIENT_AGAIN_MS / 1000)

    async def stop(self) -> None:
        """Close all connections, and fail pending requests."""
        self._running = False
        tasks, self._tasks = self._tasks, {}
        for request_id, (task, on_answer) in tasks.items():
            task.cancel()
            on_answer(wire.Error(request_id, int(ErrorCode.DISCONNECTED), "the client was stopped"))
        await asyncio.gather(*(task for task, _ in tasks.values()), return_exceptions=True)
        blobs, self._blobs = self._blobs, {}
        for one in blobs.values():
            await one.stop()
        await self.session.stop()

    # --- one request

    def _begin(self, request: Request, on_answer: OnAnswer, supply: Supply, tries: int) -> None:
        request_id = id_of(request)
        task = asyncio.get_running_loop().create_task(
            self._upload_and_send(request, on_answer, supply, tries)
        )
        self._tasks[request_id] = (task, on_answer)

    async def _upload_and_send(
        self, request: Request, on_answer: OnAnswer, supply: Supply, tries: int
    ) -> None:
        request_id = id_of(request)
        try:
            if tries:
                await asyncio.sleep(tries * CLIENT_AGAIN_MS / 1000)
            await self._upload(refs_of(request), supply, again=tries > 0)
            self._tasks.pop(request_id, None)
            self.session.ask(
                request,
                lambda answer: self._on_response(answer, request, on_answer, supply, tries=tries),
            )
        except RollqError as error:
            self._tasks.pop(request_id, None)
            on_answer(wire.Error(request_id, int(error.code), error.message, error.hint))

    def _on_response(
        self,
        answer: Answer,
        request: Request,
        on_answer: OnAnswer,
        supply: Supply,
        *,
        tries: int,
    ) -> None:
        lacks = type(answer) is wire.Error and answer.code == ErrorCode.BLOB_MISSING
        if not lacks or tries + 1 >= CLIENT_UPLOAD_TRIES:
            on_answer(answer)
            return
        log.info("the leader lacks files of a job: uploading them again")
        for ref in refs_of(request):
            self._held.pop(ref.digest, None)
        self._begin(request, on_answer, supply, tries + 1)

    # --- its files

    async def _upload(self, refs: Iterable[BlobRef], supply: Supply, *, again: bool) -> None:
        """Upload the missing blobs, several at a time. `again`: upload them even if the group has
        some, because too few of its members may have them."""
        pieces = [supply.pieces[ref.digest] for ref in refs if ref.digest in supply.pieces]
        tally = _Tally(pieces, supply.progress)
        self._uploads += 1
        try:
            await self._send(pieces, tally, again=again)
        finally:
            self._uploads -= 1
            self._uploaded_at = asyncio.get_running_loop().time()

    async def _send(self, pieces: list[InputBlob], tally: _Tally, *, again: bool) -> None:
        missing = [piece for piece in pieces if piece.ref.digest not in self._held]
        if len(missing) > 1 and not again:
            had = await self._client().have([piece.ref.digest for piece in missing])
            missing = [piece for piece in missing if had.get(piece.ref.digest) != piece.ref.size]
        tally.begin(missing)
        await _all(self._put(piece, tally) for piece in missing)
        for piece in pieces:
            self._held[piece.ref.digest] = None
        while len(self._held) > CLIENT_DIGESTS_MAX:
            del self._held[next(iter(self._held))]

    async def _put(self, piece: InputBlob, tally: _Tally) -> None:
        if self._slots is None:
            self._slots = asyncio.Semaphore(CLIENT_UPLOADS)
        digest = piece.ref.digest
        while digest in self._moving:  # by another request that shares the file
            await asyncio.wait((self._moving[digest],))
        if digest not in self._held:
            self._moving[digest] = moved = asyncio.get_running_loop().create_future()
            try:
                async with self._slots:
                    await self._move(piece, tally)
                self._held[digest] = None
            finally:
                del self._moving[digest]
                moved.set_result(None)
        tally.moved(digest, piece.ref.size, piece.ref.size)

    async def _move(self, piece: InputBlob, tally: _Tally) -> None:
        await asyncio.to_thread(check_same, piece)
        digest = piece.ref.digest
        try:
            await self._client().put(piece.source, partial(tally.moved, digest), digest)
        except RollqError as error:
            if error.code is ErrorCode.BLOB_CORRUPT and isinstance(piece.source, Path):
                raise changed(piece.name, piece.source) from None
            raise

    def _client(self, who: str = CLIENT) -> BlobClient:
        if not self._running:
            raise DialError(ErrorCode.DISCONNECTED, "the client was stopped")
        if who not in self._blobs:
            self._blobs[who] = self._make(who)
        return self._blobs[who]


def _make_client(addresses: tuple[str, ...], credentials: Credentials, who: str) -> BlobClient:
    return BlobClient(addresses, who=who, credentials=credentials)


class _Tally:
    """The upload progress of a request."""

    def __init__(self, pieces: list[InputBlob], progress: BytesMoved | None) -> None:
        self._sizes = {piece.ref.digest: piece.ref.size for piece in pieces}
        self._total = sum(self._sizes.values())
        self._done = self._total
        self._moved: dict[Digest, int] = {}
        self._progress = progress

    def begin(self, missing: list[InputBlob]) -> None:
        """Count only these as missing."""
        self._moved = {piece.ref.digest: 0 for piece in missing}
        self._done = self._total - sum(piece.ref.size for piece in missing)
        self._report()

    def moved(self, digest: Digest, done: int, _: int) -> None:
        """Record the progress of one blob."""
        if done > self._moved[digest]:
            self._done += done - self._moved[digest]
            self._moved[digest] = done
            self._report()

    def _report(self) -> None:
        if self._progress is None or not self._total:
            return
        try:
            self._progress(self._done, self._total)
        except Exception:  # of the callback; it must not end the transfer
            log.exception("the progress callback of an upload failed and is no longer called")
            self._progress = None


async def _all(calls: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run all concurrently; the first error cancels the others."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

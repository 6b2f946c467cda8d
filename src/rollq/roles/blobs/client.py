"""The asyncio client for the blobs of a group.

One link to the leader carries all transfers, several at once. It is opened on demand, follows the
leader, and is reopened after a disconnect: transfers resume at the offset of the receiver. At most
one window of a blob is in memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import ParamSpec, TypeVar

from rollq.base.digests import Digest, digest_to_text
from rollq.base.errors import DialError, ErrorCode, LocalError, RollqError, StateError
from rollq.base.jobs import BlobRef
from rollq.base.limits import BLOB_ASK_MAX, BLOB_TRANSFERS_MAX
from rollq.net.dialer import dial
from rollq.roles.blobs.carrier import Sink, Source, make_pool
from rollq.roles.blobs.client_session import BlobClientSession, Progress, connect
from rollq.roles.blobs.failures import FETCH_TRIES, may_fetch_again
from rollq.roles.blobs.files import BytesSource, FileSink, FileSource
from rollq.roles.blobs.pace import Throttle
from rollq.roles.blobs.relay import Growth
from rollq.roles.blobs.server import Store
from rollq.roles.redial import Redial
from rollq.roles.service import SystemJitter
from rollq.security.credentials import NONE, Credentials
from rollq.security.identity import CertificateRole
from rollq.security.mode import Mode
from rollq.wire.blob_messages import CLIENT, MEMBER, MISSING

log = logging.getLogger("rollq.blobs")

T = TypeVar("T")
P = ParamSpec("P")

PATIENCE_S = 60.0
RETRY_MS = 50
NEVER = float("-inf")
# Errors after which a retry may succeed: the member is gone, not the leader, or overloaded.
RETRYABLE = frozenset(
    (
        ErrorCode.NOT_LEADER,
        ErrorCode.NOT_READY,
        ErrorCode.OVERLOADED,
        ErrorCode.DISCONNECTED,
        ErrorCode.UNREACHABLE,
    )
)


class BlobClient:
    """Uploads and downloads blobs. Safe for concurrent tasks; `async with`, or `stop`.

    Args:
        addresses: Members of the group; one is enough to find the rest.
        group: Its name; empty: any.
        who: The peer's role in the hello: client, worker or member.
        patience_s: A transfer fails after so long without progress.
        pool: Threads shared with others; None: its own.
        pace: Throttle; as for the server.
        credentials: As for `dial`, and so `tls` and `peer`.
    """

    def __init__(
        self,
        addresses: Iterable[str],
        group: str = "",
        who: str = CLIENT,
        patience_s: float = PATIENCE_S,
        *,
        pool: ThreadPoolExecutor | None = None,
        pace: Throttle | None = None,
        credentials: Credentials = NONE,
        tls: Mode | None = None,
        peer: CertificateRole = CertificateRole.MEMBER,
    ) -> None:
        self._redial = Redial(addresses, SystemJitter())
        self._group = group
        self._who = who
        self._patience_s = patience_s
        self._session: BlobClientSession | None = None
        self._lost_at = NEVER  # when a session with pending requests broke
        self._dialling = asyncio.Lock()
        self._shared_pool = pool
        self._pace = pace
        self._dial = partial(dial, credentials=credentials, tls=tls, peer=peer)
        self._pool: ThreadPoolExecutor | None = None
        self._puts = asyncio.Semaphore(BLOB_TRANSFERS_MAX)
        self._gets = asyncio.Semaphore(BLOB_TRANSFERS_MAX)
        self._busy: dict[tuple[str, Digest], tuple[asyncio.Lock, int]] = {}

    async def __aenter__(self) -> BlobClient:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Find the leader now, to fail early; otherwise the first use does. Idempotent.

        Raises:
            DialError: UNREACHABLE, or the error that the leader answers.
        """
        try:
            await self._leader(asyncio.get_running_loop().time() + self._patience_s)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Close the link. Transfers in progress fail."""
        session, self._session = self._session, None
        if session is not None:
            session.link.close("the client stops")
            await session.settle()
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False)
            # At interpreter exit the default executor is gone, and the threads have ended.
            with contextlib.suppress(RuntimeError):
                await asyncio.get_running_loop().run_in_executor(None, pool.shutdown)

    def connected_at(self) -> float:
        """When a session was last open, on the loop's clock; now, if one is."""
        is_open = self._session is not None and self._session.link.is_open
        return asyncio.get_running_loop().time() if is_open else self._lost_at

    async def have(self, digests: Iterable[Digest]) -> dict[Digest, int]:
        """The blobs that the group has, with their sizes."""
        wanted = list(dict.fromkeys(digests))
        found: dict[Digest, int] = {}
        for at in range(0, len(wanted), BLOB_ASK_MAX):
            page = tuple(wanted[at : at + BLOB_ASK_MAX])
            sizes = await self._try("blobs", partial(_ask, page))
            found |= {
                digest: size for digest, size in zip(page, sizes, strict=True) if size != MISSING
            }
        return found

    async def put(
        self, source: Path | bytes, progress: Progress | None = None, digest: Digest | None = None
    ) -> BlobRef:
        """Upload a file or bytes; returns when a majority has stored it. With `digest` the source
        is read only once.

        Raises:
            RollqError: BLOB_CORRUPT if the file changes meanwhile, DISK_FULL, and so on.
        """
        opened = await self._on_pool(_open_source, source)
        try:
            if digest is None:
                digest = await self._on_pool(opened.digest)
            async with self._exclusive("put", digest), self._puts:
                act = partial(_put, digest, opened, progress)
                is_same = partial(_has_digest, opened, digest)
                await self._upload(opened.name, act, is_same)
            return BlobRef(digest, opened.size)
        finally:
            await self._on_pool(opened.close)

    async def give(
        self,
        digest: Digest,
        open_source: Callable[[], Source],
        growth: Growth | None = None,
        progress: Progress | None = None,
    ) -> int:
        """Upload the blob of this digest; returns its size. It is opened when a slot is free. A
        blob that is itself still being received is sent as it grows, before its digest is verified.

        Raises:
            RollqError: as `put`, and errors of `open_source`.
        """
        async with self._exclusive("put", digest), self._puts:
            source = await self._on_pool(open_source)
            try:
                name = f"blob {digest_to_text(digest)}"
                act = partial(_put, digest, source, progress, growth=growth)
                await self._upload(name, act, lambda: growth is None)
                return source.size
            finally:
                await self._on_pool(source.close)

    async def fetch(
        self,
        digest: Digest,
        into: Store | Path,
        size: int | None = None,
        progress: Progress | None = None,
    ) -> int:
        """Download a blob into a store or a file, and verify it; returns its size, which is queried
        if it is not given.

        Raises:
            RollqError: BLOB_MISSING, BLOB_CORRUPT, DISK_FULL, and so on.
        """
        if size is None:
            size = (await self.have((digest,))).get(digest)
        if size is None:
            raise StateError(ErrorCode.BLOB_MISSING, f"no blob {digest_to_text(digest)}")
        name = str(into) if isinstance(into, Path) else f"blob {digest_to_text(digest)}"
        # A member tries another member next; other peers give this one time to repair its copy.
        tries_left = 1 if self._who == MEMBER else FETCH_TRIES
        async with self._exclusive("get", digest), self._gets:
            while tries_left:
                tries_left -= 1
                try:
                    await self._get(name, digest, size, into, progress)
                    break
                except RollqError as error:
                    if not may_fetch_again(error, tries_left):
                        raise
                    log.warning("%s", error)
        return size

    # --- helpers

    async def _get(
        self,
        name: str,
        digest: Digest,
        size: int,
        into: Store | Path,
        progress: Progress | None,
    ) -> None:
        sink = await self._on_pool(_sink_of, into, digest, size)
        if sink is not None:
            try:
                await self._try(name, lambda session: session.get(digest, size, sink, progress))
            finally:
                await self._on_pool(sink.close)

    async def _upload(
        self,
        name: str,
        act: Callable[[BlobClientSession], Awaitable[None]],
        is_same: Callable[[], bool],
    ) -> None:
        """Upload, and once more if it arrived corrupt while the source is intact: the remains of an
        earlier upload that it was appended to were damaged, and are deleted now."""
        try:
            await self._try(name, act)
        except RollqError as error:
            if error.code is not ErrorCode.BLOB_CORRUPT or not await self._on_pool(is_same):
                raise
            log.info("%s: sending again: %s", name, error)
            await self._try(name, act)

    async def _try(self, name: str, act: Callable[[BlobClientSession], Awaitable[T]]) -> T:
        """Run a request on the leader's session, with retries."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._patience_s
        while True:
            session = await self._leader(deadline)
            moved_bytes = session.moved_bytes
            try:
                return await act(session)
            except RollqError as error:
                self._lost_at = loop.time()
                if error.code not in RETRYABLE:
                    raise type(error)(error.code, f"{name}: {error.message}", error.hint) from None
                if session.moved_bytes > moved_bytes:
                    deadline = loop.time() + self._patience_s
                if loop.time() > deadline:
                    raise
                log.info("%s: trying again: %s", name, error)
                await self._prepare_retry(session, error)

    async def _leader(self, deadline: float) -> BlobClientSession:
        """An open session with the leader."""
        async with self._dialling:
            loop = asyncio.get_running_loop()
            while self._session is None or not self._session.link.is_open:
                try:
                    answer = await connect(
                        self._redial.address,
                        self._group,
                        self._who,
                        self._threads(),
                        self._pace,
                        dial=self._dial,
                    )
                except RollqError as error:
                    if not error.retryable:
                        raise
                    log.info("%s", error)
                    is_silent = error.code is ErrorCode.TIMED_OUT
                    _, wait_ms = self._redial.silent() if is_silent else self._redial.failed()
                else:
                    if isinstance(answer, BlobClientSession):
                        self._redial.welcomed()
                        self._session = answer
                        break
                    _, wait_ms = self._redial.redirected(answer.leader, answer.members)
                if loop.time() + wait_ms / 1000 > deadline:
                    raise DialError(
                        ErrorCode.UNREACHABLE,
                        f"no leader was found within {self._patience_s:g} s",
                        "check the addresses, and that a majority of the members runs",
                    )
                await asyncio.sleep(wait_ms / 1000)
            return self._session

    async def _prepare_retry(self, session: BlobClientSession, error: RollqError) -> None:
        """Prepare a retry."""
        if error.code is ErrorCode.NOT_LEADER and self._session is session:
            self._session = None
            session.link.close("it does not lead any more")
            self._redial.failed()
        elif session.is_silent and self._session is session:
            self._session = None
            self._redial.silent()
        await asyncio.sleep(RETRY_MS / 1000)

    @contextlib.asynccontextmanager
    async def _exclusive(self, what: str, digest: Digest) -> AsyncIterator[None]:
        """Serialise transfers of one blob in one direction: the second then has nothing left to
        do."""
        key = (what, digest)
        lock, users = self._busy.get(key, (asyncio.Lock(), 0))
        self._busy[key] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            lock, users = self._busy.pop(key)
            if users > 1:
                self._busy[key] = (lock, users - 1)

    async def _on_pool(self, task: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads(), partial(task, *args, **kwargs))

    def _threads(self) -> ThreadPoolExecutor:
        if self._shared_pool is not None:
            return self._shared_pool
        if self._pool is None:
            self._pool = make_pool()
        return self._pool


def _ask(page: tuple[Digest, ...], session: BlobClientSession) -> Awaitable[tuple[int, ...]]:
    return session.ask(page)


def _put(
    digest: Digest,
    source: Source,
    progress: Progress | None,
    session: BlobClientSession,
    growth: Growth | None = None,
) -> Awaitable[None]:
    return session.put(digest, source, progress, growth)


def _has_digest(source: FileSource | BytesSource, digest: Digest) -> bool:
    return source.digest() == digest


def _open_source(source: Path | bytes) -> FileSource | BytesSource:
    if isinstance(source, bytes):
        return BytesSource(source)
    try:
        return FileSource(source)
    except OSError as error:
        raise LocalError(ErrorCode.BAD_SETUP, f"{source}: {error.strerror}") from None


def _sink_of(into: Store | Path, digest: Digest, size: int) -> Sink | None:
    """The sink for a download; None if the blob is present."""
    if isinstance(into, Path):
        return FileSink(into, digest, size)
    return into.begin(digest, size) if into.size(digest) is None else None

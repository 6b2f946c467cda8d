"""Serves the blobs of a store on links whose first frame is HelloBlobs.

Has no socket of its own: whoever listens hands over such links with all that comes on them. What
may be stored, and where copies must be before it counts as stored, is not decided here: `greet`
says who is welcome, and `stored` is awaited before BlobStored is said.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol, TypeAlias

from rollq.base.digests import Digest, digest_to_text
from rollq.base.errors import ErrorCode, RemoteError, RollqError, StateError
from rollq.base.ids import NIL_ID
from rollq.base.limits import (
    BLOB_ALIVE_MS,
    BLOB_DOWNLOADS_MAX,
    BLOB_UPLOADS_MAX,
)
from rollq.net.link import Link
from rollq.roles.blobs.carrier import Carrier, Sink, Source, as_rollq_error, make_pool
from rollq.roles.blobs.orders import AnyOrder, Begin, Close, Commit, Doubt, Look, Open, Vouch
from rollq.roles.blobs.server_machine import ServerMachine
from rollq.roles.blobs.turns import Turns
from rollq.roles.service import end_tasks
from rollq.store.blobs.failures import blob_missing
from rollq.wire.blob_messages import COMPLETE, MEMBER, MISSING, READER, HelloBlobs
from rollq.wire.compact import Message
from rollq.wire.compression import ZSTD
from rollq.wire.messages import Error, NotLeader, Welcome

log = logging.getLogger("rollq.blobs")

Greeting: TypeAlias = Welcome | NotLeader | Error

EVERYWHERE = (MEMBER, READER)  # who may come to any member


class Store(Protocol):
    """What is needed of a blob store. Called from threads."""

    def size(self, digest: Digest) -> int | None:
        """How many bytes it has; None if it is not there."""

    def begin(self, digest: Digest, size: int) -> Sink:
        """Write it, from where an earlier try ended."""

    def open(self, digest: Digest) -> Source:
        """Read it."""


class BlobServer:
    """All links for blobs of one listener. `start` and `stop` may be called twice.

    Args:
        store: Where blobs are.
        greet: The answer to a hello.
        stored: Awaited when a blob that a client or worker gave is stored here, before it is told
            so; what it raises is told instead. Members ask for their own copy alone.
        is_busy: Whether there is work that must not wait: blobs then take less of the machine.
            Called from threads.
        heal: Brings back a blob that is not here or may be rotten, if that can be done. Awaited
            before a client or worker is told that there is none.
    """

    def __init__(
        self,
        store: Store,
        greet: Callable[[HelloBlobs], Greeting],
        stored: Callable[[Digest], Awaitable[None]] | None = None,
        is_busy: Callable[[], bool] | None = None,
        heal: Callable[[Digest], Awaitable[None]] | None = None,
    ) -> None:
        self.store = store
        self.stored = stored
        self.is_busy = is_busy
        self.heal = heal
        # Who fetches a blob from elsewhere takes part as well, so that it does not come twice.
        self.uploads: Turns[Digest, object] = Turns(BLOB_UPLOADS_MAX)
        self.downloads: Turns[tuple[Session, int], tuple[Session, int]] = Turns(BLOB_DOWNLOADS_MAX)
        self._greet = greet
        self._sessions: dict[Link, Session] = {}
        self._healing: dict[Digest, asyncio.Task[None]] = {}
        self._pool: ThreadPoolExecutor | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Serve links from now on."""
        if self._pool is None:
            self._pool = make_pool()

    async def stop(self) -> None:
        """Let go of all links (whoever listens closes them) and finish what is being written."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        sessions = list(self._sessions.values())
        for link in list(self._sessions):
            self.closed(link, "the server stops")
        for session in sessions:
            await session.settle()
        await end_tasks(self._healing.values())
        await asyncio.get_running_loop().run_in_executor(None, pool.shutdown)

    def __contains__(self, link: Link) -> bool:
        return link in self._sessions

    def hear(self, link: Link, messages: Sequence[Message]) -> None:
        """Everything that comes on a link for blobs, its hello first."""
        session = self._sessions.get(link)
        if session is None:
            self._welcome(link, messages[0])
        else:
            session.hear(messages)

    def closed(self, link: Link, reason: str) -> None:
        """A link is gone. Others are none of our business."""
        session = self._sessions.pop(link, None)
        if session is not None:
            log.debug("blobs: %s is gone: %s", link.address, reason)
            session.end()

    def healing(self, digest: Digest) -> asyncio.Task[None] | None:
        """What is being done for a blob that is missed or doubted, if anything is."""
        return self._healing.get(digest)

    def start_healing(self, digest: Digest) -> asyncio.Task[None] | None:
        """Look after a blob; once at a time. None if that cannot be done here."""
        if self.heal is None or self._pool is None:
            return None
        if digest not in self._healing:
            if len(self._healing) >= BLOB_DOWNLOADS_MAX:
                return None
            task = asyncio.ensure_future(self._heal(self.heal, digest))
            self._healing[digest] = task
            task.add_done_callback(lambda _: self._healing.pop(digest))
        return self._healing[digest]

    async def _heal(self, heal: Callable[[Digest], Awaitable[None]], digest: Digest) -> None:
        try:
            await heal(digest)
        except RollqError as error:
            log.warning("blob %s cannot be brought back: %s", digest_to_text(digest), error)

    def send_away(self, to: NotLeader) -> None:
        """This member does not lead any more: what clients and workers give belongs elsewhere."""
        for link, session in list(self._sessions.items()):
            if session.who not in EVERYWHERE:
                link.send(to)
                link.close("not the leader any more")

    def _welcome(self, link: Link, hello: Message) -> None:
        if self._pool is None or not isinstance(hello, HelloBlobs):
            link.close("no blobs are served")
            return
        greeting = self._greet(hello)
        link.send(greeting)
        if not isinstance(greeting, Welcome):
            link.close("it is not served here")
            return
        packs = ZSTD in greeting.features
        self._sessions[link] = Session(self, link, self._pool, packs=packs, who=hello.who)
        if self._timer is None:
            self._tick_later()

    def _tick_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(BLOB_ALIVE_MS / 1000, self._tick)

    def _tick(self) -> None:
        self._timer = None
        for session in list(self._sessions.values()):
            session.tick()
        if self._sessions and self._pool is not None:
            self._tick_later()


class Session(Carrier):
    """One link."""

    machine: ServerMachine

    def __init__(
        self, server: BlobServer, link: Link, pool: ThreadPoolExecutor, *, packs: bool, who: str
    ) -> None:
        super().__init__(link, ServerMachine(), pool, packs=packs, is_busy=server.is_busy)
        self._server = server
        self.who = who
        self._is_member = who == MEMBER
        self._digests: dict[int, Digest] = {}
        self._waits: dict[int, asyncio.Task[None]] = {}

    def hear(self, messages: Sequence[Message]) -> None:
        """The peer said something."""
        try:
            for message in messages:
                self.machine.heard(message)
        except RemoteError as error:
            log.warning("blobs: %s is cut off: %s", self.link.address, error)
            self.link.send(Error(NIL_ID, error.code, error.message, error.hint, error.retryable))
            self.link.close(str(error))
        self.pump()
        # One read a turn of the loop: what else the socket holds waits for everybody's next turn.
        self.link.pause()
        self._loop.call_soon(self._listen)

    def tick(self) -> None:
        """A second has passed."""
        if self.machine.tick():
            self.link.abort("a transfer of blobs has stalled")
        self.pump()

    def end(self) -> None:
        """The link is gone."""
        self.machine.closed()
        self.pump()

    def obey(self, order: AnyOrder) -> None:
        """Carry out an order."""
        if isinstance(order, Begin):
            self._digests[order.number] = order.digest
            start = partial(self._begin, order)
            self._server.uploads.enter(order.digest, (self, order.number), start)
        elif isinstance(order, Open):
            me = (self, order.number)
            self._server.downloads.enter(me, me, partial(self._open, order, None))
        elif isinstance(order, Commit):
            digest = self._digests[order.number]
            self.commit(order, digest, partial(self._committed, order.number))
        elif isinstance(order, Vouch):
            task = self._loop.create_task(self._vouch(order))
            self._waits[order.number] = task
        elif isinstance(order, Doubt):
            self._server.start_healing(order.digest)
        elif isinstance(order, Close):
            self._close(order.number)
        elif isinstance(order, Look):
            self.on_pool(partial(self._look, order.digests), partial(self._looked, order))

    def has_closed(self, number: int) -> None:
        """Let somebody else have the turn."""
        me = (self, number)
        digest = self._digests.pop(number, None)
        if digest is not None:
            self._server.uploads.leave(digest, me)
        else:
            self._server.downloads.leave(me, me)

    def _begin(self, order: Begin) -> None:
        def task() -> int:
            if self._server.store.size(order.digest) != order.size:
                sink = self._server.store.begin(order.digest, order.size)
                self.things[order.number] = sink
                return sink.offset
            return COMPLETE

        def begun(offset: int) -> None:
            self.machine.begun(order.number, offset)
            if offset == COMPLETE:
                self.close(order.number)  # nothing is written: others may have the turn

        self.work(order.number, order.digest, task, begun)

    def _open(self, order: Open, healed: asyncio.Task[None] | None) -> None:
        """Open it, or have it healed first, and then open it whatever came of that."""
        healing = None if healed is not None else self._server.healing(order.digest)
        if healing is not None and not self._is_member:
            self._open_later(order, healing)
            return

        def task() -> int:
            try:
                source = self._server.store.open(order.digest)
            except StateError as error:
                if error.code is not ErrorCode.BLOB_MISSING:
                    raise
                return MISSING
            self.things[order.number] = source
            return source.size

        def opened(size: int) -> None:
            if size != MISSING:
                self.machine.opened(order.number, order.digest, size)
                return
            heals = healed is None and not self._is_member
            healing = self._server.start_healing(order.digest) if heals else None
            if healing is not None:
                self._open_later(order, healing)
            else:
                self.machine.failed(order.number, order.digest, blob_missing(order.digest))

        self.work(order.number, order.digest, task, opened)

    def _open_later(self, order: Open, healing: asyncio.Task[None]) -> None:
        async def wait() -> None:
            await asyncio.wait((healing,))
            self._waits.pop(order.number, None)
            self._open(order, healing)

        self._waits[order.number] = self._loop.create_task(wait())

    def _committed(self, number: int, _: None) -> None:
        self.machine.committed(number)
        # Whoever waits to give the same blob need not wait for all the copies.
        self.close(number)

    async def _vouch(self, order: Vouch) -> None:
        try:
            if self._server.stored is not None and not self._is_member:
                await self._server.stored(order.digest)
        except Exception as error:
            self.machine.failed(order.number, order.digest, as_rollq_error(error, order.digest))
        else:
            self.machine.vouched(order.number)
        self._waits.pop(order.number, None)
        self.pump()

    def _close(self, number: int) -> None:
        task = self._waits.pop(number, None)
        if task is not None:
            task.cancel()
        self.close(number)

    def _look(self, digests: tuple[Digest, ...]) -> tuple[int, ...]:
        sizes = map(self._server.store.size, digests)
        return tuple(MISSING if size is None else size for size in sizes)

    def _looked(self, order: Look, future: asyncio.Future[tuple[int, ...]]) -> None:
        if future.cancelled():
            return
        if future.exception() is not None:
            self.link.abort(f"blobs cannot be looked up: {future.exception()}")
            return
        self.machine.looked(order.request_id, future.result())
        self._listen()
        self.pump()

    def _listen(self) -> None:
        if not self.machine.is_busy:
            self.link.resume()

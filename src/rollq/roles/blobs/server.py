"""Serves the blobs of a store on links whose first frame is HelloBlobs.

Has no socket of its own: the listener hands over such links with all that comes on them. What
may be stored, and where copies must be before it counts as stored, is not decided here: `greet`
says who is welcome, and `stored` is awaited before BlobStored is said.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeAlias

from rollq.base.access import Principal
from rollq.base.digests import Digest, digest_to_text
from rollq.base.errors import RollqError
from rollq.base.limits import (
    BLOB_ALIVE_MS,
    BLOB_DOWNLOADS_MAX,
    BLOB_UPLOADS_MAX,
    BLOB_WRITERS_MAX,
)
from rollq.net.link import Link
from rollq.roles.blobs.carrier import Sink, Source, make_pool
from rollq.roles.blobs.counted import TransferCounters
from rollq.roles.blobs.pace import Pace
from rollq.roles.blobs.relay import Relay
from rollq.roles.blobs.server_session import ServerSession
from rollq.roles.blobs.turns import Turns
from rollq.roles.service import end_tasks
from rollq.wire.blob_messages import MEMBER, READER, HelloBlobs
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


class Writers(dict[Digest, str]):
    """Who brought what there is of blobs that are not whole; the oldest are forgotten, and bring it
    again. Used on threads, by one at a time for each blob."""

    def __setitem__(self, digest: Digest, account: str) -> None:
        if len(self) >= BLOB_WRITERS_MAX:
            self.pop(next(iter(self)), None)
        super().__setitem__(digest, account)


class BlobServer:
    """All links for blobs of one listener. `start` and `stop` may be called twice.

    Args:
        store: Where blobs are.
        greet: The answer to a hello.
        stored: Awaited when a blob that a client or worker gave is stored here, before it is told
            so; what it raises is told instead. Members ask for their own copy alone.
        pace: How much of the machine it may take; None: all of it.
        heal: Brings back a blob that is not here or may be rotten, if that can be done. Awaited
            before a client or worker is told that there is none.
        relay: Passes a blob that a client or worker gives on to others while it comes: told its
            digest, its size, and how much of it is here. None if that need not be.

    Attributes:
        on_proved: Told of an account that had to prove to have a blob, and has.
        writers: Who brought what there is of blobs that are not whole.
        moved: What came and went.
    """

    def __init__(
        self,
        store: Store,
        greet: Callable[[HelloBlobs], Greeting],
        stored: Callable[[Digest], Awaitable[None]] | None = None,
        *,
        pace: Pace | None = None,
        heal: Callable[[Digest], Awaitable[None]] | None = None,
        relay: Callable[[Digest, int, int], Relay | None] | None = None,
    ) -> None:
        self.store = store
        self.stored = stored
        self.pace = pace
        self.heal = heal
        self.relay = relay
        # Who fetches a blob from elsewhere takes part as well, so that it does not come twice.
        self.uploads: Turns[Digest, object] = Turns(BLOB_UPLOADS_MAX)
        self.downloads: Turns[object, object] = Turns(BLOB_DOWNLOADS_MAX)
        self.writers = Writers()
        self.moved = TransferCounters()
        self.on_proved: Callable[[str, Digest], None] = lambda account, digest: None
        self._greet = greet
        self._sessions: dict[Link, ServerSession] = {}
        self._healing: dict[Digest, asyncio.Task[None]] = {}
        self._pool: ThreadPoolExecutor | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Serve links from now on."""
        if self._pool is None:
            self._pool = make_pool()

    async def stop(self) -> None:
        """Release all links (the listener closes them) and finish what is being written."""
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

    def hear(self, link: Link, messages: Sequence[Message], principal: Principal) -> None:
        """Everything that comes on a link for blobs, its hello first."""
        session = self._sessions.get(link)
        if session is None:
            self._welcome(link, messages[0], principal)
        else:
            session.hear(messages)

    def closed(self, link: Link, reason: str) -> None:
        """A link is gone. Others are none of our business."""
        session = self._sessions.pop(link, None)
        if session is not None:
            log.debug("blobs: %s is gone: %s", link.address, reason)
            session.end()

    def proved(self, account: str, digest: Digest) -> None:
        """An account has shown to have all bytes of a blob."""
        self.writers.pop(digest, None)
        self.on_proved(account, digest)

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
            log.warning("cannot repair blob %s: %s", digest_to_text(digest), error)

    def send_away(self, to: NotLeader) -> None:
        """This member does not lead any more: what clients and workers give belongs elsewhere."""
        for link, session in list(self._sessions.items()):
            if session.who not in EVERYWHERE:
                link.send(to)
                link.close("not the leader any more")

    def end_copies(self) -> None:
        """This member leads now: the previous leader sends it no copies any more, and holds no
        turn that an upload may want."""
        for link, session in list(self._sessions.items()):
            if session.who == MEMBER and session.machine.is_given:
                link.abort("another member leads now")

    def _welcome(self, link: Link, hello: Message, principal: Principal) -> None:
        if self._pool is None or not isinstance(hello, HelloBlobs):
            link.close("no blobs are served")
            return
        greeting = self._greet(hello)
        link.send(greeting)
        if not isinstance(greeting, Welcome):
            link.close("it is not served here")
            return
        packs = ZSTD in greeting.features
        self._sessions[link] = ServerSession(
            self, link, self._pool, packs=packs, who=hello.who, account=principal.account
        )
        if self._timer is None:
            self._tick_later()

    def _tick_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(BLOB_ALIVE_MS / 1000, self._tick)

    def _tick(self) -> None:
        self._timer = None
        waiting = self.uploads.waiting
        for session in list(self._sessions.values()):
            waiting -= session.tick(waiting)
        if self._sessions and self._pool is not None:
            self._tick_later()

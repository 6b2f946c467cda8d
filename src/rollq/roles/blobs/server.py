"""Serves the blobs of a store on links whose first frame is HelloBlobs.

It has no socket of its own: the listener hands over such links. Policy is injected: `greet` decides
who may connect, and `stored` is awaited, for replication, before BlobStored is sent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeAlias

from rollq.base.access import Principal
from rollq.base.counters import Family, counters_by
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
from rollq.roles.blobs.pace import Throttle
from rollq.roles.blobs.relay import Relay
from rollq.roles.blobs.server_session import ServerSession
from rollq.roles.blobs.turns import TransferSlots
from rollq.roles.service import end_tasks
from rollq.wire.blob_messages import MEMBER, READER, HelloBlobs
from rollq.wire.compact import Message
from rollq.wire.compression import ZSTD
from rollq.wire.messages import Error, NotLeader, Welcome

log = logging.getLogger("rollq.blobs")

Greeting: TypeAlias = Welcome | NotLeader | Error

ANY_MEMBER = (MEMBER, READER)  # peers that any member serves, not only the leader


class Store(Protocol):
    """The interface of a blob store. Called from threads."""

    def size(self, digest: Digest) -> int | None:
        """The size in bytes; None if the blob is missing."""

    def begin(self, digest: Digest, size: int) -> Sink:
        """Open it for writing, resuming an earlier attempt."""

    def open(self, digest: Digest) -> Source:
        """Open it for reading."""


class Writers(dict[Digest, str]):
    """The account that uploaded the incomplete part of each blob. Bounded: the oldest entries are
    evicted, and such a part must be proved again. Used on threads, never concurrently for one
    blob."""

    def __setitem__(self, digest: Digest, account: str) -> None:
        if len(self) >= BLOB_WRITERS_MAX:
            self.pop(next(iter(self)), None)
        super().__setitem__(digest, account)


class BlobServer:
    """All blob links of one listener. `start` and `stop` are idempotent.

    Args:
        store: The blob store.
        greet: Returns the answer to a hello.
        stored: Awaited when a blob from a client or worker is stored here, before it is
            acknowledged; an exception is sent as the answer instead. Not called for members, which
            copy for themselves.
        pace: Throttle; None: unthrottled.
        heal: Restores a blob that is missing or may be corrupt, if possible. Awaited before a
            client or worker is told that a blob is missing.
        relay: Forwards an upload of a client or worker while it is received: called with digest,
            size and stored bytes. Returns None if it need not be forwarded.

    Attributes:
        on_proved: Called with an account that has proved possession of a blob.
        writers: The accounts that uploaded incomplete blobs.
        moved: Transfer counters.
    """

    def __init__(
        self,
        store: Store,
        greet: Callable[[HelloBlobs], Greeting],
        stored: Callable[[Digest], Awaitable[None]] | None = None,
        *,
        pace: Throttle | None = None,
        heal: Callable[[Digest], Awaitable[None]] | None = None,
        relay: Callable[[Digest, int, int], Relay | None] | None = None,
    ) -> None:
        self.store = store
        self.stored = stored
        self.pace = pace
        self.heal = heal
        self.relay = relay
        # Fetches from other members take slots as well, so that a blob is not received twice.
        self.uploads: TransferSlots[Digest, object] = TransferSlots(BLOB_UPLOADS_MAX)
        self.downloads: TransferSlots[object, object] = TransferSlots(BLOB_DOWNLOADS_MAX)
        self.writers = Writers()
        self.moved = TransferCounters()
        self.on_proved: Callable[[str, Digest], None] = lambda account, digest: None
        self._greet = greet
        self._sessions: dict[Link, ServerSession] = {}
        self._healing: dict[Digest, asyncio.Task[None]] = {}
        self._pool: ThreadPoolExecutor | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Accept links from now on."""
        if self._pool is None:
            self._pool = make_pool()

    async def stop(self) -> None:
        """Release all links, which the listener closes, and finish pending writes."""
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
        """Handle messages of a blob link, its hello first."""
        session = self._sessions.get(link)
        if session is None:
            self._welcome(link, messages[0], principal)
        else:
            session.hear(messages)

    def closed(self, link: Link, reason: str) -> None:
        """Handle the loss of a link; links of other services are ignored."""
        session = self._sessions.pop(link, None)
        if session is not None:
            log.debug("blobs: %s is gone: %s", link.address, reason)
            session.end()

    def proved(self, account: str, digest: Digest) -> None:
        """Record that an account has proved possession of a blob."""
        self.writers.pop(digest, None)
        self.on_proved(account, digest)

    def healing(self, digest: Digest) -> asyncio.Task[None] | None:
        """The running repair of a blob, if any."""
        return self._healing.get(digest)

    def start_healing(self, digest: Digest) -> asyncio.Task[None] | None:
        """Repair a blob, unless a repair is running. None if it cannot be repaired here."""
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

    def redirect_clients(self, to: NotLeader) -> None:
        """This member is no longer the leader: redirect clients and workers."""
        for link, session in list(self._sessions.items()):
            if session.who not in ANY_MEMBER:
                link.send(to)
                link.close("not the leader any more")

    def end_copies(self) -> None:
        """This member is the leader now: abort copies from the previous leader, whose slots uploads
        may need."""
        for link, session in list(self._sessions.items()):
            if session.who == MEMBER and session.machine.is_receiving:
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


class TransferCounters:
    """Counts since the process started: incoming blobs when they are verified, outgoing ones when
    they begin."""

    __slots__ = ("bytes_in", "bytes_out", "count_in", "count_out")

    def __init__(self) -> None:
        self.bytes_in = self.bytes_out = self.count_in = self.count_out = 0

    def count_incoming(self, size_bytes: int) -> None:
        """Count an incoming blob."""
        self.count_in += 1
        self.bytes_in += size_bytes

    def count_outgoing(self, size_bytes: int) -> None:
        """Count an outgoing blob."""
        self.count_out += 1
        self.bytes_out += size_bytes

    def families(self) -> list[Family]:
        """Metrics."""
        return [
            counters_by(
                "rollq_blob_transfers_total",
                "direction",
                {"in": self.count_in, "out": self.count_out},
            ),
            counters_by(
                "rollq_blob_transfer_bytes_total",
                "direction",
                {"in": self.bytes_in, "out": self.bytes_out},
            ),
        ]

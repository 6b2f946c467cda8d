"""One link of a blob client, from its welcome to its end."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any, TypeAlias

from rollq.base.digests import Digest
from rollq.base.errors import DialError, ErrorCode, RemoteError, RollqError
from rollq.base.limits import BLOB_ALIVE_MS, BLOB_GREETING_MS
from rollq.net.addresses import is_loopback
from rollq.net.dialer import Dial, split_address
from rollq.net.link import Link
from rollq.roles.blobs.carrier import Carrier, Sink, Source
from rollq.roles.blobs.client_machine import BlobClientMachine
from rollq.roles.blobs.failures import from_answer
from rollq.roles.blobs.orders import AnyOrder, Commit, Moved, SizesFound, TransferEnded
from rollq.roles.blobs.pace import Throttle
from rollq.roles.blobs.relay import Growth
from rollq.wire.blob_messages import HelloBlobs
from rollq.wire.compact import Message
from rollq.wire.compression import ZSTD
from rollq.wire.fields import MessageId
from rollq.wire.messages import Error, NotLeader, Welcome

Progress: TypeAlias = Callable[[int, int], None]  # bytes moved, bytes in total


async def connect(
    address: str,
    group: str,
    who: str,
    pool: Executor,
    pace: Throttle | None = None,
    *,
    dial: Dial,
) -> BlobClientSession | NotLeader:
    """Dial a member and send the hello; returns the session, or the redirect to the leader. `dial`
    is `net.dialer.dial` with credentials.

    Raises:
        DialError: if it cannot be reached, or TIMED_OUT without an answer; else the RollqError that
            it answers.
    """
    greeted: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
    sessions: list[BlobClientSession] = []

    def hear(link: Link, messages: list[Message]) -> None:
        if not greeted.done():
            greeted.set_result(messages[0])
        elif sessions:
            sessions[0].hear(messages)

    def closed(link: Link, reason: str) -> None:
        if not greeted.done():
            greeted.set_exception(_disconnected(address, reason))
        elif sessions:
            sessions[0].lost(_disconnected(address, reason))

    # On the loopback interface compression only costs time.
    features = () if is_loopback(split_address(address)[0]) else (ZSTD,)
    link = await dial(address, group, hear, closed)
    link.send(HelloBlobs(who, group, features))
    try:
        async with asyncio.timeout(BLOB_GREETING_MS / 1000):
            answer = await greeted
    except TimeoutError:
        link.abort("no answer to the hello")
        raise DialError(ErrorCode.TIMED_OUT, f"{address} does not answer the hello") from None
    except BaseException:
        link.close("cancelled")
        raise
    if isinstance(answer, Welcome) and link.is_open:
        packs = ZSTD in answer.features
        sessions.append(BlobClientSession(link, pool, address, packs=packs, pace=pace))
        return sessions[0]
    link.close("not served here")
    if isinstance(answer, NotLeader):
        return answer
    if isinstance(answer, Error):
        raise from_answer(answer.code, f"{address}: {answer.message}", b"", address)
    raise _disconnected(address, "closed at once")


class BlobClientSession(Carrier):
    """Transfers on one link. They fail with DISCONNECTED when it is lost.

    Attributes:
        moved_bytes: Bytes transferred on this link, in both directions.
        is_silent: The link was closed because the member did not answer in time.
    """

    machine: BlobClientMachine

    def __init__(
        self,
        link: Link,
        pool: Executor,
        address: str,
        *,
        packs: bool,
        pace: Throttle | None = None,
    ) -> None:
        super().__init__(link, BlobClientMachine(address), pool, packs=packs, pace=pace)
        self.moved_bytes = 0
        self.is_silent = False
        self._address = address
        self._asks: dict[MessageId, asyncio.Future[tuple[int, ...]]] = {}
        self._transfers: dict[int, _Transfer] = {}
        self._tick_later()

    async def ask(self, digests: tuple[Digest, ...]) -> tuple[int, ...]:
        """The sizes of blobs, -1 for missing ones."""
        self._must_be_open()
        request_id = secrets.token_bytes(16)
        future: asyncio.Future[tuple[int, ...]] = self._loop.create_future()
        self._asks[request_id] = future
        self.machine.ask(request_id, digests)
        self.pump()
        try:
            return await future
        finally:
            del self._asks[request_id]

    async def put(
        self,
        digest: Digest,
        source: Source,
        progress: Progress | None,
        growth: Growth | None = None,
    ) -> None:
        """Upload a blob, perhaps one that is still being received."""
        self._must_be_open()
        if growth is None:
            number = self.machine.put(digest, source.size)
            await self._run(number, digest, source, source.size, progress)
            return
        number = self.machine.put(digest, source.size, growth.ready)
        with growth.listening(partial(self._grown, number, digest)):
            await self._run(number, digest, source, source.size, progress)

    async def get(self, digest: Digest, size: int, sink: Sink, progress: Progress | None) -> None:
        """Download a blob, from the sink's offset on."""
        self._must_be_open()
        number = self.machine.get(digest, size, sink.offset)
        await self._run(number, digest, sink, size, progress)

    def hear(self, messages: Sequence[Message]) -> None:
        """Handle messages of the member."""
        try:
            for message in messages:
                if isinstance(message, Error | NotLeader):
                    self.link.close("the member ended it")
                    return
                self.machine.on_message(message)
        except RemoteError as error:
            self.link.abort(str(error))
        self.pump()

    def lost(self, error: RollqError) -> None:
        """Fail all requests: the link is lost."""
        self._timer.cancel()
        futures: list[asyncio.Future[Any]] = list(self._asks.values())
        futures += [transfer.over for transfer in self._transfers.values()]
        for future in futures:
            if not future.done():
                future.set_exception(error)

    def execute(self, order: AnyOrder) -> None:
        """Execute an order."""
        if isinstance(order, Commit):
            transfer = self._transfers[order.number]
            self.commit(order, transfer.digest, partial(self._committed, order.number))
        elif isinstance(order, Moved):
            self._moved(self._transfers[order.number], order.offset)
        elif isinstance(order, TransferEnded):
            over = self._transfers[order.number].over
            if over.done():
                return
            if order.error is None:
                over.set_result(None)
            else:
                over.set_exception(order.error)
        elif isinstance(order, SizesFound):
            future = self._asks.get(order.request_id)
            if future is not None and not future.done():
                future.set_result(order.sizes)

    async def _run(
        self,
        number: int,
        digest: Digest,
        stream: Source | Sink,
        size: int,
        progress: Progress | None,
    ) -> None:
        transfer = _Transfer(digest, size, progress, self._loop.create_future())
        self._transfers[number] = transfer
        self.streams[number] = stream
        self.pump()
        try:
            await transfer.over
        finally:
            self.machine.drop(number, digest)
            self.pump()
            await self.leave(number)
            del self._transfers[number]

    def _grown(self, number: int, digest: Digest, ready: int) -> None:
        self.machine.grown(number, digest, ready)
        self.pump()

    def _committed(self, number: int, _: None) -> None:
        self.machine.committed(number)

    def _moved(self, transfer: _Transfer, offset: int) -> None:
        if offset > transfer.offset:
            self.moved_bytes += offset - transfer.offset
            transfer.offset = offset
            if transfer.progress is not None:
                transfer.progress(offset, transfer.size)

    def _must_be_open(self) -> None:
        if not self.link.is_open:
            raise _disconnected(self._address, "the link is closed")

    def _tick_later(self) -> None:
        self._timer = self._loop.call_later(BLOB_ALIVE_MS / 1000, self._tick)

    def _tick(self) -> None:
        if self.machine.tick():
            self.is_silent = True
            self.link.abort("the member says nothing")
        self._tick_later()


class _Transfer:
    """A transfer and its caller."""

    __slots__ = ("digest", "offset", "over", "progress", "size")

    def __init__(
        self,
        digest: Digest,
        size: int,
        progress: Progress | None,
        over: asyncio.Future[None],
    ) -> None:
        self.digest = digest
        self.size = size
        self.progress = progress
        self.over = over
        self.offset = 0


def _disconnected(address: str, reason: str) -> DialError:
    return DialError(ErrorCode.DISCONNECTED, f"the connection to {address} is lost: {reason}")

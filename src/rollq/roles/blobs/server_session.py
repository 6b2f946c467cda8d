"""One served link: executes orders with the store, the transfer slots and the relays."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from rollq.base.digests import Digest
from rollq.base.errors import ErrorCode, RemoteError, StateError
from rollq.base.ids import NIL_ID
from rollq.net.link import Link
from rollq.roles.blobs.carrier import Carrier, Sink, as_rollq_error
from rollq.roles.blobs.orders import (
    AnyOrder,
    Begin,
    CheckCopy,
    Close,
    Commit,
    ConfirmCopies,
    GetSizes,
    Open,
)
from rollq.roles.blobs.proving import ProvingSink
from rollq.roles.blobs.relay import Relay
from rollq.roles.blobs.server_machine import ServerMachine
from rollq.store.blobs.failures import blob_missing
from rollq.wire.blob_messages import COMPLETE, MEMBER, MISSING
from rollq.wire.compact import Message
from rollq.wire.messages import Error

if TYPE_CHECKING:
    from rollq.roles.blobs.server import BlobServer

log = logging.getLogger("rollq.blobs")


class ServerSession(Carrier):
    """One served link."""

    machine: ServerMachine

    def __init__(
        self,
        server: BlobServer,
        link: Link,
        pool: ThreadPoolExecutor,
        *,
        packs: bool,
        who: str,
        account: str = "",
    ) -> None:
        super().__init__(link, ServerMachine(), pool, packs=packs, pace=server.pace)
        self._server = server
        self.who = who
        self._is_member = who == MEMBER
        self._account = account
        self._proofs: dict[int, Digest] = {}  # uploads that prove possession
        self._digests: dict[int, Digest] = {}  # uploads
        self._sizes: dict[int, int] = {}  # uploads
        self._waits: dict[int, asyncio.Task[None]] = {}
        self._relays: dict[int, Relay] = {}

    def hear(self, messages: Sequence[Message]) -> None:
        """Handle messages of the peer."""
        try:
            for message in messages:
                self.machine.on_message(message)
        except RemoteError as error:
            log.warning("blobs: closing the connection to %s: %s", self.link.address, error)
            self.link.send(Error(NIL_ID, error.code, error.message, error.hint, error.retryable))
            self.link.close(str(error))
        self.pump()
        # One read per turn of the loop, for fairness: the rest of the socket buffer waits.
        self.link.pause()
        self._loop.call_soon(self._resume_reading)

    def tick(self, waiting: int) -> int:
        """Called each second with the count of waiting uploads; returns how many slots were
        freed."""
        if self.machine.tick():
            self.link.abort("a transfer of blobs has stalled")
        for relay in list(self._relays.values()):
            relay.tick()
        freed = 0
        for arrival in self.machine.slow_puts():
            if freed < waiting or self._server.uploads.is_wanted(arrival.digest):
                self.machine.failed(arrival.number, arrival.digest, _too_slow())
                freed += 1
        self.pump()
        return min(freed, waiting)

    def end(self) -> None:
        """End all transfers: the link is lost."""
        self.machine.closed()
        self.pump()

    def execute(self, order: AnyOrder) -> None:
        """Execute an order."""
        if isinstance(order, Begin):
            self._digests[order.number] = order.digest
            self._sizes[order.number] = order.size
            start = partial(self._begin, order)
            self._server.uploads.enter(order.digest, (self, order.number), start)
        elif isinstance(order, Open):
            me = (self, order.number)
            self._server.downloads.enter(me, me, partial(self._open, order, None))
        elif isinstance(order, Commit):
            digest = self._digests[order.number]
            self.commit(order, digest, partial(self._committed, order.number))
        elif isinstance(order, ConfirmCopies):
            task = self._loop.create_task(self._confirm_copies(order))
            self._waits[order.number] = task
        elif isinstance(order, CheckCopy):
            self._server.start_healing(order.digest)
        elif isinstance(order, Close):
            self._close(order.number)
        elif isinstance(order, GetSizes):
            self.on_pool(partial(self._find_sizes, order.digests), partial(self._on_sizes, order))

    def has_closed(self, number: int) -> None:
        """Release the slot of a transfer."""
        me = (self, number)
        digest = self._digests.pop(number, None)
        self._sizes.pop(number, None)
        if digest is not None:
            self._server.uploads.leave(digest, me)
        else:
            self._server.downloads.leave(me, me)

    def _begin(self, order: Begin) -> None:
        def task() -> int:
            if order.proves:
                self.streams[order.number] = proving = self._proving(order)
                return proving.offset
            if self._server.store.size(order.digest) != order.size:
                sink = self._server.store.begin(order.digest, order.size)
                self.streams[order.number] = sink
                return sink.offset
            return COMPLETE

        def begun(offset: int) -> None:
            self.machine.begun(order.number, offset)
            if offset == COMPLETE:
                self.close(order.number)  # nothing to write: release the slot
            elif self._server.relay is not None and not self._is_member and not order.proves:
                relay = self._server.relay(order.digest, order.size, offset)
                if relay is not None:
                    self._relays[order.number] = relay

        if order.proves:
            self._proofs[order.number] = order.digest
        self.work(order.number, order.digest, task, begun)

    def _proving(self, order: Begin) -> Sink:
        """The sink for an upload that must prove possession. Bytes that the account itself uploaded
        before count, if no other account has continued them."""
        store, writers = self._server.store, self._server.writers
        if store.size(order.digest) is not None:
            return ProvingSink(order.digest, order.size, None)
        sink = store.begin(order.digest, order.size)
        is_own = writers.get(order.digest) == self._account
        writers[order.digest] = self._account
        return sink if is_own else ProvingSink(order.digest, order.size, sink)

    def _open(self, order: Open, healed: asyncio.Task[None] | None) -> None:
        """Open a blob, after its repair if one is running or needed; `healed` is set after it."""
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
            self.streams[order.number] = source
            return source.size

        def opened(size: int) -> None:
            if size != MISSING:
                self._server.moved.count_outgoing(size)
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

    def _written(self, number: int, _: None) -> None:
        relay = self._relays.get(number)
        if relay is None:
            self.machine.written(number)
        else:
            sink: Any = self.streams[number]
            relay.grown(sink.offset, partial(self._followers_ready, number))

    def _followers_ready(self, number: int) -> None:
        self.machine.written(number)
        self.pump()

    def _committed(self, number: int, _: None) -> None:
        self._relays.pop(number, None)  # followers still get the rest
        proved = self._proofs.pop(number, None)
        if proved is not None:
            self._server.proved(self._account, proved)
        self._server.moved.count_incoming(self._sizes[number])
        self.machine.committed(number)
        # A second upload of the same blob need not wait for the copies.
        self.close(number)

    async def _confirm_copies(self, order: ConfirmCopies) -> None:
        try:
            if self._server.stored is not None and not self._is_member:
                await self._server.stored(order.digest)
        except Exception as error:
            self.machine.failed(order.number, order.digest, as_rollq_error(error, order.digest))
        else:
            self.machine.copies_confirmed(order.number)
        self._waits.pop(order.number, None)
        self.pump()

    def _close(self, number: int) -> None:
        self._proofs.pop(number, None)
        relay = self._relays.pop(number, None)
        if relay is not None:
            relay.end()
        task = self._waits.pop(number, None)
        if task is not None:
            task.cancel()
        self.close(number)

    def _find_sizes(self, digests: tuple[Digest, ...]) -> tuple[int, ...]:
        sizes = map(self._server.store.size, digests)
        return tuple(MISSING if size is None else size for size in sizes)

    def _on_sizes(self, order: GetSizes, future: asyncio.Future[tuple[int, ...]]) -> None:
        if future.cancelled():
            return
        if future.exception() is not None:
            self.link.abort(f"blobs cannot be looked up: {future.exception()}")
            return
        self.machine.sizes_found(order.request_id, future.result())
        self._resume_reading()
        self.pump()

    def io_finished(self) -> None:
        """A write has finished: resume reading."""
        self._resume_reading()

    def _resume_reading(self) -> None:
        """Resume reading unless the machine or the throttle forbids it."""
        if self.machine.is_busy:
            return
        pace = self._pace
        if pace is not None and pace.is_busy():
            if self._io_count:
                return  # `io_finished` will call this
            rest_s = pace.rest_s()
            if rest_s:
                self._loop.call_later(rest_s, self._resume_reading)
                return
        self.link.resume()


def _too_slow() -> StateError:
    return StateError(
        ErrorCode.OVERLOADED, "upload stalled while others waited", "send the rest later"
    )

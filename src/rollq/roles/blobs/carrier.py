"""Carries out the orders of a machine: words on the link, and disk work on a pool of threads.

The loop does nothing but hand over: reading, writing, digests and compression are the pool's. Of
one transfer one thing is done at a time, and what is being written is not closed under the
writer's hands.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol, TypeVar

from rollq.base.digests import Digest, digest_to_text
from rollq.base.errors import DiskError, ErrorCode, LocalError, RemoteError, RollqError
from rollq.base.limits import BLOB_CHUNK_BYTES, BLOB_THREADS, BLOB_WINDOW_BYTES
from rollq.net.link import Link
from rollq.roles.blobs.client_machine import BlobClientMachine
from rollq.roles.blobs.orders import AnyOrder, Commit, Read, SendMessage, Write
from rollq.roles.blobs.pace import Pace
from rollq.roles.blobs.server_machine import ServerMachine
from rollq.wire.blob_messages import BlobChunk
from rollq.wire.compression import ZSTD, inflate, shrink

log = logging.getLogger("rollq.blobs")

T = TypeVar("T")

FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
PACK_GAIN_MIN = 16  # a chunk is sent packed if that saves this part of it at least
PACK_PAUSE_MAX = 64  # so many chunks are not tried after some that were not worth it


def make_pool() -> ThreadPoolExecutor:
    """The threads of a server or client."""
    # The allocator of glibc learns from what is given back: after this it keeps room for chunks
    # instead of asking the kernel for new pages, each of which costs a fault, for every one.
    bytes(BLOB_WINDOW_BYTES)
    return ThreadPoolExecutor(BLOB_THREADS, "blobs")


class Source(Protocol):
    """A blob that is read. Called from threads, one at a time."""

    @property
    def size(self) -> int:
        """In bytes."""

    def read(self, offset: int, length: int) -> bytes:
        """Bytes from there on; fewer only at the end."""

    def close(self) -> None:
        """Read no more."""


class Sink(Protocol):
    """A blob that is written. Called from threads, one at a time."""

    @property
    def offset(self) -> int:
        """How much of it is there."""

    def write(self, data: bytes) -> None:
        """Add bytes."""

    def commit(self) -> None:
        """Verify and keep it. Raises RemoteError BLOB_CORRUPT."""

    def close(self) -> None:
        """Write no more; what is there is kept for another time."""


class Carrier:
    """The shell of one link.

    Attributes:
        link: Where words go.
        machine: Whose orders are carried out.
        things: The sources and sinks of transfers, by number.
    """

    def __init__(
        self,
        link: Link,
        machine: ServerMachine | BlobClientMachine,
        pool: Executor,
        *,
        packs: bool,
        pace: Pace | None = None,
    ) -> None:
        self.link = link
        self.machine = machine
        self.things: dict[int, Source | Sink] = {}
        self._pool = pool
        self._packs = packs
        self._pace = pace
        self._moves = 0  # under way, on the pool
        self._packers: dict[int, Packer] = {}
        self._loop = asyncio.get_running_loop()
        self._working: dict[int, asyncio.Future[Any]] = {}
        self._doomed: dict[int, None] = {}  # to be closed as soon as their work is done
        self._pending: dict[asyncio.Future[Any], None] = {}

    def pump(self) -> None:
        """Carry out what the machine wants by now."""
        words = []
        for order in self.machine.take_orders():
            if isinstance(order, SendMessage):
                words.append(order.message)
            elif isinstance(order, Write):
                sink: Any = self.things[order.number]
                digest = order.chunks[0].digest
                written = partial(self._written, order.number)
                write = partial(write_chunks, sink, order.chunks)
                self._move(order.number, digest, write, written)
            elif isinstance(order, Read):
                self._read(order)
            else:
                self.obey(order)
        if words:
            self.link.send_all(words)

    def obey(self, order: AnyOrder) -> None:
        """Carry out what only one of the ends knows."""
        raise NotImplementedError

    def work(
        self, number: int, digest: Digest, task: Callable[[], T], then: Callable[[T], None]
    ) -> None:
        """Do something on the pool, and tell the machine how it went."""
        self._working[number] = self.on_pool(task, partial(self._done, number, digest, then))

    def close(self, number: int) -> None:
        """Close source or sink of a transfer, now or when the work on it is done."""
        self._packers.pop(number, None)
        if number in self._working:
            self._doomed[number] = None
            return
        thing = self.things.pop(number, None)
        if thing is None:
            self.has_closed(number)
            return
        self.on_pool(thing.close, partial(self._closed, number))

    def on_pool(
        self, task: Callable[[], T], then: Callable[[asyncio.Future[T]], None]
    ) -> asyncio.Future[T]:
        """Do something on the pool; `then` is called on the loop."""
        future = self._loop.run_in_executor(self._pool, task)
        self._pending[future] = None

        def done(over: asyncio.Future[T]) -> None:
            del self._pending[over]
            then(over)

        future.add_done_callback(done)
        return future

    async def leave(self, number: int) -> None:
        """Return when no thread works on an ended transfer; its source or sink is not closed."""
        while (future := self._working.get(number)) is not None:
            await asyncio.wait((future,))
        self.things.pop(number, None)
        self._packers.pop(number, None)

    async def settle(self) -> None:
        """Until nothing of this link is on the pool."""
        while self._pending:
            await asyncio.wait(list(self._pending))

    def has_rest(self) -> None:
        """Some of what was to be done on the pool is done."""

    def has_closed(self, number: int) -> None:
        """No thread touches the blob for this transfer any more."""

    def commit(self, order: Commit, digest: Digest, then: Callable[[None], None]) -> None:
        """Verify and keep what was written."""
        sink: Any = self.things[order.number]
        self.work(order.number, digest, sink.commit, then)

    def _move(
        self, number: int, digest: Digest, task: Callable[[], T], then: Callable[[T], None]
    ) -> None:
        """Work that has to be done many times over: in its time, if jobs have work to do."""
        pace = self._pace
        if pace is None:
            self.work(number, digest, task, then)
            return
        step = partial(pace.step, task)
        rest_s = pace.rest_s()
        if rest_s:
            self._loop.call_later(rest_s, self._move_now, number, digest, step, then)
        else:
            self._move_now(number, digest, step, then)

    def _move_now(
        self, number: int, digest: Digest, step: Callable[[], T], then: Callable[[T], None]
    ) -> None:
        if number in self.things:  # else it was given up meanwhile
            self._moves += 1
            self.work(number, digest, step, then)
            self._working[number].add_done_callback(self._has_moved)

    def _has_moved(self, _: asyncio.Future[Any]) -> None:
        self._moves -= 1
        self.has_rest()

    def _written(self, number: int, _: None) -> None:
        self.machine.written(number)

    def _read(self, order: Read) -> None:
        number = order.number
        source: Any = self.things[number]
        packer = self._packers.get(number)
        if packer is None and self._packs:
            packer = self._packers[number] = Packer()
        task = partial(read_chunks, source, order, packer)
        self._move(number, order.digest, task, partial(self.machine.has_read, number))

    def _done(
        self,
        number: int,
        digest: Digest,
        then: Callable[[Any], None],
        future: asyncio.Future[Any],
    ) -> None:
        self._working.pop(number, None)
        doomed = number in self._doomed
        if doomed:
            del self._doomed[number]
            self.close(number)
        if future.cancelled():
            return
        error = future.exception()
        if doomed:
            return
        if error is None:
            then(future.result())
        else:
            self.machine.failed(number, digest, as_rollq_error(error, digest))
        self.pump()

    def _closed(self, number: int, future: asyncio.Future[None]) -> None:
        if not future.cancelled() and future.exception() is not None:
            log.warning("closing a blob: %s", future.exception())
        self.has_closed(number)


class Packer:
    """Compresses chunks of one blob, and pauses where that is not worth it."""

    __slots__ = ("_pause", "_skip")

    def __init__(self) -> None:
        self._skip = 0
        self._pause = 1

    def pack(self, digest: Digest, offset: int, data: bytes) -> BlobChunk:
        """The chunk, packed if that makes it smaller."""
        if self._skip:
            self._skip -= 1
            return BlobChunk(digest, offset, data)
        small = shrink(data, ZSTD)
        if small is not None and len(small) <= len(data) - len(data) // PACK_GAIN_MIN:
            self._pause = 1
            return BlobChunk(digest, offset, small, len(data))
        self._skip = self._pause
        self._pause = min(2 * self._pause, PACK_PAUSE_MAX)
        return BlobChunk(digest, offset, data)


def read_chunks(source: Source, order: Read, packer: Packer | None) -> list[BlobChunk]:
    """What an order wants to be read, in chunks. On a thread."""
    chunks = []
    end = order.offset + order.length
    for offset in range(order.offset, end, BLOB_CHUNK_BYTES):
        length = min(BLOB_CHUNK_BYTES, end - offset)
        data = source.read(offset, length)
        if len(data) != length:
            name = digest_to_text(order.digest)
            raise RemoteError(ErrorCode.BLOB_CORRUPT, f"blob {name} has become shorter")
        if packer is None:
            chunks.append(BlobChunk(order.digest, offset, data))
        else:
            chunks.append(packer.pack(order.digest, offset, data))
    return chunks


def write_chunks(sink: Sink, chunks: tuple[BlobChunk, ...]) -> None:
    """Write what came. On a thread."""
    for chunk in chunks:
        data = chunk.data
        if chunk.packed:
            data = inflate(data, ZSTD)
            if len(data) != chunk.packed:
                text = f"a chunk of {len(data)} bytes that says it has {chunk.packed}"
                raise RemoteError(ErrorCode.BAD_COMPRESSION, text)
        sink.write(data)


def as_rollq_error(error: BaseException, digest: Digest) -> RollqError:
    """An error of the pool as one of the catalogue."""
    if isinstance(error, RollqError):
        return error
    text = f"blob {digest_to_text(digest)}: {error}"
    if isinstance(error, OSError):
        if error.errno in FULL:
            return DiskError(ErrorCode.DISK_FULL, text, "make room, then try again")
        return DiskError(ErrorCode.DISK_FAILED, text, "look at the disk")
    log.error("a bug in the blobs", exc_info=error)
    return LocalError(ErrorCode.BUG, text, "report the log")

"""Executes the orders of a machine: messages on the link, and disk work on a thread pool.

The event loop only dispatches: reading, writing, hashing and compression run in the pool. A
transfer has at most one task in the pool at a time, and its file is not closed while a task uses
it.
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
from rollq.roles.blobs.pace import Throttle
from rollq.roles.blobs.server_machine import ServerMachine
from rollq.wire.blob_messages import BlobChunk
from rollq.wire.compression import ZSTD, inflate, shrink

log = logging.getLogger("rollq.blobs")

T = TypeVar("T")

FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
PACK_GAIN_MIN = 16  # a chunk is sent compressed if that saves at least 1/16 of it
PACK_PAUSE_MAX = 64  # the most chunks that are skipped after incompressible ones


def make_pool() -> ThreadPoolExecutor:
    """The thread pool of a server or client."""
    # Freeing a large block raises glibc's mmap threshold: later chunks reuse heap memory instead of
    # fresh pages, each of which costs a page fault.
    bytes(BLOB_WINDOW_BYTES)
    return ThreadPoolExecutor(BLOB_THREADS, "blobs")


class Source(Protocol):
    """A blob that is read. Called from threads, never concurrently."""

    @property
    def size(self) -> int:
        """In bytes."""

    def read(self, offset: int, length: int) -> bytes:
        """Read at an offset; fewer bytes only at the end."""

    def close(self) -> None:
        """Release the source."""


class Sink(Protocol):
    """A blob that is written. Called from threads, never concurrently."""

    @property
    def offset(self) -> int:
        """How many bytes are written."""

    def write(self, data: bytes) -> None:
        """Append bytes."""

    def commit(self) -> None:
        """Verify the digest and publish the blob. Raises RemoteError BLOB_CORRUPT."""

    def close(self) -> None:
        """Release the sink; an incomplete blob is kept, to be resumed."""


class Carrier:
    """Does the IO of one link.

    Attributes:
        link: Where messages are sent.
        machine: Whose orders are executed.
        streams: Open sources and sinks, by transfer number.
    """

    def __init__(
        self,
        link: Link,
        machine: ServerMachine | BlobClientMachine,
        pool: Executor,
        *,
        packs: bool,
        pace: Throttle | None = None,
    ) -> None:
        self.link = link
        self.machine = machine
        self.streams: dict[int, Source | Sink] = {}
        self._pool = pool
        self._packs = packs
        self._pace = pace
        self._io_count = 0  # reads and writes in the pool
        self._packers: dict[int, ChunkCompressor] = {}
        self._loop = asyncio.get_running_loop()
        self._working: dict[int, asyncio.Future[Any]] = {}
        self._closing: dict[int, None] = {}  # to be closed when their running task ends
        self._pending: dict[asyncio.Future[Any], None] = {}

    def pump(self) -> None:
        """Execute all orders of the machine."""
        messages = []
        for order in self.machine.take_orders():
            if isinstance(order, SendMessage):
                messages.append(order.message)
            elif isinstance(order, Write):
                sink: Any = self.streams[order.number]
                digest = order.chunks[0].digest
                written = partial(self._written, order.number)
                write = partial(write_chunks, sink, order.chunks)
                self._run_throttled(order.number, digest, write, written)
            elif isinstance(order, Read):
                self._read(order)
            else:
                self.execute(order)
        if messages:
            self.link.send_all(messages)

    def execute(self, order: AnyOrder) -> None:
        """Execute an order that is specific to this end of the link."""
        raise NotImplementedError

    def work(
        self, number: int, digest: Digest, task: Callable[[], T], then: Callable[[T], None]
    ) -> None:
        """Run a task of a transfer in the pool; an error is reported to the machine."""
        self._working[number] = self.on_pool(task, partial(self._done, number, digest, then))

    def close(self, number: int) -> None:
        """Close the source or sink of a transfer, at once or when its running task ends."""
        self._packers.pop(number, None)
        if number in self._working:
            self._closing[number] = None
            return
        stream = self.streams.pop(number, None)
        if stream is None:
            self.has_closed(number)
            return
        self.on_pool(stream.close, partial(self._closed, number))

    def on_pool(
        self, task: Callable[[], T], then: Callable[[asyncio.Future[T]], None]
    ) -> asyncio.Future[T]:
        """Run a task in the pool; `then` is called on the loop."""
        future = self._loop.run_in_executor(self._pool, task)
        self._pending[future] = None

        def done(over: asyncio.Future[T]) -> None:
            del self._pending[over]
            then(over)

        future.add_done_callback(done)
        return future

    async def leave(self, number: int) -> None:
        """Wait for the running task of an ended transfer; its source or sink is left open."""
        while (future := self._working.get(number)) is not None:
            await asyncio.wait((future,))
        self.streams.pop(number, None)
        self._packers.pop(number, None)

    async def settle(self) -> None:
        """Wait until no task of this link is in the pool."""
        while self._pending:
            await asyncio.wait(list(self._pending))

    def io_finished(self) -> None:
        """Called when a read or a write has finished."""

    def has_closed(self, number: int) -> None:
        """Called when the source or sink of a transfer is closed."""

    def commit(self, order: Commit, digest: Digest, then: Callable[[None], None]) -> None:
        """Verify and publish what was written."""
        sink: Any = self.streams[order.number]
        self.work(order.number, digest, sink.commit, then)

    def _run_throttled(
        self, number: int, digest: Digest, task: Callable[[], T], then: Callable[[T], None]
    ) -> None:
        """Run a read or a write, delayed by the throttle."""
        pace = self._pace
        if pace is None:
            self.work(number, digest, task, then)
            return
        step = partial(pace.step, task)
        rest_s = pace.rest_s()
        if rest_s:
            self._loop.call_later(rest_s, self._run_io, number, digest, step, then)
        else:
            self._run_io(number, digest, step, then)

    def _run_io(
        self, number: int, digest: Digest, step: Callable[[], T], then: Callable[[T], None]
    ) -> None:
        if number in self.streams:  # else the transfer was dropped during the delay
            self._io_count += 1
            self.work(number, digest, step, then)
            self._working[number].add_done_callback(self._on_moved)

    def _on_moved(self, _: asyncio.Future[Any]) -> None:
        self._io_count -= 1
        self.io_finished()

    def _written(self, number: int, _: None) -> None:
        self.machine.written(number)

    def _read(self, order: Read) -> None:
        number = order.number
        source: Any = self.streams[number]
        packer = self._packers.get(number)
        if packer is None and self._packs:
            packer = self._packers[number] = ChunkCompressor()
        task = partial(read_chunks, source, order, packer)
        self._run_throttled(number, order.digest, task, partial(self.machine.has_read, number))

    def _done(
        self,
        number: int,
        digest: Digest,
        then: Callable[[Any], None],
        future: asyncio.Future[Any],
    ) -> None:
        self._working.pop(number, None)
        doomed = number in self._closing
        if doomed:
            del self._closing[number]
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


class ChunkCompressor:
    """Compresses the chunks of one blob, with a backoff while they are incompressible."""

    __slots__ = ("_pause", "_skip")

    def __init__(self) -> None:
        self._skip = 0
        self._pause = 1

    def pack(self, digest: Digest, offset: int, data: bytes) -> BlobChunk:
        """The chunk, compressed if that makes it smaller."""
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


def read_chunks(source: Source, order: Read, packer: ChunkCompressor | None) -> list[BlobChunk]:
    """Read the range of an order, in chunks. Called from a thread."""
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
    """Write received chunks. Called from a thread."""
    for chunk in chunks:
        data = chunk.data
        if chunk.packed:
            data = inflate(data, ZSTD)
            if len(data) != chunk.packed:
                text = f"a chunk of {len(data)} bytes that says it has {chunk.packed}"
                raise RemoteError(ErrorCode.BAD_COMPRESSION, text)
        sink.write(data)


def as_rollq_error(error: BaseException, digest: Digest) -> RollqError:
    """An exception of the pool as an error of the catalogue."""
    if isinstance(error, RollqError):
        return error
    text = f"blob {digest_to_text(digest)}: {error}"
    if isinstance(error, OSError):
        if error.errno in FULL:
            return DiskError(ErrorCode.DISK_FULL, text, "make room, then try again")
        return DiskError(ErrorCode.DISK_FAILED, text, "look at the disk")
    log.error("a bug in the blobs", exc_info=error)
    return LocalError(ErrorCode.BUG, text, "report the log")

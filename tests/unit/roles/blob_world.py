"""A client and a server of blobs without sockets, threads and disks: their machines, real wire
bytes between them, and dicts for stores. Everything happens when the test says so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from unittest import mock

from rollq.base.digests import Digest
from rollq.base.errors import ErrorCode, RemoteError, RollqError, StateError
from rollq.roles.blobs import receiving, sending
from rollq.roles.blobs.client_machine import BlobClientMachine
from rollq.roles.blobs.orders import (
    AnyOrder,
    Begin,
    CheckCopy,
    Close,
    Commit,
    ConfirmCopies,
    GetSizes,
    Moved,
    Open,
    Read,
    SendMessage,
    SizesFound,
    TransferEnded,
    Write,
)
from rollq.roles.blobs.server_machine import ServerMachine
from rollq.wire.blob_messages import COMPLETE, BlobChunk, BlobGo, BlobMessage, BlobPut, HelloBlobs
from rollq.wire.connection import Connection
from rollq.wire.handshake import Side
from rollq.wire.messages import Welcome

CHUNK, READ, WINDOW = 8, 16, 64
OTHER = bytes(32)  # a digest of nothing that we have


@contextmanager
def small_sizes() -> Iterator[None]:
    """The same rules with fewer bytes."""
    with (
        mock.patch.object(sending, "BLOB_CHUNK_BYTES", CHUNK),
        mock.patch.object(sending, "BLOB_READ_BYTES", READ),
        mock.patch.object(sending, "BLOB_WINDOW_BYTES", WINDOW),
        mock.patch.object(receiving, "BLOB_WINDOW_BYTES", WINDOW),
        mock.patch.object(receiving, "BLOB_WRITE_BYTES", READ),
    ):
        yield


def digest_of(data: bytes) -> Digest:
    return sha256(data).digest()


class Part:
    """A blob that is being written."""

    def __init__(self, digest: Digest, size: int, data: bytearray) -> None:
        self.digest = digest
        self.size = size
        self.data = data

    def write(self, chunk: BlobChunk) -> None:
        assert chunk.offset == len(self.data)
        self.data += chunk.data

    def verify(self) -> None:
        if digest_of(bytes(self.data)) != self.digest:
            self.data.clear()
            raise RemoteError(ErrorCode.BLOB_CORRUPT, f"{self.digest.hex()} is not what came")


class World:
    """Both ends. `stored` is what the server has, `partial` what it has of cut uploads."""

    def __init__(self) -> None:
        self.stored: dict[Digest, bytes] = {}
        self.doubted: list[Digest] = []
        self.partial: dict[Digest, bytearray] = {}
        self.fetched: dict[Digest, bytearray] = {}
        self.files: dict[Digest, bytes] = {}
        self.vouch_error: RollqError | None = None
        self.over: list[tuple[int, ErrorCode | None]] = []
        self.found: list[tuple[int, ...]] = []
        self.moved: list[tuple[int, int]] = []
        self.chunk_bytes = 0  # that ever left a sender
        self.heard: list[BlobMessage] = []  # by the client
        self.connect()

    def connect(self) -> None:
        """A new link, welcomed. What was on the old one is lost."""
        self.client, self.server = BlobClientMachine("m:1"), ServerMachine()
        self.dialer = Connection(Side.DIALER, "g")
        self.accepter = Connection(Side.ACCEPTER, "g")
        self.accepter.receive_data(self.dialer.send(HelloBlobs("client", "g", ("zstd",))))
        self.dialer.receive_data(self.accepter.send(Welcome("g", 1, ("zstd",))))
        self.to_server = bytearray()
        self.to_client = bytearray()
        self.disk: list[tuple[ServerMachine | BlobClientMachine, AnyOrder]] = []
        self.parts: dict[tuple[int, int], Part] = {}
        self.sources: dict[tuple[int, int], bytes] = {}

    def put(self, data: bytes, claim: Digest | None = None) -> int:
        """The client gives something, under its digest unless it lies."""
        digest = claim or digest_of(data)
        self.files[digest] = data
        number = self.client.put(digest, len(data))
        self.sources[id(self.client), number] = data
        self.pump()
        return number

    def get(self, digest: Digest, size: int) -> int:
        """The client takes something, or the rest of it."""
        data = self.fetched.setdefault(digest, bytearray())
        number = self.client.get(digest, size, len(data))
        self.parts[id(self.client), number] = Part(digest, size, data)
        self.pump()
        return number

    def pump(self) -> None:
        """Take the orders of both; words go on the wire, disk work waits."""
        for machine in (self.client, self.server):
            ours = machine is self.client
            for order in machine.take_orders():
                if isinstance(order, SendMessage):
                    if isinstance(order.message, BlobChunk):
                        self.chunk_bytes += order.message.packed or len(order.message.data)
                    connection = self.dialer if ours else self.accepter
                    wire = self.to_server if ours else self.to_client
                    wire += connection.send(order.message)
                elif isinstance(order, TransferEnded):
                    self.over.append((order.number, order.error.code if order.error else None))
                elif isinstance(order, SizesFound):
                    self.found.append(order.sizes)
                elif isinstance(order, Moved):
                    self.moved.append((order.number, order.offset))
                else:
                    self.disk.append((machine, order))

    def carry(self, side: Side, size: int) -> None:
        """Bring so many bytes to the other end."""
        wire = self.to_server if side is Side.DIALER else self.to_client
        data, wire[:size] = bytes(wire[:size]), b""
        if side is Side.DIALER:
            for message in self.accepter.receive_data(data):
                self.server.on_message(message)
            assert self.accepter.error is None
        else:
            for message in self.dialer.receive_data(data):
                self.heard.append(message)  # type: ignore[arg-type]
                self.client.on_message(message)
            assert self.dialer.error is None
        self.pump()

    def work(self, at: int = 0) -> None:
        """Do one thing that waits for a disk."""
        machine, order = self.disk.pop(at)
        key = (id(machine), getattr(order, "number", 0))
        try:
            self._do(machine, order, key)
        except RollqError as error:
            part = self.parts.get(key)
            digest = part.digest if part else order.digest  # type: ignore[union-attr]
            machine.failed(key[1], digest, error)
        self.pump()

    def cut(self) -> None:
        """The link is gone; both sides keep what is written."""
        self.server.closed()
        self.connect()

    def settle(self, rounds: int = 10_000) -> None:
        """Until nothing moves any more."""
        for _ in range(rounds):
            if self.disk:
                self.work()
            elif self.to_server or self.to_client:
                self.carry(Side.DIALER, len(self.to_server))
                self.carry(Side.ACCEPTER, len(self.to_client))
            else:
                return
        raise AssertionError("it never comes to rest")

    def step(self) -> None:
        """A little of everything: one piece of disk work, and what is on the wire."""
        if self.disk:
            self.work()
        self.carry(Side.DIALER, len(self.to_server))
        self.carry(Side.ACCEPTER, len(self.to_client))

    def settle_without_writing(self) -> None:
        """As `settle`, while the server's disk takes nothing."""
        while True:
            free = [at for at, work in enumerate(self.disk) if not isinstance(work[1], Write)]
            if free:
                self.work(free[0])
            elif self.to_server or self.to_client:
                self.carry(Side.DIALER, len(self.to_server))
                self.carry(Side.ACCEPTER, len(self.to_client))
            else:
                return

    def _do(
        self, machine: ServerMachine | BlobClientMachine, order: AnyOrder, key: tuple[int, int]
    ) -> None:
        if isinstance(order, Write):
            for chunk in order.chunks:
                self.parts[key].write(chunk)
            machine.written(order.number)
        elif isinstance(order, Read):
            machine.has_read(order.number, list(self._chunks(self.sources[key], order)))
        elif isinstance(order, Commit):
            part = self.parts[key]
            part.verify()
            if isinstance(machine, ServerMachine):
                self.stored[part.digest] = bytes(self.partial.pop(part.digest))
            machine.committed(order.number)
        elif isinstance(machine, ServerMachine):
            self._serve(machine, order, key)

    def _serve(self, machine: ServerMachine, order: AnyOrder, key: tuple[int, int]) -> None:
        if isinstance(order, Begin):
            if order.digest in self.stored:
                machine.begun(order.number, COMPLETE)
                return
            data = self.partial.setdefault(order.digest, bytearray())
            self.parts[key] = Part(order.digest, order.size, data)
            machine.begun(order.number, len(data))
        elif isinstance(order, ConfirmCopies):
            if self.vouch_error is not None:
                raise self.vouch_error
            machine.copies_confirmed(order.number)
        elif isinstance(order, Open):
            if order.digest not in self.stored:
                raise StateError(ErrorCode.BLOB_MISSING, order.digest.hex())
            self.sources[key] = self.stored[order.digest]
            machine.opened(order.number, order.digest, len(self.sources[key]))
        elif isinstance(order, GetSizes):
            sizes = [len(self.stored.get(digest, b"")) or -1 for digest in order.digests]
            machine.sizes_found(order.request_id, tuple(sizes))
        elif isinstance(order, CheckCopy):
            self.doubted.append(order.digest)
        else:
            assert isinstance(order, Close)

    def _chunks(self, data: bytes, order: Read) -> Iterator[BlobChunk]:
        for offset in range(order.offset, order.offset + order.length, CHUNK):
            raw = data[offset : min(offset + CHUNK, order.offset + order.length)]
            yield BlobChunk(order.digest, offset, raw)


def server_with_put(size: int = 100, offset: int = 0) -> ServerMachine:
    """A server that waits for chunks of OTHER."""
    server = ServerMachine()
    server.on_message(BlobPut(OTHER, size))
    assert server.take_orders() == [Begin(1, OTHER, size)]
    server.begun(1, offset)
    assert server.take_orders() == [SendMessage(BlobGo(OTHER, offset))]
    return server

"""Both ends of a link for blobs, story by story."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rollq.base.errors import DiskError, ErrorCode, RemoteError, StateError
from rollq.base.limits import (
    BLOB_BYTES_MAX,
    BLOB_CHUNK_BYTES_MAX,
    BLOB_TRANSFERS_MAX,
)
from rollq.roles.blobs import receiving
from rollq.roles.blobs.orders import Begin, CheckCopy, Close, Open, Read, SendMessage, Write
from rollq.roles.blobs.server_machine import ServerMachine
from rollq.wire.blob_messages import (
    BlobChunk,
    BlobDrop,
    BlobGet,
    BlobGo,
    BlobInfo,
    BlobMore,
    BlobPut,
    BlobStored,
)
from rollq.wire.handshake import Side
from tests.unit.roles.blob_world import (
    CHUNK,
    OTHER,
    READ,
    WINDOW,
    World,
    digest_of,
    server_with_put,
    small_sizes,
)

BLOB = bytes(range(256)) * 3 + b"end"
NAME = digest_of(BLOB)


@pytest.fixture(autouse=True)
def _small() -> Iterator[None]:
    with small_sizes():
        yield


# --- put


@pytest.mark.parametrize("data", [BLOB, b"", b"x", bytes(READ), bytes(WINDOW + 1)])
def test_what_is_put_is_stored(data: bytes) -> None:
    world = World()
    number = world.put(data)
    world.settle()
    assert world.over == [(number, None)]
    assert world.stored == {digest_of(data): data}
    assert world.chunk_bytes == len(data)
    assert not world.partial


def test_what_is_there_is_not_sent() -> None:
    world = World()
    world.stored[NAME] = BLOB
    number = world.put(BLOB)
    world.settle()
    assert world.over == [(number, None)]
    assert world.chunk_bytes == 0
    assert world.moved == [(number, len(BLOB))]


def test_after_a_cut_only_the_rest_is_sent() -> None:
    world = World()
    world.put(BLOB)
    while len(world.partial.get(NAME, b"")) < 300:
        if world.disk:
            world.work()
        else:
            world.carry(Side.DIALER, len(world.to_server))
            world.carry(Side.ACCEPTER, len(world.to_client))
    written = len(world.partial[NAME])
    world.cut()
    world.chunk_bytes = 0
    number = world.put(BLOB)
    world.settle()
    assert (number, None) in world.over
    assert world.chunk_bytes == len(BLOB) - written
    assert world.stored == {NAME: BLOB}


def test_what_was_written_whole_before_a_cut_is_only_verified() -> None:
    world = World()
    world.partial[NAME] = bytearray(BLOB)
    world.put(BLOB)
    world.settle()
    assert world.chunk_bytes == 0
    assert world.stored == {NAME: BLOB}


def test_bytes_that_do_not_have_the_digest_are_refused_and_it_may_be_put_again() -> None:
    world = World()
    number = world.put(BLOB[:-1] + b"!", claim=NAME)
    world.settle()
    assert world.over == [(number, ErrorCode.BLOB_CORRUPT)]
    assert not world.stored
    world.put(BLOB)
    world.settle()
    assert world.stored == {NAME: BLOB}


def test_nothing_is_told_to_be_stored_that_is_not_where_it_must_be() -> None:
    world = World()
    world.vouch_error = StateError(ErrorCode.NOT_LEADER, "not any more")
    number = world.put(BLOB)
    world.settle()
    assert world.over == [(number, ErrorCode.NOT_LEADER)]
    number = world.put(BLOB)  # it is here, but that is not enough
    world.settle()
    assert world.over[-1] == (number, ErrorCode.NOT_LEADER)
    assert world.chunk_bytes == len(BLOB)
    world.vouch_error = None
    number = world.put(BLOB)
    world.settle()
    assert (number, None) in world.over


def test_a_disk_that_fails_is_told_and_late_chunks_are_skipped() -> None:
    server = server_with_put()
    server.on_message(BlobChunk(OTHER, 0, b"abc"))
    assert [type(order) for order in server.take_orders()] == [Write]
    server.failed(1, OTHER, DiskError(ErrorCode.DISK_FULL, "no room"))
    assert server.take_orders() == [
        SendMessage(BlobStored(OTHER, ErrorCode.DISK_FULL, "no room")),
        Close(1),
    ]
    server.on_message(BlobChunk(OTHER, 3, b"def"))
    assert server.take_orders() == []
    server.on_message(BlobPut(OTHER, 100))
    assert server.take_orders() == [Begin(2, OTHER, 100)]
    server.failed(2, OTHER, DiskError(ErrorCode.DISK_FULL, "no room", "make some"))
    refusal = BlobGo(OTHER, 0, ErrorCode.DISK_FULL, "no room; make some")
    assert server.take_orders() == [SendMessage(refusal), Close(2)]


def test_the_sender_is_told_of_what_is_written_and_stays_within_the_window() -> None:
    world = World()
    world.put(BLOB)
    world.settle_without_writing()
    assert world.chunk_bytes == WINDOW
    world.settle()
    assert world.stored == {NAME: BLOB}


@pytest.mark.parametrize(
    "chunk",
    [
        BlobChunk(OTHER, 1, b"a gap"),
        BlobChunk(OTHER, -1, b"before"),
        BlobChunk(OTHER, 0, b""),
        BlobChunk(OTHER, 0, b"x" * 101),
        BlobChunk(OTHER, 0, b"x", -1),
        BlobChunk(OTHER, 0, b"xx", 1),
        BlobChunk(OTHER, 0, b"x", BLOB_CHUNK_BYTES_MAX + 1),
        BlobChunk(OTHER, 0, b"x" * (WINDOW + 1)),
    ],
)
def test_chunks_that_may_not_be_end_the_link(chunk: BlobChunk) -> None:
    server = server_with_put(100)
    with pytest.raises(RemoteError) as caught:
        server.on_message(chunk)
    assert caught.value.code is ErrorCode.BAD_PAYLOAD


def test_a_window_that_is_full_is_full() -> None:
    server = server_with_put(1_000)
    for offset in range(0, WINDOW, CHUNK):
        server.on_message(BlobChunk(OTHER, offset, bytes(CHUNK)))
    with pytest.raises(RemoteError) as caught:
        server.on_message(BlobChunk(OTHER, WINDOW, b"x"))
    assert "the window is full" in caught.value.message


def test_crumbs_that_are_not_written_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiving, "BLOB_CHUNKS_HELD_MAX", 3)
    server = server_with_put(10)
    for offset in range(4):  # the first is being written, three wait
        server.on_message(BlobChunk(OTHER, offset, b"x"))
    with pytest.raises(RemoteError) as caught:
        server.on_message(BlobChunk(OTHER, 4, b"x"))
    assert "send larger ones" in caught.value.message


def test_a_chunk_before_the_go_and_a_second_put_end_the_link() -> None:
    server = ServerMachine()
    server.on_message(BlobPut(OTHER, 10))
    with pytest.raises(RemoteError):
        server.on_message(BlobChunk(OTHER, 0, b"early"))
    with pytest.raises(RemoteError):
        server.on_message(BlobPut(OTHER, 10))


def test_too_many_and_too_large_are_refused() -> None:
    server = ServerMachine()
    server.on_message(BlobPut(OTHER, BLOB_BYTES_MAX + 1))
    server.on_message(BlobPut(OTHER, -1))
    for order in server.take_orders():
        assert isinstance(order, SendMessage)
        assert isinstance(order.message, BlobGo)
        assert order.message.error == ErrorCode.BAD_PAYLOAD
    for number in range(BLOB_TRANSFERS_MAX):
        server.on_message(BlobPut(bytes([number]) * 32, 10))
        server.on_message(BlobGet(bytes([number]) * 32))
    server.take_orders()
    server.on_message(BlobPut(b"\xff" * 32, 10))
    server.on_message(BlobGet(b"\xff" * 32))
    codes = [order.message.error for order in server.take_orders()]  # type: ignore[union-attr]
    assert codes == [ErrorCode.OVERLOADED] * 2


# --- get


@pytest.mark.parametrize("data", [BLOB, b"", b"x", bytes(WINDOW + 1)])
def test_what_is_got_is_what_is_stored(data: bytes) -> None:
    world = World()
    digest = digest_of(data)
    world.stored[digest] = data
    number = world.get(digest, len(data))
    world.settle()
    assert world.over == [(number, None)]
    assert world.fetched[digest] == data
    assert world.chunk_bytes == len(data)


def test_a_get_goes_on_where_it_ended() -> None:
    world = World()
    world.stored[NAME] = BLOB
    world.fetched[NAME] = bytearray(BLOB[:500])
    number = world.get(NAME, len(BLOB))
    world.settle()
    assert world.over == [(number, None)]
    assert world.fetched[NAME] == BLOB
    assert world.chunk_bytes == len(BLOB) - 500


def test_a_get_of_what_is_missing_and_of_another_size_ends() -> None:
    world = World()
    number = world.get(NAME, len(BLOB))
    world.settle()
    assert world.over == [(number, ErrorCode.BLOB_MISSING)]
    world.stored[NAME] = BLOB
    number = world.get(NAME, len(BLOB) + 1)
    world.settle()
    assert world.over[-1] == (number, ErrorCode.BLOB_CORRUPT)
    assert not world.fetched[NAME]


def test_what_rotted_on_the_way_is_found_by_the_receiver() -> None:
    world = World()
    world.stored[NAME] = BLOB[:100] + b"?" + BLOB[101:]
    number = world.get(NAME, len(BLOB))
    world.settle()
    assert world.over == [(number, ErrorCode.BLOB_CORRUPT)]
    assert world.doubted == [NAME]


def test_only_what_was_handed_out_is_doubted() -> None:
    server = ServerMachine()
    server.on_message(BlobPut(OTHER, 5))
    server.on_message(BlobDrop(OTHER, ErrorCode.BLOB_CORRUPT))
    server.on_message(BlobDrop(OTHER, ErrorCode.DISK_FULL))
    server.on_message(BlobDrop(OTHER))
    assert not [order for order in server.take_orders() if isinstance(order, CheckCopy)]
    server.on_message(BlobDrop(OTHER, ErrorCode.BLOB_CORRUPT))
    assert server.take_orders() == [CheckCopy(OTHER)]


def test_a_get_beyond_the_end_or_twice_is_refused() -> None:
    server = ServerMachine()
    server.on_message(BlobGet(OTHER, 11))
    assert server.take_orders() == [Open(1, OTHER)]
    with pytest.raises(RemoteError):
        server.on_message(BlobGet(OTHER, 0))
    server.opened(1, OTHER, 10)
    said, closed = server.take_orders()
    assert isinstance(said, SendMessage)
    assert isinstance(said.message, BlobInfo)
    assert said.message.error == ErrorCode.WRONG_STATE
    assert closed == Close(1)
    with pytest.raises(RemoteError):
        server.on_message(BlobGet(OTHER, -1))


@pytest.mark.parametrize("offset", [-1, 17, 4])
def test_more_that_cannot_be_ends_the_link(offset: int) -> None:
    server = ServerMachine()
    server.on_message(BlobGet(OTHER, 5))
    server.take_orders()
    server.opened(1, OTHER, 100)
    assert server.take_orders()[1:] == [Read(1, OTHER, 5, READ)]
    server.has_read(1, [BlobChunk(OTHER, 5, bytes(CHUNK))])
    with pytest.raises(RemoteError):
        server.on_message(BlobMore(OTHER, offset))


def test_a_source_that_cannot_be_read_ends_the_get() -> None:
    server = ServerMachine()
    server.on_message(BlobGet(OTHER))
    server.take_orders()
    server.opened(1, OTHER, 100)
    server.take_orders()
    server.failed(1, OTHER, DiskError(ErrorCode.DISK_FAILED, "bad sector"))
    assert server.take_orders() == [
        SendMessage(BlobInfo(OTHER, 100, ErrorCode.DISK_FAILED, "bad sector")),
        Close(1),
    ]

"""Links for blobs: many transfers, some given up or stalled, and peers that break the rules."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rollq.base.errors import DiskError, ErrorCode, Fault, LocalError, RemoteError
from rollq.base.limits import (
    BLOB_ASK_MAX,
    BLOB_ASKS_MAX,
    BLOB_SILENT_TICKS_MAX,
    BLOB_STALL_TICKS_MAX,
)
from rollq.roles.blobs.client_machine import BlobClientMachine
from rollq.roles.blobs.failures import from_answer
from rollq.roles.blobs.orders import Close, Commit, SendMessage, TransferEnded, Write
from rollq.roles.blobs.server_machine import ServerMachine
from rollq.wire.blob_messages import (
    BlobAsk,
    BlobChunk,
    BlobDrop,
    BlobGet,
    BlobGo,
    BlobHave,
    BlobInfo,
    BlobMore,
    BlobPut,
    BlobStored,
)
from tests.unit.roles.blob_world import (
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


# --- several, given up, asked


def test_transfers_take_turns() -> None:
    world = World()
    blobs = [bytes([number]) * 400 for number in range(1, 5)]
    numbers = [world.put(blob) for blob in blobs]
    most = 0
    while len(world.over) < len(blobs):
        world.step()
        written = [len(world.partial.get(digest_of(blob), b"")) for blob in blobs]
        if not world.stored:
            most = max(most, max(written) - min(written))
    assert sorted(world.over) == [(number, None) for number in numbers]
    assert world.stored == {digest_of(blob): blob for blob in blobs}
    assert most <= WINDOW


def test_a_small_one_does_not_wait_for_a_large_one() -> None:
    world = World()
    world.put(bytes(100_000))
    for _ in range(50):
        world.step()
    small = world.put(b"small")
    for _ in range(60):
        world.step()
    assert world.over == [(small, None)]


def test_a_dropped_put_leaves_nothing_and_may_begin_again() -> None:
    world = World()
    number = world.put(BLOB)
    for _ in range(30):
        world.step()
    world.client.drop(number, NAME)
    world.pump()
    again = world.put(BLOB)
    world.settle()
    assert world.over == [(again, None)]
    assert world.stored == {NAME: BLOB}


def test_a_dropped_get_leaves_nothing_and_may_begin_again() -> None:
    world = World()
    world.stored[NAME] = BLOB
    number = world.get(NAME, len(BLOB))
    for _ in range(30):
        world.step()
    assert 0 < len(world.fetched[NAME]) < len(BLOB)
    world.client.drop(number, NAME)
    world.pump()
    world.disk = [work for work in world.disk if not isinstance(work[1], Write)]
    again = world.get(NAME, len(BLOB))
    world.settle()
    assert world.over == [(again, None)]
    assert world.fetched[NAME] == BLOB


def test_a_drop_of_what_waits_or_is_unknown() -> None:
    server = ServerMachine()
    server.on_message(BlobGet(OTHER))
    server.on_message(BlobPut(NAME, 5))
    server.take_orders()
    server.on_message(BlobDrop(OTHER))
    server.on_message(BlobDrop(NAME))
    server.on_message(BlobDrop(NAME))
    assert server.take_orders() == [Close(1), Close(2)]
    server.begun(2, 0)
    server.opened(1, OTHER, 100)
    server.failed(2, NAME, DiskError(ErrorCode.DISK_FAILED, "late"))
    server.written(2)
    server.committed(2)
    server.copies_confirmed(2)
    server.has_read(1, [])
    assert server.take_orders() == []


def test_who_has_what() -> None:
    world = World()
    world.stored[NAME] = BLOB
    world.client.ask(bytes(16), (OTHER, NAME))
    world.pump()
    world.settle()
    assert world.found == [(-1, len(BLOB))]
    world.client.on_message(BlobHave(bytes(16), (1, 1)))  # nobody asked
    world.pump()
    assert len(world.found) == 1


def test_asks_are_bounded() -> None:
    server = ServerMachine()
    with pytest.raises(RemoteError):
        server.on_message(BlobAsk(bytes(16), (OTHER,) * (BLOB_ASK_MAX + 1)))
    for number in range(BLOB_ASKS_MAX):
        assert not server.is_busy
        server.on_message(BlobAsk(number.to_bytes(16, "big"), (OTHER,)))
    assert server.is_busy
    server.sizes_found(bytes(16), (-1,))
    assert not server.is_busy


def test_a_link_that_is_gone_closes_everything() -> None:
    server = server_with_put()
    server.on_message(BlobGet(OTHER))
    server.on_message(BlobGet(NAME))
    server.take_orders()
    server.opened(3, NAME, 100)
    server.take_orders()
    server.closed()
    assert sorted(order.number for order in server.take_orders()) == [1, 2, 3]  # type: ignore[union-attr]
    server.has_read(3, [])
    assert server.take_orders() == []


# --- time


def test_a_server_that_owes_something_says_that_it_is_at_it() -> None:
    server = server_with_put(10)
    server.on_message(BlobGet(NAME))
    server.on_message(BlobChunk(OTHER, 0, bytes(10)))
    server.take_orders()
    server.written(1)
    assert Commit(1) in server.take_orders()
    for _ in range(2 * BLOB_STALL_TICKS_MAX):
        assert not server.tick()
        assert server.take_orders() == [
            SendMessage(BlobMore(NAME, 0)),
            SendMessage(BlobMore(OTHER, 10)),
        ]


def test_senders_and_receivers_that_stall_are_found() -> None:
    server = server_with_put(10)
    assert [server.tick() for _ in range(BLOB_STALL_TICKS_MAX + 1)][-2:] == [False, True]
    server = ServerMachine()
    server.on_message(BlobGet(OTHER))
    server.opened(1, OTHER, 100)
    server.take_orders()
    server.has_read(1, [BlobChunk(OTHER, 0, bytes(READ))])
    assert [server.tick() for _ in range(BLOB_STALL_TICKS_MAX + 1)][-2:] == [False, True]


def test_a_member_that_says_nothing_is_found() -> None:
    client = BlobClientMachine("m:1")
    assert not any(client.tick() for _ in range(2 * BLOB_STALL_TICKS_MAX))  # nothing is owed
    client.put(OTHER, 10)
    assert [client.tick() for _ in range(BLOB_SILENT_TICKS_MAX + 1)][-2:] == [False, True]
    client.on_message(BlobMore(OTHER, 0))
    assert not client.tick()


def test_a_member_that_is_asked_says_that_it_is_at_it() -> None:
    server, client = ServerMachine(), BlobClientMachine("m:1")
    request_id = b"r" * 16
    client.ask(request_id, (OTHER,))
    server.on_message(BlobAsk(request_id, (OTHER,)))
    for _ in range(3 * BLOB_SILENT_TICKS_MAX):
        server.take_orders()
        server.tick()
        for order in server.take_orders():
            client.on_message(order.message)  # type: ignore[union-attr]
        assert not client.tick()


# --- a member that breaks the rules


def test_a_client_that_is_told_nonsense_ends_the_link() -> None:
    client = BlobClientMachine("m:1")
    client.put(OTHER, 10)
    with pytest.raises(RemoteError):
        client.on_message(BlobGo(OTHER, 11))
    client.on_message(BlobGo(OTHER, 0))
    with pytest.raises(RemoteError):
        client.on_message(BlobMore(OTHER, 10))
    with pytest.raises(RemoteError):
        client.on_message(BlobStored(OTHER))
    for stray in (BlobGo(NAME, 0), BlobStored(NAME), BlobInfo(NAME, 5), BlobMore(NAME, 5)):
        client.on_message(stray)


def test_a_client_does_not_move_one_blob_twice_at_once() -> None:
    client = BlobClientMachine("m:1")
    client.put(OTHER, 10)
    client.get(OTHER, 10, 0)
    with pytest.raises(LocalError):
        client.put(OTHER, 10)
    with pytest.raises(LocalError):
        client.get(OTHER, 10, 0)


def test_errors_of_newer_members_are_told_as_they_are() -> None:
    client = BlobClientMachine("m:1")
    client.put(OTHER, 10)
    client.take_orders()
    client.on_message(BlobGo(OTHER, 0, 9_999, "of tomorrow"))
    [over] = client.take_orders()
    assert isinstance(over, TransferEnded)
    assert over.error is not None
    assert "9999: of tomorrow" in over.error.message


def test_a_file_of_ours_that_cannot_be_read_is_given_up() -> None:
    client = BlobClientMachine("m:1")
    number = client.put(OTHER, 10)
    client.on_message(BlobGo(OTHER, 0))
    client.take_orders()
    error = DiskError(ErrorCode.DISK_FAILED, "bad sector")
    client.failed(number, OTHER, error)
    assert client.take_orders() == [SendMessage(BlobDrop(OTHER)), TransferEnded(number, error)]
    client.failed(number, OTHER, error)
    assert client.take_orders() == []


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (ErrorCode.DISK_FULL, "m:1: no room in blobs"),
        (ErrorCode.DISK_FAILED, "m:1: no room in blobs"),
        (ErrorCode.OVERLOADED, "no room in blobs"),
    ],
)
def test_the_disk_of_another_is_named_and_not_taken_for_our_own(code: ErrorCode, text: str) -> None:
    error = from_answer(code, "no room in blobs", bytes(32), "m:1")
    assert (error.code, error.message) == (code, text)
    assert error.fault is Fault.STATE

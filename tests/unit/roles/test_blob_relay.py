"""Blobs that are passed on while they come: how far ahead of the others we get, and turns."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rollq.base.errors import ErrorCode, StateError
from rollq.base.limits import (
    BLOB_RELAY_SLOW_TICKS_MAX,
    BLOB_SLOW_BYTES,
    BLOB_SLOW_TICKS_MAX,
    BLOB_WINDOW_BYTES,
)
from rollq.roles.blobs.client_machine import BlobClientMachine
from rollq.roles.blobs.orders import Close, Read, SendMessage
from rollq.roles.blobs.receiving import IncomingTransfer
from rollq.roles.blobs.relay import Growth, Relay
from rollq.roles.blobs.turns import TransferSlots
from rollq.wire.blob_messages import BlobChunk, BlobGo, BlobPut, BlobStored
from tests.unit.roles.blob_world import (
    CHUNK,
    OTHER,
    READ,
    World,
    digest_of,
    server_with_put,
    small_sizes,
)

WINDOW = BLOB_WINDOW_BYTES


@pytest.fixture(autouse=True)
def _small() -> Iterator[None]:
    with small_sizes():
        yield


class Upload:
    """Writes to a relay, and counts how often it may go on."""

    def __init__(self) -> None:
        self.is_given_up = False
        self.gone_on = 0
        self.relay = Relay(0, self._give_up)

    def grown(self, offset: int) -> None:
        self.relay.grown(offset, self._go_on)

    def _go_on(self) -> None:
        self.gone_on += 1

    def _give_up(self) -> None:
        self.is_given_up = True


# --- how far ahead


def test_nobody_is_waited_for_who_has_said_nothing() -> None:
    upload = Upload()
    upload.grown(10 * WINDOW)
    assert upload.gone_on == 1
    assert upload.relay.growth.ready == 10 * WINDOW


def test_it_is_no_more_than_a_window_ahead_of_anybody() -> None:
    upload = Upload()
    upload.relay.moved("a", 0)
    upload.relay.moved("b", 0)
    upload.grown(WINDOW)
    assert upload.gone_on == 1
    upload.grown(WINDOW + 1)
    upload.relay.moved("a", WINDOW)
    assert upload.gone_on == 1
    upload.relay.moved("b", 1)
    assert upload.gone_on == 2
    upload.relay.moved("b", 2)
    assert upload.gone_on == 2


def test_whoever_has_left_is_not_waited_for() -> None:
    upload = Upload()
    upload.relay.moved("a", 0)
    upload.grown(WINDOW + 1)
    upload.relay.left("a")
    upload.relay.left("a")
    assert upload.gone_on == 1


def test_a_slow_one_is_left_behind_until_it_has_caught_up() -> None:
    upload = Upload()
    upload.relay.moved("a", 0)
    upload.grown(WINDOW + 1)
    for _ in range(BLOB_RELAY_SLOW_TICKS_MAX - 1):
        upload.relay.tick()
    assert upload.gone_on == 0
    upload.relay.tick()
    assert upload.gone_on == 1
    upload.grown(9 * WINDOW)
    upload.relay.moved("a", WINDOW)
    assert upload.gone_on == 2
    upload.relay.moved("a", 8 * WINDOW)
    upload.grown(9 * WINDOW + 1)
    assert upload.gone_on == 2


def test_one_that_is_behind_and_fast_is_waited_for() -> None:
    upload = Upload()
    upload.relay.moved("a", 0)
    upload.grown(99 * WINDOW)
    for count in range(1, 5 * BLOB_RELAY_SLOW_TICKS_MAX):
        upload.relay.moved("a", count * WINDOW)
        upload.relay.tick()
    assert upload.gone_on == 0


def test_an_upload_that_ends_takes_the_relay_with_it() -> None:
    upload = Upload()
    upload.relay.moved("a", 0)
    upload.grown(WINDOW + 1)
    upload.relay.end()
    upload.relay.left("a")
    assert upload.is_given_up
    assert upload.gone_on == 0


def test_growth_is_told_as_long_as_somebody_listens() -> None:
    growth, told = Growth(1), list[int]()
    growth.grow(2)
    with growth.listening(told.append):
        growth.grow(3)
    growth.grow(4)
    assert (told, growth.ready) == ([3], 4)


# --- sending what is not whole


def test_only_what_is_there_is_sent() -> None:
    world = World()
    data = bytes(range(200))
    digest = digest_of(data)
    number = world.client.put(digest, len(data), ready=2 * CHUNK)
    world.sources[id(world.client), number] = data
    world.pump()
    world.settle()
    assert world.partial[digest] == data[: 2 * CHUNK]
    for ready in range(2 * CHUNK, len(data) + 1):
        world.client.grown(number, digest, ready)
        world.pump()
        world.settle()
        whole = world.stored.get(digest, world.partial.get(digest))
        assert whole is not None
        assert ready - CHUNK < len(whole) <= ready
    assert world.stored == {digest: data}
    assert world.over == [(number, None)]


def test_growth_before_it_is_asked_for_counts() -> None:
    client = BlobClientMachine("m:1")
    number = client.put(OTHER, 100, ready=0)
    client.grown(number, OTHER, CHUNK)
    client.grown(number + 1, OTHER, 100)  # of another transfer
    assert client.take_orders() == [SendMessage(BlobPut(OTHER, 100))]
    client.on_message(BlobGo(OTHER, 0))
    assert Read(number, OTHER, 0, CHUNK) in client.take_orders()


def test_one_that_has_more_than_we_have_is_sent_nothing_until_we_have_it() -> None:
    client = BlobClientMachine("m:1")
    number = client.put(OTHER, 200, ready=10)
    client.on_message(BlobGo(OTHER, 100))
    assert not any(isinstance(order, Read) for order in client.take_orders())
    client.grown(number, OTHER, 100)
    assert client.take_orders() == []
    client.grown(number, OTHER, 200)
    assert client.take_orders() == [Read(number, OTHER, 100, READ)]


# --- giving way


def test_an_upload_that_brings_next_to_nothing_is_slow() -> None:
    arrival = IncomingTransfer(1, OTHER, 100 * BLOB_SLOW_BYTES)
    for _ in range(BLOB_SLOW_TICKS_MAX):
        assert not arrival.is_slow
        arrival.tick()
    assert not arrival.is_slow, "it was not asked for anything"
    arrival.begin(0)
    for _ in range(BLOB_SLOW_TICKS_MAX):
        assert not arrival.is_slow
        arrival.tick()
    assert arrival.is_slow


def test_a_slow_upload_may_give_way_and_says_so() -> None:
    server = server_with_put()
    assert server.is_receiving
    for tick in range(BLOB_SLOW_TICKS_MAX):
        assert server.slow_puts() == []
        server.on_message(BlobChunk(OTHER, tick, b"x"))
        server.written(1)
        server.tick()
    server.take_orders()
    (arrival,) = server.slow_puts()
    server.failed(arrival.number, OTHER, StateError(ErrorCode.OVERLOADED, "others wait"))
    assert server.take_orders() == [
        SendMessage(BlobStored(OTHER, ErrorCode.OVERLOADED, "others wait")),
        Close(1),
    ]
    assert not server.is_receiving


def test_turns_tell_who_waits() -> None:
    turns: TransferSlots[str, int] = TransferSlots(1)
    turns.enter("a", 1, lambda: None)
    assert (turns.waiting, turns.is_wanted("a")) == (0, False)
    turns.enter("a", 2, lambda: None)
    assert (turns.waiting, turns.is_wanted("a")) == (0, True)
    turns.enter("b", 3, lambda: None)
    assert turns.waiting == 1

"""What a worker holds follows its hello, unless the member hangs up on that."""

from __future__ import annotations

import pytest

from rollq.base.errors import ErrorCode
from rollq.base.ids import NIL_ID
from rollq.base.jobs import AttemptRef, Status
from rollq.base.limits import HELLO_BYTES_MAX, HOLDINGS_PER_MESSAGE_MAX
from rollq.roles.worker.session import WorkerSetup
from rollq.roles.worker.signals import Connected, Disconnected, SendToMember, Started, StoredResult
from rollq.wire import messages as wire
from rollq.wire.features import FEATURES, HOLDINGS
from rollq.wire.frame import encode_frame
from rollq.wire.message_codec import Dialect, encode_message
from tests.unit.roles.chance import MiddleJitter
from tests.unit.roles.worker_machines import LEASE_MS, WORKER, Worker, received, ref

BEFORE = tuple(feature for feature in FEATURES if feature != HOLDINGS)
REFUSED = wire.Error(NIL_ID, ErrorCode.BAD_HANDSHAKE, "this member is no legacy leader")


def machine(held_count: int, features: tuple[str, ...] = FEATURES) -> Worker:
    setup = WorkerSetup(WORKER, ("m1",), ("q",), "box", 7, 2, features)
    stored = tuple(
        StoredResult(ref(number), LEASE_MS, Status.OK, b"r") for number in range(1, held_count + 1)
    )
    worker = Worker(setup, MiddleJitter(), stored)
    worker.handle(Started())
    return worker


def greeting(worker: Worker) -> tuple[wire.HelloWorker, list[tuple[AttemptRef, ...]]]:
    """What it says when it is connected: its hello, and the parts of what it holds."""
    out = worker.handle(Connected())
    hello, *parts = [
        message for one in out if isinstance(one, SendToMember) for message in one.messages
    ]
    assert isinstance(hello, wire.HelloWorker)
    holding = [part.holding for part in parts if isinstance(part, wire.Holdings)]
    assert len(holding) == len(parts)
    return hello, holding


@pytest.mark.parametrize("count", [1, 200, HOLDINGS_PER_MESSAGE_MAX + 1])
def test_a_hello_counts_what_follows_it_and_stays_small(count: int) -> None:
    worker = machine(count)
    hello, parts = greeting(worker)
    assert (hello.holding, hello.holding_count, hello.plain) == ((), count, True)
    assert len(encode_frame(encode_message(hello, Dialect.LEGACY))) - 4 <= HELLO_BYTES_MAX
    assert sum(parts, ()) == worker.holding
    assert max(map(len, parts)) <= HOLDINGS_PER_MESSAGE_MAX


def test_who_holds_nothing_or_does_not_offer_it_says_hello_as_before() -> None:
    for worker in (machine(0), machine(3, BEFORE)):
        hello, parts = greeting(worker)
        assert (hello.holding, hello.holding_count) == (worker.holding, 0)
        assert not hello.plain
        assert not parts


def test_a_member_that_hangs_up_on_the_count_is_told_all_in_the_hello() -> None:
    worker = machine(200)
    assert greeting(worker)[0].holding_count == 200
    worker.handle(received(REFUSED))
    worker.handle(Disconnected())
    hello, parts = greeting(worker)
    assert (hello.holding, hello.holding_count, hello.plain) == (worker.holding, 0, False)
    assert not parts
    worker.handle(received(wire.Welcome("g", 1, BEFORE)))
    worker.handle(Disconnected())
    assert greeting(worker)[0].holding == worker.holding  # it is of the version before: no detour


def test_a_member_that_hangs_up_on_that_too_is_told_the_count_again() -> None:
    worker = machine(200)
    counts = []
    for _ in range(4):
        counts.append(greeting(worker)[0].holding_count)
        worker.handle(Disconnected())
    assert counts == [200, 0, 200, 0]


def test_an_open_session_that_ends_changes_nothing() -> None:
    worker = machine(200)
    greeting(worker)
    worker.handle(received(wire.Welcome("g", 1, FEATURES)))
    for _ in range(2):  # the second is a connection that could not be made
        worker.handle(Disconnected())
    assert greeting(worker)[0].holding_count == 200

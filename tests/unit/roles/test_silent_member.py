"""Members that accept and say nothing, or fall silent: what the machines of workers and clients do
about it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rollq.base.limits import GREETING_MS_MAX, LOOK_MS, PING_MS, SILENCE_MS_MAX, SILENCE_MS_MIN
from rollq.roles.client.session.machine import ClientMachine
from rollq.roles.client.session.signals import ClientSetup, ClientTick, MessagesReceived
from rollq.roles.client.session.signals import Requested as AskedClient
from rollq.roles.dialogue import Connect, Connected, Disconnect, SendToLeader, Started
from rollq.roles.worker.session import LinkState, WorkerSetup
from rollq.roles.worker.signals import Instruction, Tick
from rollq.wire import messages as wire
from tests.unit.roles.chance import MiddleJitter
from tests.unit.roles.worker_machines import (
    WORKER,
    Worker,
    assign,
    finished,
    received,
    ref,
    say,
    stored,
)

FEATURES = ("compact", "alive")
WELCOME = wire.Welcome("g", 1, FEATURES, ping_ms=PING_MS)


def dialed() -> Worker:
    setup = WorkerSetup(WORKER, ("m1", "m2", "m3"), ("q",), "box", 7, 2, FEATURES)
    worker = Worker(setup, MiddleJitter())
    worker.handle(Started())
    worker.handle(Connected())
    return worker


def open_worker() -> Worker:
    worker = dialed()
    worker.handle(received(WELCOME))
    return worker


def ticks(worker: Worker, begin_ms: int, end_ms: int) -> dict[int, list[Instruction]]:
    """What the machine wants, by when it wants it."""
    out = {now: worker.handle(Tick(now)) for now in range(begin_ms, end_ms, LOOK_MS)}
    return {now: wants for now, wants in out.items() if wants}


def test_a_worker_leaves_a_member_that_accepts_and_says_nothing() -> None:
    found = ticks(dialed(), 0, GREETING_MS_MAX + LOOK_MS)
    assert found == {GREETING_MS_MAX: [Disconnect(stuck=True), Connect("m2", 0)]}


def test_a_worker_leaves_a_member_that_welcomed_it_and_fell_silent() -> None:
    found = ticks(open_worker(), 0, 2 * PING_MS + LOOK_MS)
    assert found == {
        PING_MS: [say(wire.Ping())],
        2 * PING_MS: [Disconnect(stuck=True), Connect("m2", 0)],
    }


def test_a_worker_tells_a_silent_member_that_knows_it_that_it_keeps_its_attempts() -> None:
    worker = dialed()
    features = (*FEATURES, "returns")
    worker.handle(received(wire.Welcome("g", 1, features, ping_ms=PING_MS)))
    found = ticks(worker, 0, 2 * PING_MS + LOOK_MS)
    assert found[2 * PING_MS] == [
        say(wire.Goodbye("the member is silent", returns=True)),
        Disconnect(stuck=True),
        Connect("m2", 0),
    ]


def test_what_one_member_knows_is_not_said_to_the_next() -> None:
    worker = dialed()
    worker.handle(received(wire.Welcome("g", 1, (*FEATURES, "returns"), ping_ms=PING_MS)))
    ticks(worker, 0, 2 * PING_MS + LOOK_MS)
    worker.handle(Connected())
    worker.handle(received(WELCOME))
    found = ticks(worker, 3 * PING_MS, 9 * PING_MS)
    assert [Disconnect(stuck=True), Connect("m3", 0)] in found.values()


def test_a_worker_stays_with_a_member_that_answers() -> None:
    worker = open_worker()
    for begin_ms in range(0, 50 * PING_MS, PING_MS):
        said = ticks(worker, begin_ms + LOOK_MS, begin_ms + PING_MS + LOOK_MS)
        assert sum(say(wire.Ping()) in wants for wants in said.values()) == 1
        worker.handle(received(wire.Pong()))
    assert worker.link is LinkState.OPEN


def test_a_member_that_does_not_answer_pings_is_not_left() -> None:
    worker = dialed()
    worker.handle(received(wire.Welcome("g", 1, ("compact",))))
    sent = [one for wants in ticks(worker, 0, 60_000).values() for one in wants]
    assert all(isinstance(one.messages[0], wire.Heartbeat) for one in sent)  # type: ignore[union-attr]
    assert worker.link is LinkState.OPEN


def test_the_next_leader_hears_of_what_runs_and_of_what_has_ended() -> None:
    worker = open_worker()
    worker.handle(assign(ref(1)))
    worker.handle(assign(ref(2)))
    worker.handle(finished(ref(2)))
    worker.handle(stored(ref(2)))
    ticks(worker, 0, 2 * PING_MS + LOOK_MS)
    assert worker.link is LinkState.DOWN
    (hello,) = worker.handle(Connected())
    assert hello.messages[0].holding == (ref(1), ref(2))  # type: ignore[union-attr]


def test_a_stopped_member_does_not_get_the_worker_back_by_what_others_say_of_it() -> None:
    worker = open_worker()
    ticks(worker, 0, 2 * PING_MS + LOOK_MS)
    worker.handle(Connected())
    out = worker.handle(received(wire.NotLeader("m1", ("m1", "m2", "m3"))))
    assert out == [Disconnect(), Connect("m3", 20)]


def test_a_slow_group_is_given_longer_for_the_hello_of_a_worker() -> None:
    worker = dialed()
    waits = []
    now_ms = 0
    for _ in range(5):
        began_ms = now_ms
        while worker.link is LinkState.GREETING:
            now_ms += LOOK_MS
            worker.handle(Tick(now_ms))
        waits.append(now_ms - began_ms)
        worker.handle(Connected())
    assert waits == [GREETING_MS_MAX, 2_000, SILENCE_MS_MAX, SILENCE_MS_MAX, SILENCE_MS_MAX]


# --- clients


def client(
    *heard: wire.MemberMessage, asks: bool = False
) -> Callable[[int, int, bool], dict[int, list[object]]]:
    """A client in a session where this was heard; returns its clock."""
    setup = ClientSetup("c", ("m1", "m2", "m3"), 0, FEATURES)
    machine = ClientMachine(setup, MiddleJitter())
    machine.handle(Started())
    machine.handle(Connected())
    if heard:
        machine.handle(MessagesReceived(heard))
    if asks:
        machine.handle(AskedClient((wire.Query(b"q" * 16, "status"),)))

    def run(begin_ms: int, end_ms: int, is_awaiting: bool) -> dict[int, list[object]]:
        out: dict[int, list[object]] = {}
        for now_ms in range(begin_ms, end_ms, LOOK_MS):
            wants = machine.handle(ClientTick(now_ms, is_awaiting))
            if wants:
                out[now_ms] = list(wants)
        return out

    return run


LEAVES = [Disconnect(stuck=True), Connect("m2", 0)]


def test_a_client_leaves_a_member_that_accepts_and_says_nothing() -> None:
    assert client()(0, SILENCE_MS_MIN + LOOK_MS, False) == {SILENCE_MS_MIN: LEAVES}


def test_a_client_that_awaits_results_leaves_a_member_that_fell_silent() -> None:
    found = client(WELCOME)(0, 2 * PING_MS + LOOK_MS, True)
    assert found == {PING_MS: [SendToLeader(wire.Ping())], 2 * PING_MS: LEAVES}


def test_a_client_that_awaits_nothing_asks_nothing() -> None:
    assert client(WELCOME)(0, 60_000, False) == {}


@pytest.mark.parametrize("pings", [True, False])
def test_a_client_whose_request_is_not_answered_leaves(pings: bool) -> None:
    welcome = WELCOME if pings else wire.Welcome("g", 1, ("compact",))
    found = client(welcome, asks=True)(0, SILENCE_MS_MIN + LOOK_MS, False)
    assert found.pop(SILENCE_MS_MIN) == LEAVES
    assert list(found.values()) == ([[SendToLeader(wire.Ping())]] if pings else [])

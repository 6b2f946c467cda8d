"""The pump on a loop whose time the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, cast

import pytest

from rollq.base.errors import DeadlineError, ErrorCode, LocalError
from rollq.roles.client.engine.base import Engine
from rollq.roles.client.jobs.supply import NOTHING, Supply
from rollq.roles.client.many.pump import Pump
from rollq.roles.client.session.group_session import Answer, OnAnswer
from rollq.wire import messages as wire
from tests.unit.roles.client_files import run
from tests.unit.roles.test_client_deadlines import HandLoop


class Loop(HandLoop):
    """Time is moved by hand, futures are real."""

    def create_future(self) -> asyncio.Future[None]:
        return asyncio.get_running_loop().create_future()


class FakeEngine:
    """Takes requests, and answers when the test says so."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.asked: dict[bytes, OnAnswer] = {}
        self.given_up: list[bytes] = []
        self.uploaded = 0.0
        self.error: LocalError | None = None

    def ask(self, request: wire.Cancel, on_answer: OnAnswer, supply: Supply) -> None:
        if self.error is not None:
            raise self.error
        self.asked[request.request_id] = on_answer

    def give_up(self, request_id: bytes) -> None:
        self.given_up.append(request_id)

    def uploaded_at(self) -> float:
        return self.uploaded

    def timeout_error(self, what: str, wait_s: float, *, submits: bool) -> DeadlineError:
        hint = "accepted perhaps" if submits else ""
        return DeadlineError(ErrorCode.TIMED_OUT, f"{what} after {wait_s} s", hint)

    def accept(self, number: int) -> None:
        self.asked.pop(bytes([number]))(wire.Accepted(bytes([number])))


def request(number: int) -> wire.Cancel:
    return wire.Cancel(bytes([number]), ())


def pump_of(engine: FakeEngine, answered: list[int]) -> Pump:
    def on_answer(answer: Answer) -> None:
        answered.append(answer.request_id[0])

    return Pump(cast("Engine", engine), "{} requests", 10, on_answer)


async def begun(waiting: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    task = asyncio.ensure_future(waiting)
    await asyncio.sleep(0)
    return task


def test_it_waits_until_few_enough_are_unanswered() -> None:
    async def story() -> None:
        engine = FakeEngine()
        answered: list[int] = []
        pump = pump_of(engine, answered)
        for number in range(3):
            pump.send(request(number))
        waiting = await begun(pump.drain(2))
        engine.accept(2)
        await waiting
        waiting = await begun(pump.drain())
        engine.accept(0)
        await asyncio.sleep(0)
        assert (waiting.done(), answered, len(pump)) == (False, [2, 0], 1)
        waiting.cancel()
        assert pump.close() == [bytes([1])]
        assert engine.given_up == [bytes([1])]

    run(story())


def test_silence_runs_out_also_for_one_who_waits_in_small_pieces() -> None:
    async def story() -> None:
        engine = FakeEngine()
        pump = pump_of(engine, [])
        pump.send(request(1))
        for _ in range(3):
            waiting = await begun(pump.changed())
            engine.loop.pass_(4)
            waiting.cancel()
            await asyncio.wait([waiting])
        assert isinstance(pump.error, DeadlineError)

    run(story())


def test_what_is_sent_after_a_pause_has_all_of_its_time() -> None:
    async def story() -> None:
        engine = FakeEngine()
        pump = pump_of(engine, [])
        pump.send(request(1))
        waiting = await begun(pump.changed())
        engine.loop.pass_(1)
        engine.accept(1)
        await waiting
        engine.loop.pass_(8)
        pump.send(request(2))
        waiting = await begun(pump.drain())
        engine.loop.pass_(9)
        assert pump.error is None
        engine.loop.pass_(1)
        with pytest.raises(DeadlineError):
            await waiting

    run(story())


@pytest.mark.parametrize("submits", [True, False])
def test_what_is_not_answered_is_counted_and_may_be_accepted_if_it_submits(
    *, submits: bool
) -> None:
    async def story() -> None:
        engine = FakeEngine()
        what = "{} requests"
        pump = Pump(cast("Engine", engine), what, 10, lambda _: None, submits=submits)
        for number in range(3):
            pump.send(request(number))
        waiting = await begun(pump.drain())
        engine.loop.pass_(10)
        with pytest.raises(DeadlineError, match="3 requests after 10 s") as silent:
            await waiting
        assert bool(silent.value.hint) is submits

    run(story())


def test_what_is_dropped_is_not_sent_later() -> None:
    async def story() -> None:
        engine = FakeEngine()
        pump = pump_of(engine, [])
        pump.send_later(1, request(1))
        pump.drop(bytes([1]))
        engine.loop.pass_(5)
        assert (engine.asked, len(pump)) == ({}, 0)

    run(story())


def test_silence_counts_from_the_last_answer_and_from_the_last_file() -> None:
    async def story() -> None:
        engine = FakeEngine()
        pump = pump_of(engine, [])
        for number in range(2):
            pump.send(request(number), NOTHING if number else Supply())
        waiting = await begun(pump.drain())
        engine.loop.pass_(6)
        engine.accept(0)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        engine.loop.pass_(4)
        assert engine.loop.armed == [116.0]  # one timer, however often it hears something
        engine.uploaded = 112.0
        engine.loop.pass_(6)
        assert engine.loop.armed == [122.0]
        engine.loop.pass_(6)
        with pytest.raises(DeadlineError, match="1 requests after 10 s"):
            await waiting
        assert engine.loop.armed == []

    run(story())


def test_files_that_are_read_are_no_silence() -> None:
    async def story() -> None:
        engine = FakeEngine()
        pump = pump_of(engine, [])
        pump.reading = 1
        waiting = await begun(pump.changed())
        engine.loop.pass_(10)
        assert engine.loop.armed == [120.0]
        pump.reading = 0
        pump.heard()
        await waiting
        engine.loop.pass_(10)
        assert (pump.error, engine.loop.armed) == (None, [])

    run(story())


def test_what_is_sent_later_counts_until_then_and_is_not_sent_when_closed() -> None:
    async def story() -> None:
        engine = FakeEngine()
        pump = pump_of(engine, [])
        pump.send_later(1, request(1))
        pump.send_later(3, request(2))
        pump.send_later(2, request(3))
        assert (len(pump), list(engine.asked)) == (3, [])
        engine.loop.pass_(1)
        assert (len(pump), list(engine.asked)) == (3, [bytes([1])])
        engine.error = LocalError(ErrorCode.BAD_SETUP, "the client is not started")
        engine.loop.pass_(1)
        with pytest.raises(LocalError, match="not started"):
            await pump.drain()
        engine.error = None
        pump.close()
        engine.loop.pass_(5)
        assert list(engine.asked) == [bytes([1])]

    run(story())


def test_what_cannot_be_sent_or_is_dropped_is_not_awaited() -> None:
    engine = FakeEngine()
    answered: list[int] = []
    pump = pump_of(engine, answered)
    pump.send(request(1))
    pump.drop(bytes([1]))
    pump.drop(bytes([1]))
    assert engine.given_up == [bytes([1])]
    engine.accept(1)  # on its way already
    engine.error = LocalError(ErrorCode.BAD_OPTIONS, "too large")
    with pytest.raises(LocalError):
        pump.send(request(2))
    assert (len(pump), bytes([2]) in pump, answered) == (0, False, [])


def test_what_is_sent_during_a_wait_for_something_else_has_a_deadline() -> None:
    async def story() -> None:
        engine = FakeEngine()
        pump = pump_of(engine, [])
        waiting = await begun(pump.changed())
        engine.loop.pass_(100)
        pump.send(request(1))
        engine.loop.pass_(10)
        await waiting
        assert isinstance(pump.error, DeadlineError)

    run(story())


def test_all_who_wait_are_woken() -> None:
    async def story() -> None:
        engine = FakeEngine()
        pump = pump_of(engine, [])
        pump.send(request(1))
        both = [await begun(pump.drain()), await begun(pump.drain())]
        engine.accept(1)
        done, _ = await asyncio.wait(both, timeout=5)
        assert done == set(both)

    run(story())

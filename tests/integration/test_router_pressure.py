"""A router between those who are slow: nothing grows without a bound, and nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from rollq import Client
from rollq.base.limits import FRAME_BYTES_MAX
from rollq.net.link import Link
from rollq.roles.client.several_groups.routes import GroupTable
from rollq.roles.router import client_link
from rollq.roles.router.client_link import ClientLink
from rollq.roles.router.node import RouterNode, RouterSetup
from rollq.wire import messages as wire
from rollq.wire.compact import Message
from tests.integration.fake_leader import FakeLeader, accept, done, play, run
from tests.integration.patience import DEADLINE_S
from tests.integration.talk import Talker, hang_up_all, job, submit

AHEAD_BYTES = 100_000
JOBS = 600
RESULTS = 400
BODY = b"x" * 10_000


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(client_link, "ROUTER_AHEAD_BYTES_MAX", AHEAD_BYTES)
    yield
    hang_up_all()


def say_nothing(leader: FakeLeader, link: Link, message: Message) -> None:
    """Neither accept nor refuse."""


@asynccontextmanager
async def routed(*leaders: FakeLeader) -> AsyncIterator[RouterNode]:
    """A router before these."""
    for leader in leaders:
        await leader.start()
    groups = {f"g{number}": leader.address for number, leader in enumerate(leaders)}
    node = RouterNode(RouterSetup(groups, GroupTable()), "127.0.0.1", 0)
    await node.start()
    try:
        yield node
    finally:
        await node.stop()
        for leader in leaders:
            await leader.stop()


def greet(node: RouterNode) -> Talker:
    """A client that says what it is told to, and reads when it is told to."""
    talker = Talker(f"127.0.0.1:{node.port}")
    talker.say(wire.HelloClient("ann", 0, ("compact", "accepted", "batch")))
    talker.hear(wire.Welcome)
    return talker


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what nobody tells."""
    async with asyncio.timeout(DEADLINE_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def only(node: RouterNode) -> ClientLink:
    (one,) = node._clients.values()
    return one


def test_a_client_whose_group_does_not_answer_is_not_read_from() -> None:
    async def story() -> None:
        leader = FakeLeader(say_nothing)
        async with routed(leader) as node:
            talker = await asyncio.to_thread(greet, node)
            submits = [submit(number, BODY) for number in range(1, JOBS + 1)]
            saying = asyncio.ensure_future(asyncio.to_thread(talker.say, *submits))
            await until(lambda: only(node)._is_paused)
            assert only(node).machine.unanswered_bytes <= AHEAD_BYTES + FRAME_BYTES_MAX
            assert len(leader.of(wire.SubmitJob)) < JOBS
            leader.reply = accept
            for message in leader.of(wire.SubmitJob):
                accept(leader, leader.links[0], message)
            await saying
            answers = [await asyncio.to_thread(talker.hear, wire.Accepted) for _ in submits]
            assert [one.request_id for one in answers] == [one.job_id for one in submits]

    play(story())


def test_groups_of_a_client_that_does_not_read_are_not_read_from() -> None:
    async def story() -> None:
        leader = FakeLeader(accept)
        async with routed(leader) as node:
            talker = await asyncio.to_thread(greet, node)
            large = b"y" * 60_000
            for number in range(1, RESULTS + 1):
                leader.links[0].send(done(job(number), large))
            await until(lambda: only(node)._are_paused)
            assert only(node).link.waiting_bytes <= AHEAD_BYTES + FRAME_BYTES_MAX
            for number in range(1, RESULTS + 1):
                result = await asyncio.to_thread(talker.hear, wire.Result)
                assert result.job_id == job(number)

    play(story())


def test_a_group_that_takes_connections_and_says_nothing_is_not_waited_for() -> None:
    async def story() -> None:
        silent, other = FakeLeader(), FakeLeader(run, runs=True)
        silent.greets = False
        async with routed(silent, other) as node:
            async with Client(f"127.0.0.1:{node.port}", timeout=DEADLINE_S) as client:
                jobs = [await client.submit("calc") for _ in range(3)]
                assert all([(await one.result(DEADLINE_S)).ok for one in jobs])
                assert client.client_id
            await until(lambda: not node.client_count)

    play(story())

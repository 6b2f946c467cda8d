"""Bulks and arrays over several groups, against scripted members."""

from __future__ import annotations

import asyncio
import threading

import pytest

from rollq import BlockingMultiClient, ErrorCode, MultiClient, RollqError
from rollq.base.ids import task_id
from rollq.net.link import Link
from rollq.roles.client.several_groups import machine as multi_machine
from rollq.wire import messages as wire
from rollq.wire.compact import Message
from tests.integration.fake_leader import FakeLeader, accept, all_up, done, play
from tests.integration.workers import eventually


def test_the_jobs_of_a_bulk_are_spread_evenly() -> None:
    async def story() -> None:
        first, second = await FakeLeader().start(), await FakeLeader().start()
        async with MultiClient([first.address, second.address]) as client:
            await all_up(client)
            batch = await client.submit_many("calc", [bytes([n]) for n in range(10)])
            assert {one.value async for one in batch.results()} == {bytes([n]) for n in range(10)}
            assert batch.counts.ok == 10
            assert len(first.of(wire.SubmitJob)) == len(second.of(wire.SubmitJob)) == 5
            assert (client.inflight, client.pending) == ((0, 0), 0)
        await first.stop()
        await second.stop()

    play(story())


def test_a_job_of_many_that_is_refused_is_told_and_forgotten() -> None:
    def refuse_one(leader: FakeLeader, link: Link, message: Message) -> None:
        if isinstance(message, wire.SubmitJob) and message.body == b"bad":
            link.send(wire.Error(message.job_id, int(ErrorCode.BAD_OPTIONS), "not that"))
        else:
            accept(leader, link, message)

    async def story() -> None:
        leader = await FakeLeader(refuse_one).start()
        async with MultiClient([leader.address]) as client:
            with pytest.raises(RollqError, match="not that"):
                await client.submit_many("calc", [b"a", b"bad", b"c"])
            assert b"bad" not in [one.body for one in client._engine._requests.values()]
        await leader.stop()

    play(story())


def test_an_array_stays_together_and_ends_with_its_last_task() -> None:
    async def story() -> None:
        first, second = await FakeLeader().start(), await FakeLeader().start()
        async with MultiClient([first.address, second.address]) as client:
            await all_up(client)
            arrays = [await client.submit_array("calc", 7, payload=b"x") for _ in range(2)]
            for array in arrays:
                assert [one.job_id async for one in array.results()] == list(array.job_ids())
            assert [len(one.of(wire.SubmitArray)) for one in (first, second)] == [1, 1]
            assert (client.inflight, client._engine._requests, client._engine._arrays) == (
                (0, 0),
                {},
                {},
            )
        await first.stop()
        await second.stop()

    play(story())


def test_an_array_of_a_dead_group_moves_and_every_task_counts_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(multi_machine, "MULTI_GRACE_MS", 100)

    def half(leader: FakeLeader, link: Link, message: Message) -> None:
        accept(leader, link, message)
        if isinstance(message, wire.SubmitArray):
            for number in range(2):
                link.send(done(task_id(message.array_id, message.first_task + number)))

    async def story() -> None:
        first = await FakeLeader(half).start()
        second = await FakeLeader().start()
        await second.stop()
        async with MultiClient([first.address, second.address]) as client:
            array = await client.submit_array("calc", 4)
            await first.until(lambda: first.of(wire.Confirm))
            await first.stop()
            await second.start()
            assert (await array.wait()).ok == 4
            (moved,) = second.of(wire.SubmitArray)
            assert moved.array_id == array.array_id
            await first.start()
            await first.until(lambda: first.of(wire.Cancel))
            assert first.of(wire.Cancel)[0].job_ids == (array.array_id,)
        await first.stop()
        await second.stop()

    play(story())


def test_an_array_that_no_group_has_is_cancelled_at_once() -> None:
    async def story() -> None:
        leader = await FakeLeader(accept).start()
        async with MultiClient([leader.address]) as client:
            array = await client.submit_array("calc", 5)
            await leader.stop()
            await eventually(lambda: not client._engine.sessions[0].is_open)
            assert await array.cancel() == 5
            assert (await array.wait()).cut == 5
            assert [one async for one in array.results()] == []

    play(story())


def test_the_blocking_twin_does_the_same() -> None:
    ready, over = threading.Event(), threading.Event()
    addresses: list[str] = []

    def serve() -> None:
        async def story() -> None:
            leader = await FakeLeader().start()
            addresses.append(leader.address)
            ready.set()
            await asyncio.to_thread(over.wait)
            await leader.stop()

        play(story())

    server = threading.Thread(target=serve)
    server.start()
    try:
        assert ready.wait(20)
        with BlockingMultiClient(addresses, client_id="me", policy="least-inflight") as client:
            assert client.client_id == "me"
            assert client.submit("calc", payload=b"1").result(20).value == b"1"
            assert client.submit_many("calc", [b"1", b"2"]).wait(20).ok == 2
            assert client.submit_array("calc", 3).wait(20).ok == 3
            assert [one.value for one in client.map("calc", [b"3"])] == [b"3"]
            assert (client.inflight, client.pending) == ((0,), 0)
    finally:
        over.set()
        server.join()

"""The client of several groups, against scripted members."""

from __future__ import annotations

import asyncio

import pytest

from rollq import (
    ErrorCode,
    JobSpec,
    LocalError,
    MultiClient,
    RollqError,
)
from rollq.net.link import Link
from rollq.roles.client.several_groups import machine as multi_machine
from rollq.wire import messages as wire
from rollq.wire.compact import Message
from tests.integration.fake_leader import FakeLeader, accept, all_up, done, play

ID = bytes(range(1, 17))


def test_a_refusal_by_a_group_is_the_answer() -> None:
    async def story() -> None:
        def refuse(leader: FakeLeader, link: Link, message: Message) -> None:
            if isinstance(message, wire.SubmitJob):
                link.send(wire.Error(message.job_id, int(ErrorCode.BAD_OPTIONS), "no"))

        leader = await FakeLeader(refuse).start()
        async with MultiClient([leader.address]) as client:
            with pytest.raises(LocalError, match="no"):
                await client.submit("calc")
            assert client.inflight == (0,)
        with pytest.raises(LocalError):
            await client.submit("calc")
        await leader.stop()

    play(story())


def test_a_job_that_waits_for_others_belongs_to_one_group() -> None:
    async def story() -> None:
        leader = await FakeLeader(accept).start()
        async with MultiClient([leader.address]) as client:
            with pytest.raises(LocalError, match="jobs that wait for others"):
                await client.submit("calc", after=[ID])
            await client.submit("calc", after=[])
            assert client.inflight == (1,)
        await leader.stop()

    play(story())


def test_a_job_that_the_second_group_refuses_is_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multi_machine, "MULTI_GRACE_MS", 100)

    async def story() -> None:
        def refuse(leader: FakeLeader, link: Link, message: Message) -> None:
            if isinstance(message, wire.SubmitJob):
                link.send(wire.Error(message.job_id, int(ErrorCode.BAD_OPTIONS), "not here"))

        first, second = await FakeLeader(accept).start(), FakeLeader(refuse)
        await second.start()
        await second.stop()
        async with MultiClient([first.address, second.address]) as client:
            job = await client.submit("calc")
            await first.stop()
            await second.start()
            result = await job.result()
            assert (result.status, result.detail) == ("DEAD", "not here")
        await second.stop()

    play(story())


def test_whoever_waits_is_told_when_a_client_of_many_stops() -> None:
    async def story() -> None:
        leader = FakeLeader()
        await leader.start()
        await leader.stop()
        client = MultiClient([leader.address])
        await client.start()
        await client.start()
        many = asyncio.ensure_future(client.submit_many([JobSpec("calc")]))
        one = asyncio.ensure_future(client.submit("calc"))
        await asyncio.sleep(0)
        await client.stop()
        await client.stop()
        for waiting in (many, one):
            with pytest.raises(RollqError) as caught:
                await waiting
            assert caught.value.code is ErrorCode.DISCONNECTED

    play(story())


def test_a_client_of_two_groups_moves_jobs_of_a_dead_one_under_the_same_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(multi_machine, "MULTI_GRACE_MS", 300)

    async def story() -> None:
        first, second = await FakeLeader(accept).start(), await FakeLeader(accept).start()
        async with MultiClient([first.address, second.address], desired_parallelism=8) as client:
            await all_up(client)
            assert first.of(wire.HelloClient)[0].desired_parallelism == 4
            one, two = await client.submit("calc"), await client.submit("calc")
            assert client.inflight == (1, 1)
            await first.stop()
            moved = await second.until(
                lambda: (
                    {sent.job_id for sent in second.of(wire.SubmitJob)} == {one.job_id, two.job_id}
                )
            )
            assert moved
            second.links[0].send(done(one.job_id, b"second"))
            assert (await one.result()).value == b"second"
            await first.start()
            (cancel,) = await first.until(lambda: first.of(wire.Cancel))
            assert cancel.job_ids in {(one.job_id,), (two.job_id,)}
            assert await two.cancel()
        await first.stop()
        await second.stop()

    play(story())


def test_a_client_of_two_groups_maps_and_cancels_what_waits() -> None:
    async def story() -> None:
        leader = FakeLeader()
        await leader.start()
        await leader.stop()
        async with MultiClient([leader.address], policy="least-inflight") as client:
            submitted = asyncio.ensure_future(client.submit("calc", job_id=ID))
            await asyncio.sleep(0)
            assert client.pending == 1
            assert await client.cancel(ID) == 1
            assert (await (await submitted).result()).status == "CANCELLED"
            await leader.start()
            results = [one async for one in client.map("calc", [b"1", b"2"])]
            assert sorted(one.raw for one in results) == [b"1", b"2"]
        await leader.stop()

    play(story())


def test_groups_come_and_go_while_the_client_runs() -> None:
    async def story() -> None:
        first, second = await FakeLeader(accept).start(), await FakeLeader(accept).start()
        async with MultiClient({"one": first.address}) as client:
            job = await client.submit("calc")
            await client.add_group(second.address, name="two")
            with pytest.raises(LocalError, match="two groups are named 'two'"):
                await client.add_group(second.address, name="two")
            await client.remove_group("one")
            with pytest.raises(LocalError, match="no group is named 'one'"):
                await client.remove_group("one")
            (cancel,) = await first.until(lambda: first.of(wire.Cancel))
            assert cancel.job_ids == (job.job_id,)
            await second.until(lambda: second.of(wire.SubmitJob))
            second.links[0].send(done(job.job_id, b"second"))
            assert (await job.result()).value == b"second"
            assert client.spread == {"two": 1}
        await first.stop()
        await second.stop()

    play(story())


def test_weights_and_routes_of_groups_that_there_are_not_are_refused() -> None:
    for wrong in ({"weights": {"two": 2}}, {"routes": ["render=two"]}):
        with pytest.raises(LocalError, match="no group is named 'two'"):
            MultiClient({"one": "127.0.0.1:5000"}, **wrong)

"""`map` against a scripted member: what goes out as one, and what is asked again after a break."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from rollq import Client, ErrorCode, JobSpec, LocalError, RollqError
from rollq.base.staged import ids_of
from rollq.net.link import Link
from rollq.roles.client.many import map_run as mapping
from rollq.wire import messages as wire
from rollq.wire.compact import Message
from rollq.wire.run_messages import RefusedJob, RunAccepted, SubmitRun
from tests.integration.fake_leader import FakeLeader, accept, done, play, run

ID = bytes(range(1, 17))


async def values(client: Client, arguments: list[bytes], **options: object) -> list[bytes | str]:
    return [one.value async for one in client.map("calc", arguments, **options)]  # type: ignore[arg-type]


def jobs_of(*runs: SubmitRun) -> list[tuple[bytes, bytes]]:
    """Ids and bodies."""
    return [pair for run in runs for pair in zip(ids_of(run.job_ids), run.bodies, strict=True)]


def test_map_keeps_its_window_and_leaving_it_cancels_the_rest() -> None:
    async def story() -> None:
        leader = await FakeLeader(accept, runs=True).start()
        taken: list[int] = []

        def endless() -> Iterator[str]:
            while True:
                taken.append(1)
                yield str(len(taken))

        async with Client(leader.address) as client:
            results = client.map("calc", endless(), window=8)
            first = asyncio.ensure_future(anext(results))
            (asked,) = await leader.until(lambda: leader.of(SubmitRun))
            ids = list(ids_of(asked.job_ids))
            assert len(ids) == 8
            leader.links[0].send(done(ids[3]))
            assert (await first).job_id == ids[3]
            assert len(taken) == 8
            await results.aclose()
            (cancel,) = await leader.until(lambda: leader.of(wire.Cancel))
            assert set(cancel.job_ids) == set(ids) - {ids[3]}
            leader.links[0].send(wire.Result(ids[0], "cancelled"))
            await leader.until(lambda: len(leader.of(wire.Confirm)) == 2)
        await leader.stop()

    play(story())


def test_map_in_order_with_progress() -> None:
    async def story() -> None:
        leader = await FakeLeader(accept, runs=True).start()
        told: list[tuple[int, int | None]] = []
        async with Client(leader.address) as client:

            async def collect() -> list[bytes]:
                return [
                    one.job_id
                    async for one in client.map(
                        "calc", ["a", "b", "c"], ordered=True, progress=lambda *at: told.append(at)
                    )
                ]

            collected = asyncio.ensure_future(collect())
            (asked,) = await leader.until(lambda: leader.of(SubmitRun))
            ids = list(ids_of(asked.job_ids))
            for job_id in reversed(ids):
                leader.links[0].send(done(job_id))
            assert await collected == ids
            assert told == [(1, 3), (2, 3), (3, 3)]
        await leader.stop()

    play(story())


def test_the_free_part_of_the_window_goes_out_as_one_message() -> None:
    async def story() -> None:
        leader = await FakeLeader(accept, runs=True).start()
        async with Client(leader.address) as client:
            mapped = asyncio.ensure_future(values(client, [b"%d" % n for n in range(12)], window=8))
            (first,) = await leader.until(lambda: leader.of(SubmitRun))
            for job in jobs_of(first)[:3]:
                leader.links[0].send(done(*job))
            _, second = await leader.until(
                lambda: leader.of(SubmitRun)[1:] and leader.of(SubmitRun)
            )
            assert second.bodies == (b"8", b"9", b"10")
            for job in jobs_of(first, second)[3:]:
                leader.links[0].send(done(*job))
            *_, last = await leader.until(lambda: leader.of(SubmitRun)[2:] and leader.of(SubmitRun))
            ((job_id, body),) = jobs_of(last)
            leader.links[0].send(done(job_id, body))
            assert sorted(await mapped) == sorted(b"%d" % n for n in range(12))
            confirmed = await leader.until(
                lambda: sum(len(one.job_ids) for one in leader.of(wire.Confirm)) == 12
            )
            assert confirmed
        await leader.stop()

    play(story())


def test_an_endless_map_does_not_run_out_of_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapping, "IDS_PER_PREFIX", 4)

    async def story() -> None:
        leader = await FakeLeader(runs=True).start()
        arguments = [b"%d" % number for number in range(20)]
        async with Client(leader.address) as client:
            assert await values(client, arguments, window=3, ordered=True) == arguments
        ids = [job_id for job_id, _ in jobs_of(*leader.of(SubmitRun))]
        assert len(set(ids)) == 20
        assert len({job_id[:12] for job_id in ids}) > 4
        await leader.stop()

    play(story())


def test_jobs_that_ask_for_something_else_go_apart() -> None:
    async def story() -> None:
        leader = await FakeLeader(runs=True).start()
        specs = [
            JobSpec("a", payload=b"1"),
            JobSpec("a", payload=b"2"),
            JobSpec("a", payload=b"3", job_id=ID),
            JobSpec("b", payload=b"4"),
            JobSpec("b", payload=b"5", options={"priority": 1}),
            JobSpec("b", payload=b"6", options={"priority": 1}),
        ]
        async with Client(leader.address) as client:
            got = [one.value async for one in client.map(specs)]
            assert sorted(got) == [b"%d" % n for n in range(1, 7)]
        runs = leader.of(SubmitRun)
        assert sorted(sorted(one.bodies) for one in runs) == [
            [b"1", b"2", b"3"],
            [b"4"],
            [b"5", b"6"],
        ]
        assert (ID, b"3") in jobs_of(*runs)
        await leader.stop()

    play(story())


def test_a_break_in_the_middle_of_a_run_is_not_noticed() -> None:
    async def story() -> None:
        def hang_up(leader: FakeLeader, link: Link, message: Message) -> None:
            if isinstance(message, SubmitRun):
                link.abort("gone")
                leader.reply = run

        leader = await FakeLeader(hang_up, runs=True).start()
        async with Client(leader.address) as client:
            assert await values(client, [b"a", b"b", b"c"], ordered=True) == [b"a", b"b", b"c"]
        first, second = leader.of(SubmitRun)
        assert jobs_of(first) == jobs_of(second)  # whoever has them knows them
        await leader.stop()

    play(story())


def test_another_leader_gets_the_same_jobs() -> None:
    async def story() -> None:
        second = await FakeLeader(runs=True).start()

        def redirect(leader: FakeLeader, link: Link, message: Message) -> None:
            link.send(wire.NotLeader(second.address, (leader.address, second.address)))

        first = await FakeLeader(redirect, runs=True).start()
        async with Client(first.address) as client:
            assert await values(client, [b"a", b"b"], ordered=True) == [b"a", b"b"]
        assert jobs_of(*first.of(SubmitRun)) == jobs_of(*second.of(SubmitRun))
        await first.stop()
        await second.stop()

    play(story())


def test_a_job_whose_result_came_is_not_sent_again() -> None:
    """Its answer was lost twice. It ended, was confirmed, and may be forgotten."""

    async def story() -> None:
        leader = await FakeLeader(lambda *_: None, runs=True).start()
        async with Client(leader.address) as client:
            mapped = asyncio.ensure_future(values(client, [b"a", b"b", b"c"]))
            (asked,) = await leader.until(lambda: leader.of(SubmitRun))
            leader.links[0].abort("gone")
            await leader.until(lambda: len(leader.of(SubmitRun)) == 2)
            jobs = jobs_of(asked)
            leader.links[1].send(done(*jobs[0]))
            await leader.until(lambda: leader.of(wire.Confirm))
            leader.links[1].abort("gone")
            await leader.until(lambda: len(leader.of(SubmitRun)) == 3)
            for job in jobs:
                leader.links[2].send(done(*job))
            assert sorted(await mapped) == [b"a", b"b", b"c"]
            sent = [jobs_of(one) for one in leader.of(SubmitRun)]
            assert sent == [jobs, jobs, jobs[1:]]
        await leader.stop()

    play(story())


def test_one_bad_job_is_named_and_ends_the_map() -> None:
    async def story() -> None:
        def judge(leader: FakeLeader, link: Link, message: Message) -> None:
            if isinstance(message, SubmitRun):
                refused = (RefusedJob(1, int(ErrorCode.BAD_OPTIONS), "b cannot be"),)
                link.send(RunAccepted(message.request_id, 2, refused=refused))
            else:
                accept(leader, link, message)

        leader = await FakeLeader(judge, runs=True).start()
        async with Client(leader.address) as client:
            with pytest.raises(LocalError, match="b cannot be"):
                await values(client, [b"a", b"b", b"c"])
            (cancel,) = await leader.until(lambda: leader.of(wire.Cancel))
            assert list(cancel.job_ids) == [one for one, _ in jobs_of(*leader.of(SubmitRun))]
        await leader.stop()

    play(story())


def test_a_run_that_is_refused_for_now_is_asked_again() -> None:
    async def story() -> None:
        def full(leader: FakeLeader, link: Link, message: Message) -> None:
            if isinstance(message, SubmitRun):
                code = int(ErrorCode.GRID_FULL)
                link.send(wire.Error(message.request_id, code, "full", retryable=True))
                leader.reply = run

        leader = await FakeLeader(full, runs=True).start()
        async with Client(leader.address) as client:
            assert await values(client, [b"a", b"b"], ordered=True) == [b"a", b"b"]
        first, second = leader.of(SubmitRun)
        assert jobs_of(first) == jobs_of(second)
        await leader.stop()

    play(story())


def test_leaving_before_a_run_is_accepted_takes_it_back() -> None:
    async def story() -> None:
        leader = await FakeLeader(lambda *_: None, runs=True).start()
        async with Client(leader.address) as client:
            results = client.map("calc", [b"a", b"b"])
            first = asyncio.ensure_future(anext(results))
            (asked,) = await leader.until(lambda: leader.of(SubmitRun))
            first.cancel()
            (cancel,) = await leader.until(lambda: leader.of(wire.Cancel))
            assert list(cancel.job_ids) == list(ids_of(asked.job_ids))
            leader.links[0].abort("gone")
            await leader.until(lambda: len(leader.of(wire.Cancel)) == 2)
            assert leader.of(SubmitRun) == [asked]
        await leader.stop()

    play(story())


def test_what_the_progress_or_the_arguments_raise_reaches_the_caller() -> None:
    async def story() -> None:
        leader = await FakeLeader(runs=True).start()

        def broken(ended: int, total: int | None) -> None:
            raise ZeroDivisionError

        def arguments() -> Iterator[bytes]:
            yield b"a"
            raise KeyError

        async with Client(leader.address) as client:
            with pytest.raises(ZeroDivisionError):
                await values(client, [b"a", b"b"], progress=broken)
            with pytest.raises(KeyError):
                async for _ in client.map("calc", arguments()):
                    pass
            with pytest.raises(LocalError, match="an argument is int"):
                async for _ in client.map("calc", ["a", 1]):
                    pass
            assert await values(client, [b"c"]) == [b"c"]
            assert len(leader.links) == 1
        await leader.stop()

    play(story())


def test_a_client_that_stops_ends_its_map() -> None:
    async def story() -> None:
        leader = await FakeLeader(lambda *_: None, runs=True).start()
        client = Client(leader.address)
        with pytest.raises(LocalError, match="not started"):
            await values(client, [b"a", b"b"])
        await client.start()
        mapped = asyncio.ensure_future(values(client, [b"a", b"b"]))
        await leader.until(lambda: leader.of(SubmitRun))
        await client.stop()
        with pytest.raises(RollqError) as caught:
            await mapped
        assert caught.value.code is ErrorCode.DISCONNECTED
        await leader.stop()

    play(story())

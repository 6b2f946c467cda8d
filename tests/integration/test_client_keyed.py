"""Jobs with ids of their own, some of which the grid had before."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest

from rollq import BlockingClient, Client, DeadlineError, DialError, ErrorCode, JobSpec, LocalError
from rollq.base.ids import JobId
from rollq.net.link import Link
from rollq.roles.client.many.keyed import Ended, OnMade
from rollq.wire import messages as wire
from rollq.wire.compact import Message
from tests.integration.fake_leader import FakeLeader, accept, done, play
from tests.integration.fake_leader import run as run_all
from tests.integration.small_grid import SmallGrid

APP = "tests.integration.sample_app"


def job(number: int) -> JobId:
    return number.to_bytes(16, "big")


def specs(*numbers: int) -> list[JobSpec]:
    return [JobSpec("add", (str(number), "1"), job_id=job(number)) for number in numbers]


def collect(
    client: BlockingClient, jobs: list[JobSpec], on_made: OnMade | None = None
) -> dict[JobId, Ended]:
    ended: list[Ended] = []
    with client.keyed_run(on_made=on_made) as run:
        run.put(jobs)
        while taken := run.take():
            ended += taken
    assert len(ended) == len({one.job_id for one in ended})
    return {one.job_id: one for one in ended}


def test_each_runs_once_whoever_puts_it_and_one_bad_job_stops_nobody(tmp_path: Path) -> None:
    with SmallGrid(tmp_path, APP) as grid:
        made: list[JobId] = []
        with BlockingClient(grid.address, client_id="work") as client:
            first = collect(client, specs(50, 51), made.extend)
            assert made == [job(50), job(51)]
            collect(client, specs(50, 51), made.extend)
            assert len(made) == 2
        with BlockingClient(grid.address, client_id="work") as client:
            other = JobSpec("add", ("0", "0"), job_id=job(50))  # not what it was
            long = JobSpec("add", ("x" * 5_000_000,), job_id=job(60))
            missing = JobSpec("add", files={"a": tmp_path / "none"}, job_id=job(61))
            jobs = [other, *specs(51, 52), long, missing]
            second = collect(client, jobs)
        assert sorted(one.result.json() for one in first.values() if one.result) == [51, 52]
        assert not any(one.is_known for one in first.values())
        kept, new = second[job(51)], second[job(52)]
        assert kept.result is not None
        assert new.result is not None
        assert (kept.result.json(), kept.is_known) == (52, True)
        assert (new.result.json(), new.is_known) == (53, False)
        refused = {n: second[job(n)].refusal for n in (50, 60, 61)}
        codes = {n: error.code for n, error in refused.items() if error is not None}
        assert codes == {
            50: ErrorCode.JOB_CONFLICT,
            60: ErrorCode.BAD_OPTIONS,
            61: ErrorCode.BAD_OPTIONS,
        }


def test_what_was_owed_from_before_comes_to_whoever_puts_it_again(tmp_path: Path) -> None:
    with SmallGrid(tmp_path, APP) as grid:
        numbers = range(1, 400)
        with BlockingClient(grid.address, client_id="work") as client:
            client._inner._engine.session._flush_confirms = lambda: None  # type: ignore[attr-defined]
            collect(client, specs(*numbers))
        with BlockingClient(grid.address, client_id="work") as client:
            assert client.client("work").owed == len(numbers)  # type: ignore[union-attr]
            ended = collect(client, specs(*numbers))
            assert all(one.is_known for one in ended.values())
            assert client.unclaimed() == []


def test_closing_ends_what_was_made_here_and_lets_the_rest_go_on() -> None:
    def known(leader: FakeLeader, link: Link, message: Message) -> None:
        if isinstance(message, wire.SubmitJob) and message.job_id == job(2):
            link.send(wire.Accepted(message.job_id, known=True))
        else:
            accept(leader, link, message)

    async def story() -> None:
        leader = await FakeLeader(known).start()
        async with Client(leader.address) as client:
            run = client.keyed_run()
            await run.put(specs(1, 2, 3, 4))
            await leader.until(lambda: len(leader.of(wire.SubmitJob)) == 4)
            leader.links[0].send(done(job(4)))
            assert [one.job_id for one in await run.take()] == [job(4)]
            run.close()
            (cancel,) = await leader.until(lambda: leader.of(wire.Cancel))
            assert sorted(cancel.job_ids) == [job(1), job(3)]
            assert await run.take() == []
        await leader.stop()

    play(story())


def test_after_a_break_what_is_open_is_asked_for_once_more() -> None:
    async def story() -> None:
        leader = await FakeLeader(accept).start()
        made: list[JobId] = []
        async with Client(leader.address) as client:
            run = client.keyed_run(on_made=made.extend)
            await run.put(specs(1, 2))
            await leader.until(lambda: len(leader.of(wire.SubmitJob)) == 2)
            leader.links[0].send(done(job(1)))
            assert [one.job_id for one in await run.take()] == [job(1)]

            def has_ended(leader: FakeLeader, link: Link, message: Message) -> None:
                if isinstance(message, wire.SubmitJob):
                    link.send(wire.Accepted(message.job_id, known=True, ended=True))
                    link.send(done(message.job_id))

            leader.reply = has_ended
            leader.links[0].close("over")
            (ended,) = await run.take()
            assert (ended.job_id, ended.is_known) == (job(2), False)
            assert made == [job(1), job(2)]
        assert [one.job_id for one in leader.of(wire.SubmitJob)] == [job(1), job(2), job(2)]
        await leader.stop()

    play(story())


def is_asked(leader: FakeLeader, count: int) -> bool:
    return len(leader.of(wire.SubmitJob)) >= count


def test_a_break_while_what_is_open_is_asked_for_again_loses_nothing() -> None:
    async def story() -> None:
        leader = await FakeLeader(accept).start()
        made = asyncio.Event()
        async with Client(leader.address) as client:
            run = client.keyed_run(on_made=lambda _: made.set())
            await run.put(specs(1))
            await made.wait()
            leader.reply = lambda *_: None
            for count in (2, 3):
                leader.links[-1].close("over")
                await leader.until(partial(is_asked, leader, count))
            leader.reply = run_all
            leader.links[-1].close("over")
            (ended,) = await run.take()
            assert (ended.job_id, ended.is_known) == (job(1), False)
        await leader.stop()

    play(story())


def test_silence_while_nobody_waits_is_no_error() -> None:
    async def story() -> None:
        leader = await FakeLeader(lambda *_: None).start()
        async with Client(leader.address) as client:
            run = client.keyed_run()
            await run.put(specs(1))
            await leader.until(lambda: leader.of(wire.SubmitJob))
            run._pump._look()  # as the timer does that an earlier wait has left behind
            leader.reply = run_all
            leader.links[-1].close("over")
            (ended,) = await run.take()
            assert ended.job_id == job(1)
        await leader.stop()

    play(story())


def test_silence_and_a_client_that_stops_are_errors() -> None:
    async def story() -> None:
        leader = await FakeLeader(lambda *_: None).start()
        async with Client(leader.address, timeout=0.05) as client:
            run = client.keyed_run()
            await run.put(specs(1, 2))
            with pytest.raises(DeadlineError, match=r"no answer within 0\.05 s: 2 jobs"):
                await run.take()
            waiting = client.keyed_run()
            await waiting.put(specs(3))
            taking = asyncio.ensure_future(waiting.take())
            await asyncio.sleep(0)
        with pytest.raises((DialError, DeadlineError)):
            await taking
        with pytest.raises(LocalError, match="not started"):
            await run.put(specs(4))
        await leader.stop()

    play(story())

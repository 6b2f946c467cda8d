"""The client against a scripted member: reconnects, redirects, deadlines, confirms."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

import pytest

from rollq import (
    Client,
    DeadlineError,
    ErrorCode,
    JobSpec,
    LocalError,
    RollqError,
)
from rollq.base.limits import PING_MS
from rollq.base.staged import ids_of
from rollq.net.link import Link
from rollq.net.ports import free_ports
from rollq.roles.client.session import group_session as session
from rollq.wire import messages as wire
from rollq.wire.compact import Message
from rollq.wire.run_messages import SubmitRun
from tests.integration.fake_leader import FakeLeader, accept, done, play, run
from tests.integration.patience import DEADLINE_S

ID = bytes(range(1, 17))


def submits(leader: FakeLeader, count: int) -> list[wire.SubmitJob]:
    sent = leader.of(wire.SubmitJob)
    return sent if len(sent) >= count else []


def test_requests_over_the_window_wait_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "CLIENT_PENDING_MAX", 4)

    async def story() -> None:
        leader = await FakeLeader(lambda *_: None).start()
        async with Client(leader.address) as client:
            bodies = [str(number).encode() for number in range(10)]
            waits = [asyncio.ensure_future(client.submit("calc", payload=one)) for one in bodies]
            await leader.until(lambda: len(leader.of(wire.SubmitJob)) == 4)
            waits[9].cancel()  # it never leaves
            for count in range(1, 10):
                sent = await leader.until(partial(submits, leader, count))
                leader.links[0].send(wire.Accepted(sent[count - 1].job_id))
            await asyncio.gather(*waits[:9])
            assert [one.body for one in leader.of(wire.SubmitJob)] == bodies[:9]
        await leader.stop()

    play(story())


def test_a_job_is_accepted_ends_and_is_confirmed() -> None:
    async def story() -> None:
        leader = await FakeLeader().start()
        async with Client(leader.address, client_id="me", desired_parallelism=7) as client:
            job = await client.submit("calc", payload=b"x", queue="q", priority=3)
            assert (await job.result()).value == b"x"
            assert job.is_done
            await leader.until(lambda: leader.of(wire.Confirm))
        (hello,) = leader.of(wire.HelloClient)
        assert (hello.client_id, hello.desired_parallelism) == ("me", 7)
        (submit,) = leader.of(wire.SubmitJob)
        assert submit.subject == "job.submit.q"
        assert submit.options is not None
        assert submit.options.priority == 3
        assert leader.of(wire.Confirm) == [wire.Confirm((job.job_id,))]
        await leader.stop()

    play(story())


def test_results_are_confirmed_in_batches() -> None:
    async def story() -> None:
        leader = await FakeLeader(accept).start()
        async with Client(leader.address) as client:
            jobs = [await client.submit("calc") for _ in range(50)]
            for job in jobs:
                leader.links[0].send(done(job.job_id))
            for job in jobs:
                await job.result()
            await leader.until(
                lambda: sum(len(one.job_ids) for one in leader.of(wire.Confirm)) == 50
            )
            assert len(leader.of(wire.Confirm)) < 10
        await leader.stop()

    play(story())


def test_a_redirect_is_followed_and_the_submit_goes_with_it() -> None:
    async def story() -> None:
        second = await FakeLeader().start()

        def redirect(leader: FakeLeader, link: Link, message: Message) -> None:
            link.send(wire.NotLeader(second.address, (leader.address, second.address)))

        first = await FakeLeader(redirect).start()
        async with Client(first.address) as client:
            job = await client.submit("calc", payload=b"x", job_id=ID)
            assert (await job.result()).value == b"x"
        assert [one.job_id for one in second.of(wire.SubmitJob)] == [ID]
        await first.stop()
        await second.stop()

    play(story())


def test_a_broken_connection_is_not_noticed_by_the_caller() -> None:
    async def story() -> None:
        def hang_up(leader: FakeLeader, link: Link, message: Message) -> None:
            if isinstance(message, wire.SubmitJob):
                link.abort("gone")
                leader.reply = run

        leader = await FakeLeader(hang_up).start()
        async with Client(leader.address) as client:
            job = await client.submit("calc", payload=b"x", job_id=ID)
            assert (await job.result()).ok
        assert [one.job_id for one in leader.of(wire.SubmitJob)] == [ID, ID]
        await leader.stop()

    play(story())


def test_a_result_that_was_owed_comes_after_the_reconnect_and_once() -> None:
    async def story() -> None:
        leader = await FakeLeader(accept).start()
        async with Client(leader.address) as client:
            job = await client.submit("calc")
            leader.links[0].abort("gone")
            await leader.until(lambda: len(leader.links) == 2)
            leader.links[1].send(done(job.job_id, b"late"))
            leader.links[1].send(done(job.job_id, b"late"))
            assert (await job.result()).value == b"late"
            confirm, *_ = await leader.until(lambda: leader.of(wire.Confirm))
            assert set(confirm.job_ids) == {job.job_id}
        await leader.stop()

    play(story())


def test_a_silent_leader_is_left() -> None:
    async def story() -> None:
        def be_silent(leader: FakeLeader, link: Link, message: Message) -> None:
            if len(leader.links) > 1:
                run(leader, link, message)

        leader = await FakeLeader(be_silent).start()
        async with Client(leader.address) as client:
            job = await client.submit("calc", payload=b"x")
            assert (await job.result()).ok
        assert len(leader.of(wire.SubmitJob)) == 2
        await leader.stop()

    play(story())


def test_a_leader_that_dies_quietly_while_results_are_awaited_is_left() -> None:
    async def story() -> None:
        leader = await FakeLeader(accept).start()
        leader.ping_ms = PING_MS
        async with Client(leader.address) as client:
            job = await client.submit("calc")
            # No word any more on the first link, not even to the ping.
            await leader.until(lambda: leader.of(wire.Ping))
            await leader.until(lambda: len(leader.links) == 2)
            leader.links[1].send(done(job.job_id))
            assert (await job.result()).ok
        await leader.stop()

    play(story())


def test_nobody_there_is_an_error_with_code_reason_and_hint() -> None:
    async def story() -> None:
        leader = await FakeLeader().start()
        address = leader.address
        await leader.stop()
        async with Client(address, timeout=0.3) as client:
            with pytest.raises(DeadlineError) as caught:
                await client.submit("calc")
            assert caught.value.code is ErrorCode.TIMED_OUT
            assert address in caught.value.message
            assert "majority" in caught.value.hint
            assert "accepted" not in caught.value.hint  # nothing was ever sent
            with pytest.raises(TimeoutError):
                await client.submit_many("calc", ["a"])
            with pytest.raises(TimeoutError):
                async for _ in client.map("calc", ["a"]):
                    pass

    play(story())


def test_only_a_submit_that_was_sent_may_have_been_accepted() -> None:
    async def story() -> None:
        leader = await FakeLeader(lambda leader, link, message: None).start()
        async with Client(leader.address, timeout=1) as client:
            sent = asyncio.ensure_future(client.submit("calc"))
            await leader.until(lambda: leader.of(wire.SubmitJob))
            with pytest.raises(DeadlineError) as submitted:
                await sent
            with pytest.raises(DeadlineError) as cancelled:
                await client.cancel("00000000-0000-0000-0000-000000000001")
        assert "accepted" in submitted.value.hint
        assert "a cancellation" in cancelled.value.message
        assert "accepted" not in cancelled.value.hint
        await leader.stop()

    play(story())


def test_what_was_given_up_is_not_sent_later() -> None:
    async def story() -> None:
        leader = FakeLeader()
        await leader.start()
        await leader.stop()
        async with Client(leader.address, timeout=0.2) as client:
            with pytest.raises(DeadlineError):
                await client.submit("calc", payload=b"old")
            await leader.start()
            await client.submit("calc", payload=b"new", timeout=DEADLINE_S)
        assert [one.body for one in leader.of(wire.SubmitJob)] == [b"new"]
        await leader.stop()

    play(story())


def test_a_refusal_is_raised_and_a_passing_one_is_tried_again() -> None:
    async def story() -> None:
        def refuse(leader: FakeLeader, link: Link, message: Message) -> None:
            if isinstance(message, wire.SubmitJob):
                is_first = len(leader.of(wire.SubmitJob)) == 1
                code = ErrorCode.GRID_FULL if is_first else ErrorCode.JOB_CONFLICT
                link.send(wire.Error(message.job_id, int(code), "no", "hint", is_first))

        leader = await FakeLeader(refuse).start()
        async with Client(leader.address) as client:
            with pytest.raises(RollqError) as caught:
                await client.submit("calc")
            assert caught.value.code is ErrorCode.JOB_CONFLICT
            assert len(leader.of(wire.SubmitJob)) == 2
        await leader.stop()

    play(story())


def test_bulk_is_cut_by_what_is_asked_for_and_ids_are_new() -> None:
    async def story() -> None:
        leader = await FakeLeader(accept, runs=True).start()
        told: list[int] = []
        async with Client(leader.address) as client:
            batch = await client.submit_many(
                [JobSpec("a"), JobSpec("a"), JobSpec("b"), JobSpec("b", options={"priority": 1})],
                progress=lambda count, total: told.append(count),
            )
            assert len(batch) == 4
            runs = leader.of(SubmitRun)
            asked = sorted((one.exec_name, len(one.bodies)) for one in runs)
            assert asked == [("a", 2), ("b", 1), ("b", 1)]
            assert told[-1] == 4
            ids = list(batch.job_ids())
            assert sorted(ids_of(b"".join(one.job_ids for one in runs))) == ids
            for job_id in ids[:3]:
                leader.links[0].send(done(job_id))
            leader.links[0].send(wire.Result(ids[3], "dead"))
            counts = await batch.wait()
            assert (counts.total, counts.ok, counts.dead) == (4, 3, 1)
            assert [one.job_id async for one in batch.results()] == ids
            with pytest.raises(LocalError):
                await client.submit_many([JobSpec("a", job_id=ID)])
        await leader.stop()

    play(story())


def test_it_says_at_once_that_nothing_listens_and_goes_on_trying() -> None:
    places = [f"127.0.0.1:{port}" for port in free_ports(2)]
    told: list[str] = []

    async def story() -> None:
        warned = asyncio.Event()

        class Handler(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                told.append(record.getMessage())
                warned.set()

        handler = Handler(logging.WARNING)
        session.log.addHandler(handler)
        try:
            async with Client(",".join(places), timeout=DEADLINE_S) as client:
                waiting = asyncio.ensure_future(client.submit("calc"))
                await warned.wait()
                assert not waiting.done()
                waiting.cancel()
        finally:
            session.log.removeHandler(handler)

    play(story())
    (text,) = told
    assert all(f"nothing listens at {place}" in text for place in places)
    assert "check the address" in text

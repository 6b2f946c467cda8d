"""How a client ends: stops, refusals, complaints, and what is left for the next process."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from rollq import (
    BlockingClient,
    Client,
    DeadlineError,
    ErrorCode,
    Executor,
    JobSpec,
    LocalError,
    MultiClient,
    RollqError,
)
from rollq.base.job_events import JobEvent, JobProgress, encode_event
from rollq.base.jobs import JobOptions
from rollq.base.staged import ids_of
from rollq.grid.views import RawJobView
from rollq.net.link import Link
from rollq.subjects.reserved import job_event_subject
from rollq.wire import messages as wire
from rollq.wire.compact import Message
from rollq.wire.run_messages import SubmitRun
from rollq.wire.subject_messages import Deliver, Subscribe
from tests.integration.fake_leader import FakeLeader, accept, done, play
from tests.integration.patience import DEADLINE_S

ID = bytes(range(1, 17))


def test_a_refused_future_has_its_error() -> None:
    async def story() -> None:
        def refuse(leader: FakeLeader, link: Link, message: Message) -> None:
            if isinstance(message, wire.SubmitJob):
                link.send(wire.Error(message.job_id, int(ErrorCode.JOB_CONFLICT), "no"))

        leader = await FakeLeader(refuse).start()
        pool = await asyncio.to_thread(Executor, leader.address)
        refused, unsendable = pool.submit("calc", "a"), pool.submit("calc", "x" * 100_000)
        for future in (refused, unsendable):
            error = await asyncio.to_thread(future.exception, DEADLINE_S)
            assert isinstance(error, RollqError)
        await asyncio.to_thread(pool.shutdown)
        await leader.stop()

    play(story())


def test_a_request_that_cannot_be_encoded_fails_alone() -> None:
    """The link is not closed, where the same request would close the next one again."""

    async def story() -> None:
        leader = await FakeLeader(accept).start()
        async with Client(leader.address) as client:
            session = client._engine.session
            refused: asyncio.Future[object] = asyncio.get_running_loop().create_future()
            with pytest.raises(LocalError, match=r"Query: '\\udcff' is not UTF-8"):
                session.ask(wire.Query(ID, "\udcff"), refused.set_result)
            session.ask_all((wire.Query(ID, "\udcff"),), refused.set_result)
            await client.submit("calc")
            error = await refused
            assert isinstance(error, wire.Error)
            assert error.code == ErrorCode.BAD_OPTIONS
            assert "surrogates not allowed" in error.message
            await client.submit("calc")
            assert len(leader.links) == 1
        await leader.stop()

    play(story())


def test_a_job_that_ends_while_it_is_attached_to_has_its_result() -> None:
    async def story() -> None:
        view = RawJobView(ID, "nightly", "calc", "calc", "assigned", 1, JobOptions(), 0, 0)

        def end_after_the_view(leader: FakeLeader, link: Link, message: Message) -> None:
            if isinstance(message, wire.Query):
                answer = wire.Answer(message.request_id, 1, msgspec.msgpack.encode(view))
                link.send_all([answer, done(ID)])

        leader = await FakeLeader(end_after_the_view).start()
        async with Client(leader.address, client_id="nightly") as client:
            job = await client.attach(ID)
            assert (await job.result(DEADLINE_S)).ok
            assert not client.unclaimed()
            await leader.until(lambda: leader.of(wire.Confirm))
        await leader.stop()

    play(story())


def test_a_job_that_is_attached_to_twice_at_once_has_one_handle() -> None:
    async def story() -> None:
        view = RawJobView(ID, "nightly", "calc", "calc", "assigned", 1, JobOptions(), 0, 0)

        def end_after_both(leader: FakeLeader, link: Link, message: Message) -> None:
            asked = leader.of(wire.Query)
            if isinstance(message, wire.Query) and len(asked) == 2:
                data = msgspec.msgpack.encode(view)
                link.send_all(wire.Answer(one.request_id, 1, data) for one in asked)

        leader = await FakeLeader(end_after_both).start()
        async with Client(leader.address, client_id="nightly") as client:
            one, other = await asyncio.gather(client.attach(ID), client.attach(ID))
            leader.links[0].send(done(ID))
            assert (await one.result(DEADLINE_S)).ok
            assert (await other.result(DEADLINE_S)).ok
        await leader.stop()

    play(story())


def test_the_events_of_a_job_go_on_behind_its_last_progress() -> None:
    """What was published before the last progress was asked for comes after the answer."""

    def half(note: str) -> JobEvent:
        return JobEvent("progress", 1, progress=JobProgress(1, 2, note))

    async def story() -> None:
        view = RawJobView(ID, "nightly", "calc", "calc", "assigned", 1, JobOptions(), 0, 0)
        told = [half("older"), half("newest"), half("newest"), JobEvent("ack", 1, status="ok")]

        def tell(leader: FakeLeader, link: Link, message: Message) -> None:
            if isinstance(message, Subscribe):
                link.send(wire.Accepted(message.request_id))
            elif isinstance(message, wire.Query) and message.what == "job":
                link.send(wire.Answer(message.request_id, 1, msgspec.msgpack.encode(view)))
            elif isinstance(message, wire.Query):
                data = msgspec.msgpack.encode(half("newest"))
                link.send(wire.Answer(message.request_id, 1, data))
                subject = job_event_subject(ID)
                link.send_all(Deliver(subject, encode_event(one)) for one in told)

        leader = await FakeLeader(tell).start()
        async with Client(leader.address, client_id="nightly") as client:
            seen = [event async for event in client.events(ID)]
        await leader.stop()
        assert seen == [half("newest"), *told[:2], told[3]]

    play(story())


def test_stopping_tells_whoever_waits_and_twice_is_once() -> None:
    async def story() -> None:
        leader = await FakeLeader(lambda *_: None).start()
        client = Client(leader.address)
        with pytest.raises(LocalError):
            await client.submit("calc")
        await client.start()
        await client.start()
        waiting = asyncio.ensure_future(client.submit("calc"))
        await leader.until(lambda: leader.of(wire.SubmitJob))
        await client.stop()
        await client.stop()
        with pytest.raises(RollqError) as caught:
            await waiting
        assert caught.value.code is ErrorCode.DISCONNECTED
        await leader.stop()

    play(story())


def test_bad_setups_are_refused() -> None:
    for make in (
        lambda: Client("nowhere"),
        lambda: MultiClient([]),
        lambda: MultiClient("a:1"),
        lambda: MultiClient(["a:1"], policy="best"),
    ):
        with pytest.raises(LocalError):
            make()


def test_stopping_ends_every_wait_for_a_result() -> None:
    async def story() -> None:
        leader = await FakeLeader(accept).start()
        client = Client(leader.address)
        await client.start()
        job = await client.submit("calc")
        batch = await client.submit_many("calc", ["a"])
        results = client.map("calc", ["b"])
        waits = [
            asyncio.ensure_future(job.result()),
            asyncio.ensure_future(batch.wait()),
            asyncio.ensure_future(anext(results)),
        ]
        await leader.until(lambda: len(leader.of(wire.SubmitJob)) == 3)
        await client.stop()
        for wait in waits:
            with pytest.raises(RollqError) as caught:
                await wait
            assert caught.value.code is ErrorCode.DISCONNECTED
        await leader.stop()

    play(story())


def test_stopping_wakes_threads_that_wait() -> None:
    async def serve() -> None:
        leader = await FakeLeader(accept).start()
        client = BlockingClient(leader.address)
        await asyncio.to_thread(client.start)
        job = await asyncio.to_thread(client.submit, "calc")
        waiting = asyncio.ensure_future(asyncio.to_thread(job.result))
        await asyncio.to_thread(client.stop)
        with pytest.raises(RollqError) as caught:
            await waiting
        assert caught.value.code in (ErrorCode.DISCONNECTED, ErrorCode.BAD_SETUP)
        client.stop()
        with pytest.raises(LocalError):
            client.submit("calc")
        await leader.stop()

    play(serve())


def test_a_bulk_that_is_refused_half_way_says_how_many_were_accepted() -> None:
    async def story() -> None:
        def refuse_b(leader: FakeLeader, link: Link, message: Message) -> None:
            if isinstance(message, SubmitRun) and message.exec_name == "b":
                link.send(wire.Error(message.request_id, int(ErrorCode.BAD_PAYLOAD), "no b"))
            else:
                accept(leader, link, message)

        leader = await FakeLeader(refuse_b, runs=True).start()
        async with Client(leader.address) as client:
            with pytest.raises(LocalError, match="no b") as caught:
                await client.submit_many([JobSpec("a"), JobSpec("a"), JobSpec("b")])
            assert caught.value.__notes__ == ["2 jobs had been accepted before"]
            # Results of those before it are taken all the same.
            for job_id in ids_of(leader.of(SubmitRun)[0].job_ids):
                leader.links[0].send(done(job_id))
            await leader.until(
                lambda: sum(len(one.job_ids) for one in leader.of(wire.Confirm)) == 2
            )
        await leader.stop()

    play(story())


def test_results_of_an_earlier_process_can_be_claimed() -> None:
    async def story() -> None:
        leader = await FakeLeader().start()
        async with Client(leader.address) as client:
            await client.submit("calc")
            leader.links[0].send(done(ID, b"old"))
            job = await client.submit("calc")  # answered after what came before it
            await job.result()
            assert [one.value for one in client.unclaimed()] == [b"old"]
            assert client.unclaimed() == []
            await leader.until(lambda: any(ID in one.job_ids for one in leader.of(wire.Confirm)))
        await leader.stop()

    play(story())


def test_what_a_member_finds_wrong_is_in_the_error() -> None:
    async def story() -> None:
        leader = FakeLeader()
        leader.greets = False

        def complain(link: Link) -> None:
            link.send(wire.Error(bytes(16), int(ErrorCode.BAD_PAYLOAD), "a strange client id"))
            link.close("no")

        await leader.start()
        async with Client(leader.address, timeout=0.5) as client:
            await leader.until(lambda: leader.links)
            complain(leader.links[0])
            with pytest.raises(DeadlineError, match="a strange client id"):
                await client.submit("calc")
        await leader.stop()

    play(story())

"""Clients that are stopped, and started again: nothing of the first life is left."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rollq import BlockingClient, BlockingMultiClient, Client, ErrorCode, JobSpec, RollqError
from rollq.base.ids import JobId
from rollq.base.limits import INLINE_BYTES_MAX
from rollq.net.link import Link
from rollq.roles.client.session.group_session import OnAnswer
from rollq.roles.client.session.signals import Request, id_of
from rollq.wire import messages as wire
from rollq.wire.blob_messages import HelloBlobs
from rollq.wire.compact import Message
from rollq.wire.staging_messages import CommitBatch, StageJobs
from tests.integration.fake_leader import FakeLeader, accept, done, play

NOWHERE = "127.0.0.1:1"
LARGE = bytes(INLINE_BYTES_MAX + 1)


def test_a_client_that_was_stopped_is_not_connected_and_sends_nothing_again() -> None:
    async def story() -> None:
        leader = await FakeLeader(lambda *_: None).start()
        client = Client(leader.address)
        await client.start()
        waiting = [
            asyncio.ensure_future(client.submit("calc")),
            asyncio.ensure_future(client.pause("calc")),
        ]
        await leader.until(lambda: leader.of(wire.SubmitJob) and leader.of(wire.Admin))
        before = client.is_connected
        await client.stop()
        assert (before, client.is_connected) == (True, False)
        assert client.leader == ""
        for one in waiting:
            with pytest.raises(RollqError) as caught:
                await one
            assert caught.value.code is ErrorCode.DISCONNECTED
        leader.reply = accept
        await client.start()
        await client.cancel(bytes(range(1, 17)))
        assert len(leader.of(wire.SubmitJob)) == len(leader.of(wire.Admin)) == 1
        assert client._engine.session._sent_bytes == 0
        await client.stop()
        await leader.stop()

    play(story())


@pytest.mark.parametrize(
    ("ask", "seen", "submits"),
    [
        (lambda client: client.submit("calc"), wire.SubmitJob, True),
        (lambda client: client.submit_array("calc", 3), wire.SubmitArray, True),
        (lambda client: client.commit("b", ()), CommitBatch, True),
        (lambda client: client.submit("calc", files={"f": LARGE}), HelloBlobs, False),
        (lambda client: client.stage("b", "p", [JobSpec("calc")]), StageJobs, False),
        (lambda client: client.counts(), wire.Query, False),
    ],
    ids=["job", "array", "commit", "upload", "stage", "query"],
)
def test_jobs_may_be_accepted_once_they_are_sent(
    ask: Callable[[Client], Coroutine[Any, Any, object]], seen: type[Message], *, submits: bool
) -> None:
    """Files are on their way before that."""

    async def story() -> None:
        leader = await FakeLeader(lambda *_: None).start()
        async with Client(leader.address) as client:
            waiting = asyncio.ensure_future(ask(client))
            assert not client.has_submitted
            await leader.until(lambda: leader.of(seen))
            waiting.cancel()
            await asyncio.wait((waiting,))
            assert client.has_submitted is submits
        await leader.stop()

    play(story())


def test_jobs_that_are_not_staged_in_time_are_not_accepted() -> None:
    """Whatever the client submitted before. Users know of jobs and batches, not of messages."""

    async def story() -> None:
        leader = await FakeLeader(lambda *_: None).start()
        async with Client(leader.address) as client:
            waiting = asyncio.ensure_future(client.submit("calc"))
            await leader.until(lambda: leader.of(wire.SubmitJob))
            with pytest.raises(RollqError) as staged:
                await client.stage("b", "p", [JobSpec("calc")], timeout=0.01)
            assert staged.value.message == "no answer within 0.01 s: jobs of a batch"
            assert "accepted" not in staged.value.hint
            with pytest.raises(RollqError) as committed:
                await client.commit("b", (), timeout=0.01)
            assert committed.value.message.endswith(": the commit of a batch")
            assert "may have been accepted" in committed.value.hint
            waiting.cancel()
        await leader.stop()

    play(story())


def test_a_request_that_nobody_waits_for_is_not_sent_again() -> None:
    async def story() -> None:
        async with Client(NOWHERE) as client:
            session = client._engine.session
            waiting = asyncio.ensure_future(session.call(wire.Query(bytes(range(16)), "counts")))
            await asyncio.sleep(0)
            assert session._machine.pending_count == 1
            waiting.cancel()
            await asyncio.wait((waiting,))
            assert session._machine.pending_count == 0

    play(story())


def test_a_thread_that_maps_is_told_that_the_client_was_stopped() -> None:
    client = BlockingClient(NOWHERE)
    client.start()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(next, client.map("calc", ["1"]))
        while not client._thread.call(lambda: client._inner._engine.targets):  # type: ignore[attr-defined]
            pass
        client.stop()
        with pytest.raises(RollqError) as caught:
            waiting.result()
    assert caught.value.code is ErrorCode.DISCONNECTED


def test_a_blocking_client_that_cannot_start_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    client = BlockingMultiClient.discover(NOWHERE, timeout=0.1)
    with pytest.raises(RollqError):
        client.start()
    # Those of other tests may end meanwhile.
    assert set(threading.enumerate()) <= before


def test_a_job_that_is_refused_at_once_is_not_waited_for() -> None:
    def refuse(request: Request, on_answer: OnAnswer) -> None:
        on_answer(wire.Error(id_of(request), int(ErrorCode.LOGIN_FAILED), "no such account"))

    async def story() -> None:
        async with Client(NOWHERE) as client:
            client._engine.session.ask = refuse  # type: ignore[method-assign]
            run = client.keyed_run()
            await run.put([JobSpec("calc", job_id=bytes(range(1, 17)))])
            (ended,) = await run.take(1.0)
            assert ended.refusal is not None
            assert ended.refusal.code is ErrorCode.LOGIN_FAILED

    play(story())


def test_a_map_that_names_a_job_twice_says_so() -> None:
    """The second time while the first has not ended: its result would stand for both."""

    async def story() -> None:
        other: list[JobId] = []

        def take(leader: FakeLeader, link: Link, message: Message) -> None:
            accept(leader, link, message)
            if isinstance(message, wire.SubmitJob) and message.job_key == "b":
                other.append(message.job_id)

        leader = await FakeLeader(take).start()
        async with Client(leader.address) as client:
            specs = [JobSpec("calc", key=key) for key in ("a", "b", "a")]
            results = client.map(specs, window=2)
            first = asyncio.ensure_future(anext(results))
            await leader.until(lambda: other)
            leader.links[0].send(done(other[0]))
            assert (await first).job_id == other[0]
            with pytest.raises(RollqError) as caught:
                await anext(results)
            assert caught.value.code is ErrorCode.ID_CONFLICT
        await leader.stop()

    play(story())

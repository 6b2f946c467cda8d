"""Files on their way to a group, before the job that needs them."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rollq.base.errors import DeadlineError, DiskError, ErrorCode
from rollq.base.jobs import BlobRef
from rollq.base.limits import CLIENT_UPLOAD_TRIES
from rollq.roles.blobs.carrier import as_rollq_error
from rollq.roles.client.client import Client
from rollq.roles.client.engine import supplier as supplier_module
from rollq.roles.client.engine.one_group import GroupEngine
from rollq.roles.client.jobs.inputs import Inputs
from rollq.roles.client.jobs.specs import JobSpec
from rollq.roles.client.jobs.supply import Supply, supply_of
from rollq.roles.client.session.group_session import Answer
from rollq.wire import messages as wire
from tests.unit.roles.client_files import JOB, LARGE, World, digest_of, run


async def _submit(client: Client) -> object:
    return await client.submit("calc", files={"f": LARGE})


async def _put_cache(client: Client) -> object:
    return await client.cache_put("c", {"f": LARGE})


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supplier_module, "CLIENT_AGAIN_MS", 0)


def test_files_are_there_before_the_job_and_progress_counts_all(tmp_path: Path) -> None:
    async def story() -> None:
        world = World()
        path = tmp_path / "large"
        path.write_bytes(LARGE)
        told: list[tuple[int, int]] = []
        world.blobs.before_put = lambda: _none(world.session.requests)
        other = LARGE[::-1]
        files = {"a": path, "b": other}
        answer = await world.submit(files, lambda done, total: told.append((done, total)))
        assert type(answer) is wire.Accepted
        assert world.blobs.kept == {digest_of(LARGE): LARGE, digest_of(other): other}
        assert told[0] == (0, 2 * len(LARGE))
        assert told[-1] == (2 * len(LARGE), 2 * len(LARGE))
        assert told == sorted(told)
        # What it has is not sent again.
        await world.submit(files)
        assert len(world.blobs.puts) == 2
        await world.supplier.stop()
        assert world.blobs.is_stopped

    run(story())


def test_a_file_that_many_jobs_share_is_sent_once() -> None:
    async def story() -> None:
        world = World()
        await asyncio.gather(*(world.submit({"a": LARGE}) for _ in range(9)))
        assert (len(world.blobs.puts), len(world.session.requests)) == (1, 9)
        await world.supplier.stop()

    run(story())


def test_if_the_first_of_them_cannot_send_it_the_next_one_tries() -> None:
    async def story() -> None:
        world = World()
        tries: list[int] = []

        def fail_once() -> None:
            tries.append(1)
            world.blobs.error = DiskError(ErrorCode.DISK_FULL, "") if len(tries) == 1 else None

        world.blobs.before_put = fail_once
        answers = await asyncio.gather(*(_ask_as(world, number) for number in range(1, 4)))
        assert [type(one) for one in answers].count(wire.Error) == 1
        assert len(world.blobs.puts) == 1
        await world.supplier.stop()

    run(story())


async def _ask_as(world: World, number: int) -> Answer:
    settled = await Inputs().settle(JobSpec("calc", files={"a": LARGE}))
    request = wire.SubmitJob(
        bytes([number]) * 16, "c", "", "calc", b"", None, getattr(settled, "blobs", ())
    )
    return await world.ask(request, supply_of(settled))


def _none(requests: list[Any]) -> None:
    assert not requests


def test_a_progress_that_raises_ends_no_upload() -> None:
    async def story() -> None:
        world = World()
        told: list[int] = []

        def tell(done: int, total: int) -> None:
            told.append(done)
            raise ValueError(total)

        assert type(await world.submit({"a": LARGE}, tell)) is wire.Accepted
        assert told == [0]

    run(story())


def test_a_call_has_its_time_from_when_no_files_are_on_their_way() -> None:
    class Clock:
        """Goes on only while somebody waits: each look at the files is after a wait."""

        now_s = 100.0

        def time(self) -> float:
            return self.now_s

    async def story() -> None:
        clock = Clock()
        client = GroupEngine("127.0.0.1:1", "")
        client._loop = clock  # type: ignore[assignment]
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[Answer | None] = loop.create_future()
        looks = 0

        def uploaded_at(lag_s: float) -> float:
            nonlocal looks
            looks += 1
            clock.now_s += 0.001
            if looks == 5:
                answered.set_result(wire.Accepted(JOB))
            return clock.now_s - lag_s

        client.uploaded_at = partial(uploaded_at, 0.0)  # type: ignore[method-assign]
        assert await client.uploaded(answered, 0.001)
        assert looks == 5
        never: asyncio.Future[Answer | None] = loop.create_future()
        client.uploaded_at = partial(uploaded_at, 1.0)  # type: ignore[method-assign]
        assert not await client.uploaded(never, 0.001)

    run(story())


@pytest.mark.parametrize("ask", [_submit, _put_cache], ids=["submit", "cache_put"])
def test_files_that_no_leader_takes_do_not_outlast_the_timeout(
    ask: Callable[[Client], Awaitable[object]],
) -> None:
    async def story() -> None:
        async with Client("127.0.0.1:1", timeout=0.05) as client:
            with pytest.raises(DeadlineError) as caught:
                await ask(client)
            assert "within 0.05 s" in caught.value.message

    run(story())


def test_a_full_disk_is_told_as_such() -> None:
    full = as_rollq_error(OSError(errno.ENOSPC, "no space"), digest_of(b""))
    assert full.code is ErrorCode.DISK_FULL
    broken = as_rollq_error(OSError(errno.EIO, "broken"), digest_of(b""))
    assert broken.code is ErrorCode.DISK_FAILED


def test_what_the_group_has_is_not_sent() -> None:
    async def story() -> None:
        world = World()
        world.blobs.kept[digest_of(LARGE)] = LARGE
        other = LARGE[::-1]
        await world.submit({"a": LARGE, "b": other})
        assert world.blobs.puts == [digest_of(other)]
        assert world.blobs.asked == 1

    run(story())


def test_a_leader_that_lacks_files_gets_them_and_then_the_job_again() -> None:
    async def story() -> None:
        world = World(lacks=2)
        assert type(await world.submit({"a": LARGE})) is wire.Accepted
        assert len(world.blobs.puts) == 3
        assert len(world.session.requests) == 3
        assert len(set(map(id, world.session.requests))) == 1

    run(story())


def test_a_leader_that_never_has_them_is_believed_in_the_end() -> None:
    async def story() -> None:
        world = World(lacks=1_000)
        answer = await world.submit({"a": LARGE})
        assert isinstance(answer, wire.Error)
        assert answer.code == ErrorCode.BLOB_MISSING
        assert len(world.session.requests) == CLIENT_UPLOAD_TRIES

    run(story())


def test_a_file_that_changes_is_an_error_that_names_it(tmp_path: Path) -> None:
    async def story() -> None:
        path = tmp_path / "large"
        path.write_bytes(LARGE)
        before = World()
        settled = await Inputs().settle(JobSpec("calc", files={"in.csv": path}))
        request = wire.SubmitJob(JOB, "c", "", "calc", b"", None, getattr(settled, "blobs", ()))
        path.write_bytes(LARGE + b"more")
        during = World()
        path_2 = tmp_path / "other"
        path_2.write_bytes(LARGE)
        during.blobs.before_put = partial(path_2.write_bytes, b"other")
        for answer, name in (
            (await before.ask(request, supply_of(settled)), "in.csv"),
            (await during.submit({"b.csv": path_2}), "b.csv"),
        ):
            assert isinstance(answer, wire.Error)
            assert answer.code == ErrorCode.BLOB_CORRUPT
            assert answer.message.startswith(f"{name}: {tmp_path}")
            assert "changed" in answer.message
        assert not before.session.requests
        assert not during.session.requests

    run(story())


def test_refusals_of_the_group_are_the_answer() -> None:
    async def story() -> None:
        world = World()
        world.blobs.error = DiskError(ErrorCode.DISK_FULL, "a: no room", "make some")
        answer = await world.submit({"a": LARGE})
        assert answer == wire.Error(JOB, int(ErrorCode.DISK_FULL), "a: no room", "make some")

    run(story())


def test_who_gives_up_or_stops_leaves_nothing_behind() -> None:
    async def story() -> None:
        world = World()
        answers: list[Answer] = []
        supply = Supply({})
        request = wire.SubmitJob(JOB, "c", "", "calc", b"", None, (BlobRef(digest_of(b""), 0),))
        world.supplier.ask(request, answers.append, supply)
        world.supplier.give_up(JOB)
        await asyncio.sleep(0)
        assert not answers
        world.supplier.ask(request, answers.append, supply)
        await world.supplier.stop()
        (answer,) = answers
        assert isinstance(answer, wire.Error)
        assert answer.code == ErrorCode.DISCONNECTED
        assert not world.session.requests

    run(story())

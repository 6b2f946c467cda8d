"""Staged batches on real members: sent ahead by several, accepted by one, whoever dies then."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rollq import JobView
from rollq.base.errors import ErrorCode, LocalError, RollqError
from rollq.base.ids import job_id_of_key
from rollq.base.staged import StagedPart
from rollq.roles.client.blocking.clients import BlockingClient
from rollq.roles.client.calls.batches import CommitOutcome
from rollq.roles.client.client import Client
from rollq.roles.client.jobs.parts import Redrive
from rollq.roles.client.jobs.specs import JobSpec
from tests.integration.procs import MemberProcess, Members, until

JOBS = 3_000  # a part: several messages


def rows(first: int, count: int = JOBS) -> Iterator[JobSpec]:
    options = {"queue": "rows", "priority": 2}
    for number in range(first, first + count):
        yield JobSpec("calc", (str(number),), key=f"row-{number}", options=options)  # type: ignore[arg-type]


def queued(client: BlockingClient, name: str = "rows") -> int:
    view = client.queue(name)
    return 0 if view is None else view.waiting


def job(client: BlockingClient, owner: str, key: str) -> JobView:
    view = client.status(job_id_of_key(owner, key))
    assert view is not None
    return view


def test_several_stage_and_one_commits(tmp_path: Path) -> None:
    with Members(tmp_path, 1) as members:
        servers = members.all[0].address
        parts: list[StagedPart] = []
        for number in range(2):
            with BlockingClient(servers) as task:
                part = task.stage("b", f"{number}.0", rows(number * JOBS), client_id="query")
                assert (part.part, part.count) == (f"{number}.0", JOBS)
                parts.append(part)
                task.stage("b", f"{number}.1", rows(number * JOBS), client_id="query")
        with BlockingClient(servers, client_id="query") as driver:
            assert driver.counts().waiting == 0
            assert driver.commit("b", parts) == CommitOutcome(2 * JOBS, known=False)
            assert driver.commit("b", parts[:1]) == CommitOutcome(2 * JOBS, known=True)
            until(lambda: queued(driver) == 2 * JOBS)
            assert job(driver, "query", "row-7").client_id == "query"
            assert driver.counts().waiting == 2 * JOBS


def test_what_is_staged_is_read_in_the_thread_of_the_call_and_by_either_facade(
    tmp_path: Path,
) -> None:
    readers: set[int] = set()

    def read() -> Iterator[JobSpec]:
        for spec in rows(0, 3):
            readers.add(threading.get_ident())
            yield spec

    with (
        Members(tmp_path, 1) as members,
        BlockingClient(members.all[0].address, client_id="query") as client,
    ):
        parts = [client.stage("b", "0", read()), client.batches.stage("c", "0", read())]
        assert readers == {threading.get_ident()}
        assert client.batches.commit("b", parts[:1]) == CommitOutcome(3, known=False)
        assert client.commit("c", parts[1:]) == CommitOutcome(3, known=False)
        until(lambda: client.admin.counts().waiting == 3)  # the same keys are the same jobs
        assert client.jobs.status(job_id_of_key("query", "row-2")) is not None
        assert list(client.caches()) == []
        assert client.caches.cache("none") is None


def test_a_batch_survives_the_leader_and_a_restart_of_all(tmp_path: Path) -> None:
    with (
        Members(tmp_path, 3, snapshot_entries=5) as members,
        BlockingClient(",".join(members.addresses), client_id="query", timeout=60) as client,
    ):
        first = client.stage("b", "0", rows(0))
        members.at(client.leader).kill()
        second = client.stage("b", "1", rows(JOBS))
        outcome = client.commit("b", [first, second])
        assert outcome.count == 2 * JOBS
        for member in members.all:
            member.kill()
        for member in members.all:
            member.spawn()
        for member in members.all:
            member.until_line("serving")
        until(lambda: queued(client) == 2 * JOBS)
        assert client.commit("b", [first, second]).known
        assert client.counts().waiting == 2 * JOBS


def test_keys_that_were_accepted_before_are_not_accepted_again(tmp_path: Path) -> None:
    with (
        Members(tmp_path, 1) as members,
        BlockingClient(members.all[0].address, client_id="query") as client,
    ):
        client.commit("one", [client.stage("one", "p", rows(0, 10))])
        until(lambda: queued(client) == 10)
        client.commit("two", [client.stage("two", "p", rows(5, 10))])
        until(lambda: queued(client) == 15)
        other = [JobSpec("calc", ("other",), key="row-1")]
        part = client.stage("three", "p", other)
        with pytest.raises(RollqError) as told:
            client.commit("three", [part])
        assert told.value.code == ErrorCode.JOB_CONFLICT
        assert client.drop_batch("three")
        assert not client.drop_batch("three")


def test_what_cannot_be_meant_submits_nothing(tmp_path: Path) -> None:
    with (
        Members(tmp_path, 1) as members,
        BlockingClient(members.all[0].address, client_id="query") as client,
    ):
        with pytest.raises(LocalError):
            client.stage("b", "p", [*rows(0, 5), JobSpec("calc", (1,))])  # type: ignore[arg-type]
        with pytest.raises(RollqError) as told:
            client.commit("b", [StagedPart("p", 6, 0)])
        assert told.value.code == ErrorCode.BATCH_INCOMPLETE
        assert client.counts().waiting == 0


def test_files_of_staged_jobs_go_up_first(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.write_bytes(bytes(200_000))

    async def stage(servers: str) -> JobView | None:
        async with Client(servers, client_id="query") as client:
            spec = JobSpec("calc", ("1",), files={"data": data}, key="k")
            part = await client.stage("b", "p", [spec])
            await client.commit("b", [part])
            while True:
                view = await client.status(job_id_of_key("query", "k"))
                if view is not None:
                    return view

    member = MemberProcess(tmp_path / "m").start()
    try:
        view = asyncio.run(asyncio.wait_for(stage(member.address), 20))
    finally:
        member.kill()
    assert view is not None
    assert [ref.size for ref in view.blobs] == [200_000]


def test_dead_jobs_run_again_all_or_none(tmp_path: Path) -> None:
    with (
        Members(tmp_path, 1) as members,
        BlockingClient(members.all[0].address, client_id="ann") as client,
        BlockingClient(members.all[0].address, client_id="operator") as other,
    ):
        jobs = [client.submit("calc", [str(n)], expire=0.01) for n in range(3)]
        alive = client.submit("calc", ["3"])
        until(lambda: client.counts().dead == 3)
        again = [Redrive(job.id, b"other" if n else None) for n, job in enumerate(jobs)]
        part = other.stage_redrives("bad", "0", [*again, Redrive(alive.job_id)])
        with pytest.raises(RollqError) as told:
            other.commit("bad", [part])
        assert told.value.code == ErrorCode.WRONG_STATE
        assert client.counts().dead == 3

        def sizes() -> list[int]:
            return [view.body_bytes for job in jobs if (view := client.status(job.id))]

        before = sizes()
        part = other.stage_redrives("good", "0", again)
        assert other.commit("good", [part]) == CommitOutcome(3, known=False)
        until(lambda: sizes() == [before[0], 5, 5])

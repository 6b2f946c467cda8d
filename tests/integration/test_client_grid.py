"""Clients of every kind against a real member and a real worker."""

from __future__ import annotations

import asyncio
import contextlib
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from rollq import (
    BlockingClient,
    Client,
    ErrorCode,
    Executor,
    JobError,
    LocalError,
    MultiClient,
    Result,
    StateError,
)
from rollq.base.ids import task_id
from rollq.grid.commands import Settings
from rollq.net.ports import free_ports
from tests.integration import sample_app
from tests.integration.patience import DEADLINE_S, read_in_time
from tests.integration.small_grid import SmallGrid
from tests.integration.workers import write_program

APP = "tests.integration.sample_app"
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallGrid]:
    directory = tmp_path_factory.mktemp("grid")
    write_program(directory, "calcA", 'cat in.txt; echo "$@"; echo out > result.txt')
    write_program(directory, "fail", "echo why >&2; exit 3")
    write_program(directory, "forever", "exec sleep 600")
    with SmallGrid(directory, APP) as running:
        yield running


@pytest.fixture
def client(grid: SmallGrid) -> Iterator[BlockingClient]:
    with BlockingClient(grid.address) as running:
        yield running


def test_a_program_with_files(client: BlockingClient) -> None:
    job = client.submit("calcA", ["1", "2"], files={"in.txt": b"hello "})
    result = job.result(DEADLINE_S).raise_for_status()
    assert result.stdout == "hello 1 2\n"
    assert result.files == {"result.txt": b"out\n"}
    assert (result.exit_code, result.attempts, result.exec_name) == (0, 1, "calcA")
    assert job.is_done
    assert job.id == result.id


def test_a_failure_is_a_result(client: BlockingClient) -> None:
    with pytest.raises(JobError) as caught:
        client.submit("fail").result(DEADLINE_S).raise_for_status()
    assert caught.value.code is ErrorCode.JOB_FAILED
    assert caught.value.result.exit_code == 3
    assert caught.value.hint == "why"


def test_many_as_bulk_array_and_map(client: BlockingClient) -> None:
    batch = client.submit_many("noop", (b"x" for _ in range(2_000)))
    counts = batch.wait(DEADLINE_S)
    assert (counts.total, counts.ok) == (2_000, 2_000)
    assert sum(1 for _ in batch.results()) == 2_000
    array = client.submit_array("noop", 300, payload=b"x")
    assert {one.job_id for one in array.results()} == set(array.job_ids())
    sums = [one.json() for one in client.map("add", [("1", "2"), ("3", "4")], ordered=True)]
    assert sums == [3, 7]


def test_the_same_id_runs_once_and_answers_twice(client: BlockingClient) -> None:
    own = "11111111-2222-3333-4444-555555555555"
    first = client.submit("add", ["1", "2"], job_id=own).result(DEADLINE_S)
    again = client.submit("add", ["1", "2"], job_id=own).result(DEADLINE_S)
    assert first.json() == again.json() == 3
    with pytest.raises(StateError) as caught:
        client.submit("add", ["3", "4"], job_id=own)
    assert caught.value.code is ErrorCode.JOB_CONFLICT


def test_a_client_that_comes_back_gets_what_it_is_owed(grid: SmallGrid) -> None:
    with BlockingClient(grid.address, client_id="phoenix") as before:
        job_id = before.submit("add", ["2", "3"], delay=0.3).job_id
    with BlockingClient(grid.address, client_id="phoenix") as after:
        assert after.attach(job_id).result(DEADLINE_S).json() == 5
        assert after.attach(job_id).result(DEADLINE_S).json() == 5
        with pytest.raises(StateError) as caught:
            after.attach(task_id(job_id, 1))
        assert caught.value.code is ErrorCode.UNKNOWN_JOB
        waiting = after.submit("noop", delay=600)
        with BlockingClient(grid.address, client_id="other") as other:
            with pytest.raises(StateError) as caught:
                other.attach(waiting.id)
            assert caught.value.code is ErrorCode.WRONG_STATE
            assert "phoenix" in caught.value.message
        assert waiting.cancel()


def test_cancel_ends_what_waits_and_what_runs(client: BlockingClient) -> None:
    running = client.submit("forever")
    waiting = client.submit("noop", delay=600)
    assert waiting.cancel()
    assert not waiting.cancel()
    assert client.cancel(running.id) == 1
    for job in (running, waiting):
        assert job.result(DEADLINE_S).status == "CANCELLED"
    array = client.submit_array("noop", 1_000, delay=600)
    assert array.cancel() == 1_000
    assert array.wait(DEADLINE_S).cancelled == 1_000
    results = list(array.results())
    assert [one.job_id for one in results] == list(array.job_ids())
    assert {(one.status, one.detail) for one in results} == {("CANCELLED", client.client_id)}
    late = client.submit_array("noop", 3, delay=600, expire=0.05)
    assert [one.cause for one in late.results()] == ["expired"] * 3
    assert late.counts.dead == 3
    task = client.attach(next(late.job_ids()))
    assert task.result(DEADLINE_S).cause == "expired"
    bulk = client.submit_many("noop", [b"a", b"b"], delay=600)
    assert bulk.cancel() == 2
    assert bulk.wait(DEADLINE_S).cancelled == 2


def test_views_and_changes(client: BlockingClient) -> None:
    client.pause("paused")
    job = client.submit("noop", queue="paused", priority=4)
    view = client.status(job.id)
    assert view is not None
    assert (view.state, view.queue, view.options.priority) == ("waiting", "paused", 4)
    assert client.explain(job.id)
    queue = client.queue("paused")
    assert queue is not None
    assert queue.paused
    assert queue.waiting == 1
    assert "paused" in [one.name for one in client.queues()]
    client.resume("paused")
    assert job.result(DEADLINE_S).ok
    me = client.client()
    assert me is not None
    assert me.client_id == client.client_id
    assert client.counts().ok >= 1
    assert client.status(bytes(15) + b"\x01") is None
    assert client.array(bytes(15) + b"\x01") is None
    client.set_settings(Settings(client_cap=77))
    assert client.settings().client_cap == 77
    client.set_settings(Settings())
    (member,) = client.cluster()["members"]
    assert member["address"] == client.leader
    with pytest.raises(LocalError) as caught:
        client.query("weather")
    assert "job" in caught.value.hint


def test_the_dead_are_seen_redriven_and_purged(client: BlockingClient) -> None:
    client.pause("stuck")
    jobs = [client.submit("noop", queue="stuck", expire=0.05) for _ in range(2)]
    for job in jobs:
        result = job.result(DEADLINE_S)
        assert (result.status, result.cause) == ("DEAD", "expired")
    dead = [view.job_id for view in client.dead()]
    assert {job.id for job in jobs} <= set(dead)
    assert client.redrive(jobs[0].id) == 1
    assert client.purge(jobs[1].id) == 1
    assert client.status(jobs[1].id) is None


def test_threads_share_a_blocking_client(client: BlockingClient) -> None:
    values: list[int] = []

    def work(number: int) -> None:
        result = client.submit("add", [str(number), "1"]).result(DEADLINE_S)
        values.append(result.json())

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(values) == list(range(1, 9))


def test_an_executor(grid: SmallGrid) -> None:
    with Executor(grid.address, reads=Result.json) as pool:
        assert pool.submit("add", "1", "2").result(DEADLINE_S) == 3
        assert pool.submit(sample_app.add, "3", "4").result(DEADLINE_S) == 7
        order = {"item": "pear", "count": 2}
        assert pool.submit("order", order).result(DEADLINE_S) == {"pear": 2}
        assert list(pool.map(sample_app.add, ["1", "2"], ["3", "4"])) == [4, 6]
        failed = pool.submit("fails").exception(DEADLINE_S)
        assert isinstance(failed, JobError)
        assert "no such luck" in failed.hint
        with pytest.raises(LocalError):
            pool.submit(print)
        with pytest.raises(LocalError):
            pool.submit("add", 1, 2)
    with pytest.raises(RuntimeError):
        pool.submit("add", "1", "2")
    pool.shutdown()


def test_an_executor_cancels_jobs_with_their_futures(grid: SmallGrid) -> None:
    pool = Executor(grid.address, delay=600)
    futures = [pool.submit("raw", b"abc") for _ in range(5)]
    assert futures[0].cancel()
    assert futures[0].cancel()
    pool.shutdown(cancel_futures=True)
    for future in futures:
        with pytest.raises(CancelledError):
            future.result(0)
    with Executor(grid.address) as other:
        assert other.submit("raw", b"abc").result(DEADLINE_S) == b"cba"


def test_a_client_of_many_groups_with_real_ones(grid: SmallGrid, tmp_path: Path) -> None:
    async def story() -> None:
        async with MultiClient([grid.address, second.address]) as client:
            arguments = [(str(n), "1") for n in range(40)]
            results = [one.json() async for one in client.map("add", arguments)]
            assert sorted(results) == list(range(1, 41))

    with SmallGrid(tmp_path, APP) as second:
        asyncio.run(story())


def test_a_member_that_restarts_is_not_noticed(tmp_path: Path) -> None:
    with SmallGrid(tmp_path, APP) as grid, BlockingClient(grid.address) as client:
        job = client.submit("add", ["1", "2"], delay=0.5)
        grid.stop_member()
        grid.start_member()
        assert job.result(DEADLINE_S).json() == 3
        assert client.submit("add", ["3", "4"]).result(DEADLINE_S).json() == 7


@contextlib.contextmanager
def member_processes(directory: Path) -> Iterator[dict[str, subprocess.Popen[str]]]:
    addresses = [f"127.0.0.1:{port}" for port in free_ports(3)]
    members: dict[str, subprocess.Popen[str]] = {}
    for address in addresses:
        port = address.rpartition(":")[2]
        members[address] = subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.integration.member_process"),
                *(port, str(directory / port)),
                *(other for other in addresses if other != address),
            ],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
    try:
        for member in members.values():
            assert member.stdout is not None
            with read_in_time(member):
                assert member.stdout.readline() == "serves\n"
        yield members
    finally:
        for member in members.values():
            member.kill()
            member.communicate()


def test_the_leader_is_killed_and_nothing_is_lost(tmp_path: Path) -> None:
    async def story() -> None:
        async with Client(",".join(members)) as client:
            await client.submit("noop")
            accepted: list[bytes] = []
            killed = asyncio.Event()

            async def submit_some() -> None:
                while len(accepted) < 600:
                    accepted.append((await client.submit("noop")).job_id)
                    if len(accepted) == 200:
                        members[client.leader].kill()
                        killed.set()

            async with asyncio.timeout(DEADLINE_S):
                await asyncio.gather(*(submit_some() for _ in range(16)))
            assert killed.is_set()
            for job_id in accepted[::20]:
                assert await client.status(job_id) is not None
            counts = await client.counts()
            assert counts.waiting >= len(accepted) + 1

    with member_processes(tmp_path) as members:
        asyncio.run(story())


PAGE = (ROOT / "docs/client.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^### (.+?)$.*?^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("title", "code"), EXAMPLES, ids=[title for title, _ in EXAMPLES])
def test_the_examples_of_the_page_run(
    title: str,
    code: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_program(tmp_path, "calcA", 'cat "$1"; shift; echo "$@" > sum.txt')
    write_program(tmp_path, "sums", "awk -F, '{ print $1 + $2 }' in.csv > sums.csv")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # processes for functions look there, too
    with SmallGrid(tmp_path, APP) as grid, SmallGrid(tmp_path / "other", APP) as other:
        code = code.replace("127.0.0.1:5000", grid.address).replace("127.0.0.1:6000", other.address)
        exec(compile(code, title, "exec"), {"__name__": "__main__"})
    expected = re.findall(r"  # prints (.*)$", code, re.MULTILINE)
    assert capsys.readouterr().out.splitlines() == expected

"""Output while a job runs: real members, a real worker, programs that write and wait for a file."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rollq import BlockingClient, BlockingMultiClient, Client, ErrorCode, StateError
from rollq.cli.main import app
from rollq.roles.client.results.streams import StreamPart
from rollq.roles.worker.node import WorkerNode
from rollq.roles.worker.setup import NodeSetup
from tests.integration.patience import DEADLINE_S, read_in_time
from tests.integration.procs import Members, until
from tests.integration.small_grid import SmallGrid
from tests.integration.workers import eventually, write_program

# Writes, waits for a file beside it, writes more. The tests make the file; nobody sleeps for long.
WAITS = 'echo one; echo bad >&2; while [ ! -e "$1" ]; do sleep 0.02; done; echo two'
AGAIN = """echo "try $ROLLQ_ATTEMPT"; while [ ! -e "$1" ]; do sleep 0.02; done
[ "$ROLLQ_ATTEMPT" = 2 ] || exit 3"""
FLOODS = 'head -c 3000000 /dev/zero; echo; while [ ! -e "$1" ]; do sleep 0.02; done; echo end'


def write_programs(directory: Path) -> None:
    directory.mkdir(exist_ok=True)
    write_program(directory, "waits", WAITS)
    write_program(directory, "floods", FLOODS)
    write_program(directory, "quick", "echo quick")
    write_program(directory, "again", AGAIN)


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallGrid]:
    directory = tmp_path_factory.mktemp("logs")
    write_programs(directory)
    with SmallGrid(directory, "tests.integration.sample_app") as running:
        yield running


@pytest.fixture
def client(grid: SmallGrid) -> Iterator[BlockingClient]:
    with BlockingClient(grid.address) as running:
        yield running


def said(parts: list[StreamPart], stream: str = "stdout") -> bytes:
    return b"".join(part.data for part in parts if part.stream == stream)


def read_until(parts: Iterator[StreamPart], wanted: bytes, stream: str = "stdout") -> bytes:
    seen = b""
    while wanted not in seen:
        part = next(parts)
        seen += part.data if part.stream == stream else b""
    return seen


def test_output_comes_while_the_job_runs(client: BlockingClient, tmp_path: Path) -> None:
    job = client.submit("waits", [str(tmp_path / "go")])
    parts = job.output()
    first = [next(parts), next(parts)]
    assert (said(first), said(first, "stderr")) == (b"one\n", b"bad\n")
    assert client.status(job.id).state == "running"  # type: ignore[union-attr]
    (tmp_path / "go").touch()
    rest = list(parts)
    assert (said(rest), said(rest, "stderr")) == (b"two\n", b"")
    assert {(part.attempt, part.skipped) for part in first + rest} == {(1, 0)}
    assert job.result(DEADLINE_S).stdout == "one\ntwo\n"


def test_what_is_there_by_now_and_what_is_over(client: BlockingClient, tmp_path: Path) -> None:
    job = client.submit("waits", [str(tmp_path / "go")])
    follower = job.output(stream="stderr")
    read_until(follower, b"bad\n", "stderr")
    now = list(client.output(job.id, follow=False))
    assert (said(now), said(now, "stderr")) == (b"one\n", b"bad\n")
    (tmp_path / "go").touch()
    assert list(follower) == []
    job.result(DEADLINE_S)
    for parts in (job.output(), client.output(job.id), client.output(job.id, follow=False)):
        after = list(parts)
        assert (said(after), said(after, "stderr")) == (b"one\ntwo\n", b"bad\n")
    assert said(list(client.output(job.id, tail=1))) == b"two\n"


def test_a_job_that_waits_for_its_turn_is_shown_when_it_has_it(
    client: BlockingClient, tmp_path: Path
) -> None:
    client.pause("later")
    job = client.submit("quick", queue="later")
    assert list(job.output(follow=False)) == []
    parts = job.output()
    client.resume("later")
    assert said(list(parts)) == b"quick\n"


def test_a_flood_is_bounded_and_what_was_left_out_is_told(
    client: BlockingClient, tmp_path: Path
) -> None:
    job = client.submit("floods", [str(tmp_path / "go")])
    parts = job.output(stream="stdout")
    seen = [next(parts)]
    while seen[-1].offset + len(seen[-1].data) <= 3_000_000:
        seen.append(next(parts))
    (tmp_path / "go").touch()
    seen += list(parts)
    at = 0
    for part in seen:
        assert part.offset == at + part.skipped
        at = part.offset + len(part.data)
    assert at == 3_000_005
    assert said(seen).endswith(b"\nend\n")


def test_a_long_stream_is_whole_once_the_job_is_over(
    client: BlockingClient, tmp_path: Path
) -> None:
    (tmp_path / "go").touch()
    job = client.submit("floods", [str(tmp_path / "go")])
    job.result(DEADLINE_S)
    for parts in (job.output(), client.output(job.id, follow=False)):
        assert said(list(parts)) == bytes(3_000_000) + b"\nend\n"
    (last,) = client.output(job.id, tail=1)
    assert (last.data, last.offset) == (b"end\n", 3_000_001)


def test_a_job_that_is_run_again_is_shown_again(client: BlockingClient, tmp_path: Path) -> None:
    job = client.submit(
        "again", [str(tmp_path / "go")], max_attempts=2, retry_exit_codes=(3,), retry_base=0.001
    )
    parts = job.output(stream="stdout")
    first = next(parts)
    (tmp_path / "go").touch()
    shown = [(part.attempt, part.offset, part.data) for part in (first, *parts)]
    assert shown == [(1, 0, b"try 1\n"), (2, 0, b"try 2\n")]


def test_a_client_of_several_groups_shows_output_too(grid: SmallGrid, tmp_path: Path) -> None:
    with BlockingMultiClient([grid.address]) as client:
        job = client.submit("waits", [str(tmp_path / "go")])
        parts = job.output(stream="stdout")
        assert next(parts).data == b"one\n"
        (tmp_path / "go").touch()
        assert said(list(parts)) == b"two\n"
        job.result(DEADLINE_S)
        assert said(list(job.output())) == b"one\ntwo\n"


def test_a_function_shows_its_value_at_the_end(client: BlockingClient) -> None:
    job = client.submit("add", ["1", "2"])
    assert said(list(job.output())) == b"3"


def test_an_unknown_job_is_refused(client: BlockingClient) -> None:
    with pytest.raises(StateError) as caught:
        list(client.output("6f9619ff-8b86-d011-b42d-00c04fc964ff"))
    assert caught.value.code is ErrorCode.UNKNOWN_JOB


def test_one_who_has_enough_leaves_and_the_worker_rests(
    grid: SmallGrid, client: BlockingClient, tmp_path: Path
) -> None:
    job = client.submit("waits", [str(tmp_path / "go")])
    parts = job.output()
    next(parts)
    parts.close()  # type: ignore[attr-defined]
    until(lambda: not grid._worker._live_output._output)
    assert said(list(client.output(job.id, follow=False))) == b"one\n"
    (tmp_path / "go").touch()
    assert job.result(DEADLINE_S).ok


def test_the_command_shows_follows_and_writes_json(
    grid: SmallGrid, client: BlockingClient, tmp_path: Path
) -> None:
    job = client.submit("waits", [str(tmp_path / "go")])
    read_until(job.output(), b"one\n")
    command = ["logs", job.id, "--servers", grid.address]
    with (
        subprocess.Popen(
            [sys.executable, "-m", "rollq", *command, "-f"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ,
        ) as follower,
        read_in_time(follower),
    ):
        assert follower.stdout is not None
        assert follower.stderr is not None
        assert follower.stdout.readline() == b"one\n"
        (tmp_path / "go").touch()
        assert follower.stdout.read() == b"two\n"
        assert follower.stderr.read() == b"bad\n"
        assert follower.wait(DEADLINE_S) == 0
    runner = CliRunner()
    assert runner.invoke(app, [*command, "--stdout", "--tail", "1"]).stdout == "two\n"
    told = runner.invoke(app, [*command, "--json", "--stderr"])
    assert json.loads(told.stdout) == {
        "stream": "stderr",
        "attempt": 1,
        "offset": 0,
        "skipped": 0,
        "text": "bad\n",
    }
    unknown = [*command[:1], "6f9619ff-8b86-d011-b42d-00c04fc964ff", *command[2:]]
    assert runner.invoke(app, unknown).exit_code == 4


# --- three members


async def collect(parts: AsyncGenerator[StreamPart, None], into: list[StreamPart]) -> None:
    async for part in parts:
        into.append(part)


def test_from_any_member_and_past_a_change_of_leader(tmp_path: Path) -> None:
    write_programs(tmp_path)
    with Members(tmp_path, 3) as members:
        asyncio.run(watch_past_a_leader(members, tmp_path))


async def watch_past_a_leader(members: Members, tmp_path: Path) -> None:
    go = tmp_path / "go"
    worker = WorkerNode(
        NodeSetup(
            members.addresses,
            exec_dir=tmp_path / "exec",
            jobs_dir=tmp_path / "jobs",
            state_dir=tmp_path / "worker",
            cpu_cap=1.0,
        )
    )
    await worker.start()
    try:
        async with Client(members.addresses[0], timeout=DEADLINE_S) as client:
            await client.settings()
            leader = client.leader
        # It knows the leader alone, which is killed.
        async with Client(leader, timeout=DEADLINE_S) as client:
            job = await client.submit("waits", [str(go)])
            seen: list[StreamPart] = []
            task = asyncio.create_task(collect(job.output(), seen))
            await eventually(lambda: said(seen) == b"one\n")
            for address in members.addresses:
                async with Client(address, timeout=DEADLINE_S) as other:
                    now = [part async for part in other.output(job.id, follow=False)]
                    assert said(now) == b"one\n"
            await asyncio.to_thread(members.at(leader).kill)
            await eventually(lambda: client.leader not in ("", leader))
            go.touch()
            async with asyncio.timeout(DEADLINE_S):
                await task
            assert (said(seen), said(seen, "stderr")) == (b"one\ntwo\n", b"bad\n")
    finally:
        await worker.stop()

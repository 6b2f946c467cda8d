"""Files of jobs from end to end: client, three members in processes, and a worker."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rollq import (
    BlockingClient,
    BlockingMultiClient,
    Client,
    ErrorCode,
    JobSpec,
    LocalError,
    Result,
)
from rollq.cli.main import app
from rollq.roles.client.blocking.loop_thread import LoopThread
from rollq.roles.worker.node import WorkerNode
from rollq.roles.worker.setup import NodeSetup
from tests.integration.patience import DEADLINE_S
from tests.integration.procs import MemberProcess, Members, until
from tests.integration.small_grid import SmallGrid
from tests.integration.talk import find_leader, hang_up_all
from tests.integration.workers import write_program

ROOT = Path(__file__).parents[2]
MIB = 1024 * 1024
LARGE_BYTES = 50 * MIB
RSS_GROWTH_MAX = 16 * MIB
LOG_GROWTH_MAX = 64 * 1024


class Group:
    """Three members and a worker that copies, counts and runs what it is given."""

    def __init__(self, directory: Path) -> None:
        write_program(directory, "copy", "cp in.bin out.bin")
        write_program(directory, "other", "{ printf x; cat in.bin; } > out.bin")
        write_program(directory, "digest", "sha256sum in.bin | cut -d ' ' -f 1")
        write_program(directory, "tree", "find . -type f | sort; ./in/tool")
        write_program(directory, "some", "head -c 200000 /dev/zero > a.csv; cp a.csv b.txt")
        write_program(directory, "shout", "yes rollq | head -c 1000000")
        self.members = Members(directory, 3)
        self._thread = LoopThread("worker")
        self._setup = NodeSetup(
            self.members.addresses,
            exec_dir=directory / "exec",
            jobs_dir=directory / "jobs",
            state_dir=directory / "worker",
            slots=2,
            cpu_cap=1.0,
        )

    def __enter__(self) -> Group:
        self.members.__enter__()
        self._thread.start()
        self._worker = WorkerNode(self._setup)
        self._thread.run(self._worker.start())
        return self

    def __exit__(self, *exc: object) -> None:
        self._thread.run(self._worker.stop())
        self._thread.stop()
        self.members.__exit__(*exc)

    @property
    def servers(self) -> str:
        """The members, as a client is told them."""
        return ",".join(self.members.addresses)


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    with Group(tmp_path_factory.mktemp("group")) as running:
        yield running


@pytest.fixture
def client(group: Group) -> Iterator[BlockingClient]:
    with BlockingClient(group.servers, timeout=DEADLINE_S) as running:
        yield running


def finished(result: Result) -> Result:
    """A result that must be a good one."""
    assert result.ok, (result.status, result.stderr, result.note, result.detail)
    return result


def rss_bytes(member: MemberProcess, field: str) -> int:
    """What a member has in memory (VmRSS), or had at most (VmHWM)."""
    status = Path(f"/proc/{member.pid}/status").read_text()
    match = re.search(rf"^{field}:\s+(\d+) kB$", status, re.MULTILINE)
    assert match is not None
    return 1024 * int(match.group(1))


def size_of(path: Path) -> int:
    """The size of a file that may vanish."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def log_bytes(member: MemberProcess) -> int:
    """What a member has on disk beside the blobs; a log is as long as what was written to it."""
    files = (path for path in member.state.rglob("*") if "blobs" not in path.parts)
    return sum(len(path.read_bytes().rstrip(bytes(1))) for path in files if path.is_file())


def test_fifty_megabytes_in_and_out_leave_memory_and_log_as_they_were(
    group: Group, client: BlockingClient, tmp_path: Path
) -> None:
    large = tmp_path / "large.bin"
    large.write_bytes(os.urandom(LARGE_BYTES))
    members = group.members.all
    finished(client.submit("some").result(DEADLINE_S))  # everybody has met everybody
    for member in members:
        Path(f"/proc/{member.pid}/clear_refs").write_text("5")  # what it had at most counts anew
    before = [(rss_bytes(one, "VmRSS"), log_bytes(one)) for one in members]
    told: list[tuple[int, int]] = []
    job = client.submit(
        "other", files={"in.bin": large}, progress=lambda done, total: told.append((done, total))
    )
    output = finished(job.result(DEADLINE_S)).outputs["out.bin"]
    output.save(tmp_path / "back.bin")
    # Other content than the input: none of it was in the grid before.
    assert (tmp_path / "back.bin").read_bytes() == b"x" + large.read_bytes()
    assert told[0][0] < told[-1][0] == LARGE_BYTES
    for member, (rss, log) in zip(members, before, strict=True):
        assert rss_bytes(member, "VmHWM") - rss <= RSS_GROWTH_MAX
        assert log_bytes(member) - log <= LOG_GROWTH_MAX


def test_a_tree_keeps_names_and_executable_bits(client: BlockingClient, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "sub").mkdir(parents=True)
    (tree / "sub" / "data.bin").write_bytes(os.urandom(200_000))
    (tree / "tool").write_text("#!/bin/sh\nwc -c < in/sub/data.bin\n")
    (tree / "tool").chmod(0o755)
    result = finished(client.submit("tree", files={"in": tree}).result(DEADLINE_S))
    lines = result.stdout.split()
    assert {"./in/sub/data.bin", "./in/tool", "200000"} <= set(lines)


def test_many_ways_to_submit_share_one_upload(client: BlockingClient, tmp_path: Path) -> None:
    large = tmp_path / "large.bin"
    large.write_bytes(os.urandom(300_000))
    expected = hashlib.sha256(large.read_bytes()).hexdigest()
    specs = [JobSpec("digest", files={"in.bin": large}) for _ in range(5)]
    results = [
        *client.map(specs),
        *client.submit_many(specs).results(),
        *client.submit_array("digest", 3, files={"in.bin": large}).results(),
    ]
    assert [finished(one).stdout.strip() for one in results] == [expected] * 13


def test_files_go_to_and_come_from_the_group_that_has_the_job(tmp_path: Path) -> None:
    large = tmp_path / "large.bin"
    large.write_bytes(os.urandom(300_000))
    names = ("one", "two")
    for name in names:
        (tmp_path / name).mkdir()
        write_program(tmp_path / name, "other", f"{{ printf {name}; cat in.bin; }} > out.bin")
    with (
        SmallGrid(tmp_path / "one") as one,
        SmallGrid(tmp_path / "two") as two,
        BlockingMultiClient([one.address, two.address], timeout=DEADLINE_S) as client,
    ):
        sessions = client._inner._engine.sessions  # type: ignore[attr-defined]
        until(lambda: all(session.is_open for session in sessions.values()))
        specs = [JobSpec("other", files={"in.bin": large}) for _ in range(2)]
        results = [*client.map(specs), *client.submit_many(specs).results()]
        outputs = {finished(result).outputs["out.bin"].read() for result in results}
    assert outputs == {name.encode() + large.read_bytes() for name in names}


def test_a_group_without_its_leader_takes_files_again(group: Group, tmp_path: Path) -> None:
    async def story() -> None:
        large = tmp_path / "large.bin"
        await asyncio.to_thread(large.write_bytes, os.urandom(3_000_000))
        async with Client(group.servers, timeout=DEADLINE_S) as client:
            first = await client.submit("copy", files={"in.bin": large})
            output = finished(await first.result(DEADLINE_S)).outputs["out.bin"]
            address, _ = await asyncio.to_thread(find_leader, group.members.addresses)
            leader = group.members.at(address)
            await asyncio.to_thread(leader.kill)
            # The same content: the client knows it to be there, and the new leader may not.
            second = await client.submit("copy", files={"in.bin": large})
            again = finished(await second.result(DEADLINE_S)).outputs["out.bin"]
            assert again.digest == output.digest
            assert await output.aread() == await asyncio.to_thread(large.read_bytes)
            third = await client.submit("digest", files={"in.bin": output.as_input()})
            said = finished(await third.result(DEADLINE_S)).stdout.strip()
            assert said == output.digest
            await asyncio.to_thread(leader.start)

    try:
        asyncio.run(story())
    finally:
        hang_up_all()


def test_only_the_outputs_that_were_asked_for_come_back(
    client: BlockingClient, tmp_path: Path
) -> None:
    result = finished(client.submit("some", outputs=["*.csv"]).result(DEADLINE_S))
    assert list(result.outputs) == ["a.csv"]
    assert result.outputs["a.csv"].size == 200_000
    both = finished(client.submit("some").result(DEADLINE_S))
    assert both.save_files(tmp_path / "both") == ["a.csv", "b.txt"]
    assert (tmp_path / "both" / "b.txt").read_bytes() == bytes(200_000)


def test_all_that_a_program_wrote_can_be_had(client: BlockingClient) -> None:
    result = finished(client.submit("shout").result(DEADLINE_S))
    said = result.whole_stdout.read()
    assert len(said) == 1_000_000
    assert said == result.stdout_bytes
    assert 0 < len(result.stdout_tail) < 1_000_000
    assert said.endswith(result.stdout_tail.encode())


def test_the_example_of_the_page_runs(group: Group, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "files.md").read_text(encoding="utf-8")
    (script,) = re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    ended = subprocess.run(
        ["sh", "-e", "-c", f'rollq() {{ "{sys.executable}" -m rollq "$@"; }}\n{script}'],
        cwd=tmp_path,
        env=os.environ | {"ROLLQ_SERVERS": group.servers, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "results" / "out.bin").stat().st_size == 3_000_000


def rollq_there(group: Group, *arguments: str, before: str = "") -> subprocess.Popen[str]:
    """A command in a process of its own."""
    command = shlex.join((sys.executable, "-m", "rollq", *arguments))
    return subprocess.Popen(
        ["sh", "-c", f"{before} exec {command}"],
        env=os.environ | {"ROLLQ_SERVERS": group.servers, "PYTHONPATH": str(ROOT / "src")},
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_disk_without_room_keeps_no_part_and_the_files_can_be_had_later(
    group: Group, tmp_path: Path
) -> None:
    (tmp_path / "in.bin").write_bytes(os.urandom(3_000_000))
    folder = tmp_path / "results"
    given = ("submit", "copy", "--file", str(tmp_path / "in.bin"), "--wait", "--save", str(folder))
    with rollq_there(group, *given, before="ulimit -f 2000;") as full:
        _, said = full.communicate(timeout=DEADLINE_S)
    assert full.returncode == 1
    assert "out.bin needs 3000000 bytes" in said
    assert os.listdir(folder) == []
    match = re.search(r"rollq fetch (\S+) --save", said)
    assert match is not None
    with rollq_there(group, "fetch", match.group(1), "--save", str(folder)) as later:
        assert later.wait(DEADLINE_S) == 0
    assert (folder / "out.bin").read_bytes() == (tmp_path / "in.bin").read_bytes()


def test_an_upload_whose_client_was_killed_goes_on_where_it_was(
    group: Group, client: BlockingClient, tmp_path: Path
) -> None:
    large = tmp_path / "large.bin"
    large.write_bytes(os.urandom(LARGE_BYTES))
    digest = hashlib.sha256(large.read_bytes()).hexdigest()

    def half() -> bool:
        stores = [member.state / "blobs" for member in group.members.all]
        parts = [part for store in stores for part in store.glob("partial/*")]
        is_whole = any((store / digest[:2] / digest[2:]).exists() for store in stores)
        return is_whole or any(size_of(part) > 8 * MIB for part in parts)

    with rollq_there(group, "submit", "digest", "--file", f"in.bin={large}") as killed:
        until(half)
        killed.kill()
    told: list[int] = []
    job = client.submit(
        "digest", files={"in.bin": large}, progress=lambda done, _: told.append(done)
    )
    assert told[0] == 0
    assert told[1] > 8 * MIB
    assert finished(job.result(DEADLINE_S)).stdout.strip() == digest


def test_files_on_the_command_line(group: Group, tmp_path: Path) -> None:
    def rollq(*arguments: str, code: int = 0) -> str:
        servers = {"ROLLQ_SERVERS": group.servers, "ROLLQ_TIMEOUT": str(DEADLINE_S)}
        ended = CliRunner().invoke(app, arguments, env=servers)
        assert ended.exit_code == code, ended.output
        return ended.output if code else ended.stdout

    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "in.bin").write_bytes(os.urandom(2_000_000))
    given = ("--dir", f".={tmp_path / 'data'}", "--wait", "--json")
    ended = json.loads(rollq("submit", "copy", *given))
    assert ended["files"] == ["out.bin"]
    folder = tmp_path / "results"
    fetched = json.loads(rollq("fetch", ended["id"], "out.bin", "--save", str(folder), "--json"))
    (row,) = fetched["files"]
    content = (tmp_path / "data" / "in.bin").read_bytes()
    assert (row["size"], row["digest"]) == (2_000_000, hashlib.sha256(content).hexdigest())
    assert Path(row["path"]).read_bytes() == content
    assert rollq("fetch", ended["id"], "--save", str(folder)) == f"{folder / 'out.bin'}\n"
    assert "left no file 'x'" in rollq("fetch", ended["id"], "x", code=4)
    assert "No such file" in rollq("submit", "copy", "--file", "missing", code=2)
    assert "is a directory: use --dir" in rollq("submit", "copy", "--file", str(tmp_path), code=2)


def test_a_file_that_is_not_there_is_told_before_anything_is_sent(
    client: BlockingClient, tmp_path: Path
) -> None:
    with pytest.raises(LocalError, match="missing: No such file") as caught:
        client.submit("copy", files={"in.bin": tmp_path / "missing"})
    assert caught.value.code is ErrorCode.BAD_OPTIONS

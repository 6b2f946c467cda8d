"""A member on a real disk: snapshots beside the loop, restarts, full disks, closed doors."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from rollq import Client
from rollq.base.errors import RollqError
from rollq.net.ports import free_ports
from rollq.roles.member.node import MemberNode
from rollq.roles.member.setup import MemberSetup
from rollq.store.record import find_headers
from tests.integration import procs
from tests.integration.patience import DEADLINE_S

ROOT = Path(__file__).parents[2]


class Members:
    """Members as processes of their own, each with its port."""

    def __init__(self) -> None:
        self._started: list[subprocess.Popen[str]] = []

    def start(self, state: Path, port: int) -> subprocess.Popen[str]:
        """Start one."""
        command = [sys.executable, "-m", "rollq", "leader", str(port), "--state", str(state)]
        process = subprocess.Popen(
            [*command, "--snapshot-entries", "20"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
        )
        self._started.append(process)
        return process

    def end(self) -> None:
        """kill -9 whoever still runs."""
        for process in self._started:
            process.kill()
            process.communicate(timeout=DEADLINE_S)


@pytest.fixture
def members() -> Iterator[Members]:
    started = Members()
    yield started
    started.end()


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit code of a process that ends by itself, and all that it said."""
    output, _ = process.communicate(timeout=DEADLINE_S)
    return process.returncode, output


def run(work: Coroutine[Any, Any, None]) -> None:
    """On a loop of its own, with a deadline."""
    asyncio.run(asyncio.wait_for(work, DEADLINE_S))


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that somebody else does; the deadline is that of the test."""
    while not condition():  # noqa: ASYNC110 - files and other processes set no events
        await asyncio.sleep(0.01)


async def change_until(client: Client, condition: Callable[[], bool]) -> None:
    """Give a member entries for further snapshots, none of which brings a body: it takes none while
    one is being written, and none without entries."""
    while not condition():
        await client.pause("queue")
        await client.resume("queue")


def snapshots_in(state: Path) -> list[str]:
    """The files of whole snapshots."""
    return sorted(path.name for path in (state / "snapshots").glob("*.snap"))


def bytes_in(state: Path, folder: str) -> int:
    """What the files of a folder take."""
    return sum(path.stat().st_size for path in (state / folder).glob("*"))


def test_snapshots_are_taken_while_turns_go_on(tmp_path: Path) -> None:
    async def story() -> None:
        (port,) = free_ports(1)
        setup = MemberSetup(f"127.0.0.1:{port}", snapshot_entries=10, hot_bytes_max=500)
        node = MemberNode(setup, "127.0.0.1", port, tmp_path)
        await node.start()
        async with Client(setup.address) as client:
            for n in range(60):
                await client.submit("work", [str(n)], queue="q")
            await change_until(client, lambda: len(snapshots_in(tmp_path)) == 2)
        await until(lambda: node.driver.snapshots.order is None)
        state = node.driver.state
        bodies = {key: state.bodies.load(job.body) for key, job in state.jobs.items()}
        assert len(bodies) == 60
        await node.stop()
        assert list((tmp_path / "history").glob("*.tmp")) == []
        again = MemberNode(setup, "127.0.0.1", port, tmp_path)
        await again.start()
        await until(lambda: again.driver.leading)
        state = again.driver.state
        assert {key: state.bodies.load(job.body) for key, job in state.jobs.items()} == bodies
        assert again.driver.replica.history.gaps(state.applied_index) == []
        await again.stop()

    run(story())


def test_large_bodies_outlive_the_log_that_brought_them(tmp_path: Path) -> None:
    """Written once: neither scratch files nor snapshots have them, nor does memory."""

    async def story() -> None:
        (port,) = free_ports(1)
        setup = MemberSetup(
            f"127.0.0.1:{port}", snapshot_entries=5, hot_bytes_max=0, segment_bytes=256 * 1024
        )
        node = MemberNode(setup, "127.0.0.1", port, tmp_path)
        await node.start()
        payloads = [bytes([n]) * 50_000 for n in range(40)]
        async with Client(setup.address) as client:
            jobs = [await client.submit("work", payload=one) for one in payloads]
            # Segments with live bodies are kept there once snapshots cover them.
            await change_until(client, lambda: bool(list((tmp_path / "bodies").glob("*.log"))))
        await until(lambda: node.driver.snapshots.order is None)
        await node.stop()
        assert len(snapshots_in(tmp_path)) == 2
        assert bytes_in(tmp_path, "snapshots") + bytes_in(tmp_path, "spill") < 50_000
        again = MemberNode(setup, "127.0.0.1", port, tmp_path)
        await again.start()
        await until(lambda: again.driver.leading)
        state = again.driver.state
        for job, payload in zip(jobs, payloads, strict=True):
            assert payload in state.bodies.load(state.jobs[job.job_id].body)
        async with Client(setup.address) as client:
            for job in jobs:
                await client.cancel(job.job_id)
            await change_until(client, lambda: not list((tmp_path / "bodies").glob("*.log")))
        await again.stop()

    run(story())


def test_a_killed_member_comes_back_with_all_that_was_accepted(
    tmp_path: Path, members: Members
) -> None:
    async def story() -> None:
        (port,) = free_ports(1)
        process = members.start(tmp_path / "state", port)
        async with Client(f"127.0.0.1:{port}", timeout=DEADLINE_S) as client:
            jobs = [await client.submit("work", [str(n)]) for n in range(120)]
            await until(lambda: bool(snapshots_in(tmp_path / "state")))
        process.kill()  # a child that takes a snapshot must not hold port or lock
        process.wait()
        members.start(tmp_path / "state", port)
        async with Client(f"127.0.0.1:{port}", timeout=DEADLINE_S) as client:
            for job in jobs:
                view = await client.status(job.job_id)
                assert view is not None
                assert view.state == "waiting"

    run(story())


def test_a_second_member_is_told_who_is_there(tmp_path: Path, members: Members) -> None:
    async def story() -> None:
        one, two = free_ports(2)
        first = members.start(tmp_path / "state", one)
        async with Client(f"127.0.0.1:{one}", timeout=DEADLINE_S) as client:
            await client.submit("work")
        code, output = ended(members.start(tmp_path / "state", two))
        assert code == 1
        assert f"process {first.pid} uses the state directory" in output

    run(story())


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, which can be full."""
    folder = tmp_path / "small"
    folder.mkdir()
    if os.geteuid() != 0 or shutil.which("mount") is None or not mount(folder, "size=40m"):
        pytest.skip("a small file system cannot be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=False, capture_output=True)


def mount(folder: Path, options: str) -> bool:
    """Whether a tmpfs could be mounted."""
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def test_a_full_disk_stops_the_member_and_nothing_accepted_is_lost(
    small_disk: Path, members: Members
) -> None:
    async def story() -> None:
        (port,) = free_ports(1)
        process = members.start(small_disk / "state", port)
        accepted: list[bytes] = []

        async def fill() -> None:
            async with Client(f"127.0.0.1:{port}", timeout=DEADLINE_S) as client:
                while True:
                    accepted.append((await client.submit("work", payload=bytes(50_000))).job_id)

        filling = asyncio.create_task(fill())
        code, output = await asyncio.to_thread(ended, process)
        filling.cancel()
        with contextlib.suppress(asyncio.CancelledError, RollqError):
            await filling
        assert code == 1
        assert "disk_full" in output
        assert "make room and start the member again" in output
        assert len(accepted) > 100
        assert mount(small_disk, "remount,size=400m")
        members.start(small_disk / "state", port)
        async with Client(f"127.0.0.1:{port}", timeout=DEADLINE_S) as client:
            for job_id in accepted:
                assert await client.status(job_id) is not None

    run(story())


@pytest.mark.parametrize("stopped", [True, False], ids=["stopped", "killed while idle"])
def test_a_rotten_last_page_of_the_log_keeps_a_lonely_member_from_starting(
    members: Members, tmp_path: Path, stopped: bool
) -> None:
    """Twenty accepted jobs, one page of rot at the end of the log: it says so, and loses nothing
    in silence."""
    [port] = free_ports(1)
    state = tmp_path / "state"
    first = members.start(state, port)

    async def submit() -> None:
        async with Client(f"127.0.0.1:{port}", timeout=DEADLINE_S) as client:
            for number in range(20):
                await client.submit("calc", [str(number)])

    asyncio.run(asyncio.wait_for(submit(), DEADLINE_S))
    mark = state / "mark" / "synced"
    log = max((state / "wal").glob("*.log"))
    if stopped:
        first.terminate()
        assert first.wait(DEADLINE_S) == 0
    else:
        until_vouched(mark, log)
        first.kill()
        first.wait(DEADLINE_S)
    assert mark.exists()
    data = bytearray(log.read_bytes())
    end = len(data.rstrip(b"\0"))
    for place in range(max(0, end - 4_096), end):
        data[place] ^= 0x55
    log.write_bytes(data)
    again = members.start(state, port)
    said, _ = again.communicate(timeout=DEADLINE_S)
    assert again.returncode not in (0, None)
    assert "[disk_corrupt]" in said
    assert "backup" in said


def until_vouched(mark: Path, log: Path) -> None:
    """The member is idle, and has noted how far its log is synced."""

    def is_vouched() -> bool:
        if not mark.exists():
            return False
        data = mark.read_bytes()
        slots = [data[place + 8 : place + 16] for place in (0, 4_096)]
        vouched = max(int.from_bytes(slot, "little") for slot in slots)
        headers = find_headers(log.read_bytes(), 0, int(log.stem))
        return vouched >= max(header.seq for _, header in headers)

    procs.until(is_vouched)

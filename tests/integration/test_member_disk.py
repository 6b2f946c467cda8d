"""A member on a real disk: snapshots beside the loop, restarts, full disks, closed doors."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from rollq import Client
from rollq.base.errors import DiskError, ErrorCode
from rollq.roles.member.node import MemberNode
from rollq.roles.member.setup import MemberSetup
from rollq.store.snapshots import Snapshots
from tests.integration.small_grid import free_ports

DEADLINE_S = 20.0
ROOT = Path(__file__).parents[2]


class Process:
    """A member in a process of its own."""

    def __init__(self, state: Path, port: int, *limits: str, snapshot_entries: int = 20) -> None:
        self.port = port
        self.process = subprocess.Popen(
            [
                *limits,
                *(sys.executable, "-m", "rollq", "leader", str(port), "--state", str(state)),
                *("--snapshot-entries", str(snapshot_entries)),
            ],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        )

    def kill(self) -> None:
        """kill -9."""
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate(timeout=DEADLINE_S)

    def ended(self) -> tuple[int, str]:
        """Its exit code and all that it said, once it has ended by itself."""
        output, _ = self.process.communicate(timeout=DEADLINE_S)
        return self.process.returncode, output


@pytest.fixture
def processes() -> Iterator[list[Process]]:
    started: list[Process] = []
    yield started
    for each in started:
        if each.process.poll() is None:
            each.kill()


def run(work: Coroutine[Any, Any, None]) -> None:
    """On a loop of its own, with a deadline."""
    asyncio.run(asyncio.wait_for(work, DEADLINE_S))


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that somebody else does; the deadline is that of the test."""
    while not condition():
        await asyncio.sleep(0.01)


def snapshots_in(state: Path) -> list[str]:
    """The files of whole snapshots."""
    return sorted(path.name for path in (state / "snapshots").glob("*.snap"))


def test_snapshots_are_taken_while_turns_go_on(tmp_path: Path) -> None:
    async def story() -> None:
        (port,) = free_ports(1)
        setup = MemberSetup(f"127.0.0.1:{port}", snapshot_entries=10, hot_bytes_max=500)
        node = MemberNode(setup, "127.0.0.1", port, tmp_path)
        await node.start()
        async with Client(setup.address) as client:
            jobs = [await client.submit("work", [str(n)], queue="q") for n in range(60)]
        await until(lambda: len(snapshots_in(tmp_path)) == 2 and node.driver._order is None)
        bodies = {
            job.job_id: node.driver.state.bodies.load(node.driver.state.jobs[job.job_id].body)
            for job in jobs
        }
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

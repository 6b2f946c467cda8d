"""What the worker's integration tests share: programs on disk, a node, a member around a test."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import psutil

from rollq.roles.worker.node import WorkerNode
from rollq.roles.worker.setup import NodeSetup
from tests.integration.fake_member import FakeMember
from tests.integration.patience import DEADLINE_S


def write_program(directory: Path, name: str, text: str) -> None:
    """A shell script that a worker can run."""
    (directory / "exec").mkdir(exist_ok=True)
    path = directory / "exec" / name
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)


@contextlib.asynccontextmanager
async def running(
    directory: Path, member: FakeMember | None = None, **settings: Any
) -> AsyncIterator[tuple[WorkerNode, FakeMember]]:
    """A worker that was welcomed by a scripted member."""
    (directory / "exec").mkdir(exist_ok=True)
    member = member or FakeMember()
    if not member.port:
        await member.start()
    hellos = len(member.hellos)
    defaults: dict[str, Any] = {
        "exec_dir": directory / "exec",
        "jobs_dir": directory / "jobs",
        "state_dir": directory / "state",
        "slots": 2,
        "cpu_cap": 1.0,
    }
    node = WorkerNode(NodeSetup((member.address,), **(defaults | settings)))
    try:
        await node.start()
        await member.until(lambda: len(member.hellos) > hellos and member.granted)
        yield node, member
    finally:
        await node.stop()
        await member.stop()


async def eventually(condition: Callable[[], Any], seen: Callable[[], object] = str) -> Any:
    """Wait for what no message tells: a file, a process. `seen` is what a failure shows."""
    deadline_s = time.monotonic() + DEADLINE_S
    while not (value := condition()):
        assert time.monotonic() < deadline_s, f"it did not come about in time {seen()}"
        await asyncio.sleep(0.01)
    return value


def lines_of(path: Path, count: int = 1) -> list[str]:
    """The lines of a file once there are enough; nothing before."""
    lines = path.read_text().splitlines() if path.exists() else []
    return lines if len(lines) >= count else []


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def job_directories(directory: Path) -> list[str]:
    """Directories of jobs that are still there."""
    return [name for one in (directory / "jobs").iterdir() for name in os.listdir(one)]

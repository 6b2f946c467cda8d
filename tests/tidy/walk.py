"""The way of one job through the code: which functions run, from submit until its result is
confirmed. Member, worker and client are in one process and on one loop, with real sockets and a
real disk; the worker runs the function `noop` of the sample app in its loop."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType

from rollq import Client
from rollq.net.ports import free_ports
from rollq.roles.member.node import MemberNode
from rollq.roles.member.setup import MemberSetup
from rollq.roles.worker.node import WorkerNode
from rollq.roles.worker.setup import NodeSetup

JOBS = 8  # that are looked at; what not all of them ran was a timer's
AFTER_S = 0.2  # for what follows the result: its confirmation is agreed on by the group
PACKAGE = f"{Path(sys.modules['rollq'].__file__ or '').parent}/"


@dataclass(frozen=True)
class Walk:
    """What one job ran."""

    functions: frozenset[tuple[str, str]]  # file in the package, qualified name
    calls: int
    file_changes: int

    @property
    def files(self) -> frozenset[str]:
        """The files that a reader of it opens."""
        return frozenset(file for file, _ in self.functions)


def walk() -> Walk:
    """The way of a job on a grid that is up and has run some."""
    with tempfile.TemporaryDirectory() as directory:
        walks = asyncio.run(_walks(Path(directory)))
    return Walk(
        frozenset.intersection(*(one.functions for one in walks)),
        min(one.calls for one in walks),
        min(one.file_changes for one in walks),
    )


async def _walks(directory: Path) -> list[Walk]:
    recorder = Recorder()
    threading.setprofile(recorder)  # of threads to come: those that write to the disk
    port = free_ports(1)[0]
    address = f"127.0.0.1:{port}"
    member = MemberNode(MemberSetup(address), "127.0.0.1", port, directory / "member")
    exec_dir = directory / "exec"
    exec_dir.mkdir()
    setup = NodeSetup(
        (address,),
        exec_dir=exec_dir,
        jobs_dir=directory / "jobs",
        state_dir=directory / "worker",
        apps=("tests.integration.sample_app",),
        slots=2,
        cpu_cap=1.0,
    )
    worker = WorkerNode(setup)
    await member.start()
    await worker.start()
    found: list[Walk] = []
    try:
        async with Client(address) as client:
            await (await client.submit("noop", payload=b"")).result(30)
            for _ in range(JOBS):
                await asyncio.sleep(AFTER_S)
                recorder.begin()
                await (await client.submit("noop", payload=b"")).result(30)
                await asyncio.sleep(AFTER_S)
                found.append(recorder.end())
    finally:
        threading.setprofile(None)
        await worker.stop()
        await member.stop()
    return found


class Recorder:
    """A profile function that notes calls of the package while it is told to."""

    def __init__(self) -> None:
        self._is_on = False
        self._codes: dict[CodeType, int] = {}
        self._changes = 0
        self._last_file = ""

    def begin(self) -> None:
        """Note calls from now on."""
        self._codes, self._changes, self._last_file = {}, 0, ""
        self._is_on = True
        sys.setprofile(self)

    def end(self) -> Walk:
        """What was noted."""
        sys.setprofile(None)
        self._is_on = False
        functions = {(code.co_filename, code.co_qualname) for code in self._codes}
        return Walk(
            frozenset((file.removeprefix(PACKAGE), name) for file, name in functions),
            sum(self._codes.values()),
            self._changes,
        )

    def __call__(self, frame: FrameType, event: str, arg: object) -> None:
        """What the interpreter calls."""
        code = frame.f_code
        if not self._is_on or event != "call" or not code.co_filename.startswith(PACKAGE):
            return
        self._codes[code] = self._codes.get(code, 0) + 1
        if code.co_filename != self._last_file:
            self._changes += 1
            self._last_file = code.co_filename

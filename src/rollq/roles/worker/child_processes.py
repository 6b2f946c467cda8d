"""The processes that a worker answers for: who they are, and how all of them are ended.

A program leads a process group, so one signal reaches all that stayed in it. What left the group
is found by a mark in its environment: orphans become our children (we are a subreaper) and are
looked for a few times a second; before a kill the tree is walked. A guard process ends everything
if we are killed ourselves. None of this costs a program that behaves anything. In a sandbox the
kernel knows what belongs together, and nothing escapes.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import secrets
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import psutil  # type: ignore[import-untyped]

from rollq.roles.worker import guard_main
from rollq.roles.worker.environment import INTERPRETER, clean_environ
from rollq.roles.worker.sandbox.box import Box
from rollq.roles.worker.sandbox.sandbox import NO_PLACE, Place, Sandbox
from rollq.roles.worker.spawn import Cwd, ProgramFd, Spawner, environ_bytes, merged

PR_SET_CHILD_SUBREAPER: Final = 36
STAT_GROUP: Final = 2  # of the fields of /proc/PID/stat that follow the name in brackets
RUN: Final = b"ROLLQ_RUN="


class Reaped(NamedTuple):
    """A program that was waited for."""

    status: int
    usage: Any
    causes: list[str]  # what its end was due to, beside itself
    box: Box | None = None


class ChildProcesses:
    """Starts, lists and ends processes. `open` before the first start, `close` after the last.

    Args:
        environ: What all of them see, as NAME=value; ours if it is left out.
        sandbox: Layers that they get, if they need more than they inherit. Opened and closed here.
    """

    def __init__(
        self, environ: Sequence[bytes] | None = None, sandbox: Sandbox | None = None
    ) -> None:
        self._mark = f"ROLLQ_WORKER={secrets.token_hex(8)}".encode()
        self._environ = [*(environ_bytes() if environ is None else environ), self._mark]
        self._spawner = Spawner(self._environ)
        self._sandbox = sandbox
        self._pids: dict[int, bytes] = {}  # with the mark of the run
        self._run_count = 0
        self._emptied: asyncio.Future[None] | None = None
        self._guard_fd = -1
        self._guard_pid = 0
        self._reaps_orphans = False
        self._children_path = f"/proc/self/task/{os.getpid()}/children"
        self._group = os.getpgrp()

    def open(self) -> None:
        """Open the sandbox, start the guard and ask for orphans.

        Raises:
            LocalError: NO_SANDBOX; a layer that is needed cannot be had.
        """
        if self._guard_fd >= 0:
            return
        groups: list[str] = []
        if self._sandbox is not None:
            self._sandbox.open()
            groups = self._sandbox.groups
        if sys.platform == "linux" and os.path.exists(self._children_path):
            libc = ctypes.CDLL(None)
            self._reaps_orphans = libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
        reading, self._guard_fd = os.pipe()
        argv = [sys.executable, "-I", "-S", str(Path(guard_main.__file__))]
        with open(os.devnull, "wb") as null:
            stdio = (reading, null.fileno(), null.fileno())
            # Without the mark: the guard must not find itself. And without what we may hold in our
            # environment: programs may look into that of the guard.
            self._guard_pid = Spawner(clean_environ(os.environ, INTERPRETER)).spawn(
                [*map(os.fsencode, argv), self._mark, *map(os.fsencode, groups)], (), b"/", stdio
            )
        os.close(reading)

    async def wait_empty(self) -> None:
        """Return when every program that was started has been reaped."""
        if self._pids:
            self._emptied = asyncio.get_running_loop().create_future()
            await self._emptied

    def close(self) -> None:
        """Let the guard go; it ends whatever is left."""
        if self._guard_fd >= 0:
            os.close(self._guard_fd)
            self._guard_fd = -1
            os.waitpid(self._guard_pid, 0)
        if self._sandbox is not None:
            self._sandbox.close()

    def spawn(
        self,
        argv: Sequence[bytes],
        env: Sequence[bytes],
        cwd: Cwd,
        stdio: tuple[int, int, int],
        own: Mapping[str, str] | None = None,
        *,
        program: ProgramFd | None = None,
        place: Place = NO_PLACE,
    ) -> int:
        """Start a program. `own` are the variables that its job asked for, `program` is what is
        started, if it is not what has the path now, and `place` is for layers.

        Raises:
            NotLayeredError: a layer cannot be put on; it was not started.
            OSError: why it cannot be started.
        """
        self._run_count += 1
        run = RUN + b"%d" % self._run_count
        sandbox = self._sandbox
        if sandbox is not None and sandbox.is_launching:
            environ = merged((*self._environ, run, *env), own or {})
            pid = sandbox.launch(argv, environ, cwd, stdio, place=place, program=program)
        else:
            pid = self._spawner.spawn(argv, (run, *env), cwd, stdio, own, program=program)
        self._pids[pid] = run
        return pid

    def signal_group(self, pid: int, number: signal.Signals) -> None:
        """Send a signal to a program and all that stayed in its group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, number)

    def kill(self, pid: int) -> None:
        """End a program and all its descendants, in its group or not."""
        children: list[psutil.Process] = []
        with contextlib.suppress(psutil.Error):
            children = psutil.Process(pid).children(recursive=True)
        # The group first: a parent must not see its children die and go on.
        self.signal_group(pid, signal.SIGKILL)
        for child in children:
            with contextlib.suppress(psutil.Error):
                child.kill()
        box = self.box_of(pid)
        if box is not None:
            box.kill()

    def box_of(self, pid: int) -> Box | None:
        """The layers of a program; None: it has only what it inherited."""
        return None if self._sandbox is None else self._sandbox.box_of(pid)

    def end_over_limits(self) -> None:
        """End programs that use more than they may, where nothing but looking tells."""
        if self._sandbox is not None:
            for pid in self._sandbox.over_limits():
                self.kill(pid)

    def reap(self, pid: int) -> Reaped:
        """Wait for a program that has exited; what is left of its group and sandbox is ended first.

        The dead leader still holds its number here, so that the signal cannot hit a stranger.
        """
        self.signal_group(pid, signal.SIGKILL)
        box = self.box_of(pid)
        if box is not None:
            box.kill()
        del self._pids[pid]
        _, status, usage = os.wait4(pid, 0)
        causes: list[str] = []
        if self._sandbox is not None and box is not None:
            causes = box.why_ended(status, usage)
            self._sandbox.buried(pid)
        if self._emptied is not None and not self._pids and not self._emptied.done():
            self._emptied.set_result(None)
        return Reaped(status, usage, causes, box)

    def sweep(self) -> None:
        """End orphans of runs that are over, and bury those that ended by themselves."""
        ours = [self._guard_pid]
        if self._sandbox is not None:
            self._sandbox.settle()
            ours += self._sandbox.pids
        if not self._reaps_orphans:
            return
        with open(self._children_path, "rb") as file:
            pids = [int(word) for word in file.read().split()]
        for pid in pids:
            if pid not in self._pids and pid not in ours:
                self._sweep_one(pid)

    def _sweep_one(self, pid: int) -> None:
        """An orphan, or a child that an application's function started: those are left alone."""
        with contextlib.suppress(OSError, IndexError):
            environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            runs = [entry for entry in environ if entry.startswith(RUN)]
            if self._mark in environ and runs and runs[0] not in self._pids.values():
                os.kill(pid, signal.SIGKILL)
            fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
            if fields[0] == b"Z" and int(fields[STAT_GROUP]) != self._group:
                os.waitpid(pid, os.WNOHANG)

"""The child processes of a worker: starting, listing and ending them.

A program leads a process group, so one signal reaches all processes in it. Processes that left the
group are found by a mark in their environment: orphans become our children (we are a subreaper) and
are searched a few times a second; before a kill the process tree is walked. A guard process ends
everything if the worker is killed. A well-behaved program pays nothing for this. In a sandbox the
kernel tracks all processes of a job.
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

import psutil

from rollq.roles.worker import guard_main
from rollq.roles.worker.environment import INTERPRETER, clean_environ
from rollq.roles.worker.sandbox.box import Box
from rollq.roles.worker.sandbox.sandbox import NO_PLACE, Place, Sandbox
from rollq.roles.worker.spawn import Cwd, ProgramFd, Spawner, environ_bytes, merged

PR_SET_CHILD_SUBREAPER: Final = 36
STAT_GROUP: Final = 2  # index among the fields of /proc/PID/stat after the name in brackets
RUN: Final = b"ROLLQ_RUN="
LEFT_SWEEPS: Final = 20  # that a zombie is left to a function that may wait for it


class Reaped(NamedTuple):
    """A program that has exited and was waited for."""

    status: int
    usage: Any
    causes: list[str]  # causes of its end outside of the program
    box: Box | None = None


class ChildProcesses:
    """Starts, lists and ends processes. `open` before the first start, `close` after the last.

    Args:
        environ: Environment of all programs, as NAME=value; by default that of this process.
        sandbox: Further layers for programs. Opened and closed here.
    """

    def __init__(
        self, environ: Sequence[bytes] | None = None, sandbox: Sandbox | None = None
    ) -> None:
        self._mark = f"ROLLQ_WORKER={secrets.token_hex(8)}".encode()
        self._environ = [*(environ_bytes() if environ is None else environ), self._mark]
        self._spawner = Spawner(self._environ)
        self._sandbox = sandbox
        self._pids: dict[int, bytes] = {}  # running programs, with the marks of their runs
        self._run_count = 0
        self._emptied: asyncio.Future[None] | None = None
        self._guard_fd = -1
        self._guard_pid = 0
        self._reaps_orphans = False
        self._children_path = f"/proc/self/task/{os.getpid()}/children"
        self._group = os.getpgrp()
        self._zombies: dict[int, int] = {}  # leaders of their own groups: sweeps that saw them

    def open(self) -> None:
        """Open the sandbox, start the guard and become a subreaper.

        Raises:
            LocalError: NO_SANDBOX: a required layer is not available.
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
            # Without the mark, so that the guard does not end itself. And without our own
            # variables, which may be secret: programs can read the guard's environment.
            self._guard_pid = Spawner(clean_environ(os.environ, INTERPRETER)).spawn(
                [*map(os.fsencode, argv), self._mark, *map(os.fsencode, groups)], (), b"/", stdio
            )
        os.close(reading)

    async def wait_empty(self) -> None:
        """Wait until every started program has been reaped."""
        if self._pids:
            self._emptied = asyncio.get_running_loop().create_future()
            await self._emptied

    def close(self) -> None:
        """Stop the guard, which ends all remaining processes."""
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
        """Start a program. `own`: variables of its job; `program`: an open file to start instead of
        the path; `place`: where layers apply.

        Raises:
            NotLayeredError: a layer cannot be applied; the program was not started.
            OSError: it cannot be started.
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
        """Send a signal to a program and its process group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, number)

    def kill(self, pid: int) -> None:
        """Kill a program and all its descendants, inside its group or not."""
        children: list[psutil.Process] = []
        with contextlib.suppress(psutil.Error):
            children = psutil.Process(pid).children(recursive=True)
        # The group first: a parent must not react to the death of its children.
        self.signal_group(pid, signal.SIGKILL)
        for child in children:
            with contextlib.suppress(psutil.Error):
                child.kill()
        box = self.box_of(pid)
        if box is not None:
            box.kill()

    def box_of(self, pid: int) -> Box | None:
        """The layers of a program; None: only inherited ones."""
        return None if self._sandbox is None else self._sandbox.box_of(pid)

    def end_over_limits(self) -> None:
        """Kill programs over limits that only polling detects."""
        if self._sandbox is not None:
            for pid in self._sandbox.over_limits():
                self.kill(pid)

    def reap(self, pid: int) -> Reaped:
        """Wait for a program that has exited; the rest of its group and sandbox is killed first.

        Until then the zombie keeps its pid, so the signal cannot reach another process.
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
            self._sandbox.reaped(pid)
        if self._emptied is not None and not self._pids and not self._emptied.done():
            self._emptied.set_result(None)
        return Reaped(status, usage, causes, box)

    def sweep(self) -> None:
        """Kill orphans of ended runs, and reap exited ones."""
        ours = [self._guard_pid]
        if self._sandbox is not None:
            self._sandbox.settle()
            ours += self._sandbox.pids
        if not self._reaps_orphans:
            return
        with open(self._children_path, "rb") as file:
            pids = [int(word) for word in file.read().split()]
        present = set(pids)  # a job may leave very many
        self._zombies = {pid: count for pid, count in self._zombies.items() if pid in present}
        for pid in pids:
            if pid not in self._pids and pid not in ours:
                self._sweep_one(pid)

    def _sweep_one(self, pid: int) -> None:
        """Kill or reap one child; processes started by functions of an application are left
        alone: they are in our group, or lead one of their own, as some orphans do."""
        with contextlib.suppress(OSError, IndexError):
            fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
            if fields[0] != b"Z":
                self._kill_if_orphan(pid)
                return
            group = int(fields[STAT_GROUP])
            if group == self._group:
                return
            self._zombies[pid] = self._zombies.get(pid, 0) + 1
            if group != pid or self._zombies[pid] > LEFT_SWEEPS:
                os.waitpid(pid, os.WNOHANG)

    def _kill_if_orphan(self, pid: int) -> None:
        """Kill a process of an ended run. Raises OSError; a zombie has no environment."""
        environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        runs = [entry for entry in environ if entry.startswith(RUN)]
        if self._mark in environ and runs and runs[0] not in self._pids.values():
            os.kill(pid, signal.SIGKILL)

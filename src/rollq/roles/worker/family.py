"""The processes that a worker answers for: who they are, and how all of them are ended.

A program is the leader of a session, so one signal reaches its whole group. What left the group
is found by the mark in its environment: orphans become our children (we are a subreaper), and at
an ordinary end they are looked for there; before a kill the tree is walked. A guard process ends
everything if we are killed ourselves.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import os
import secrets
import signal
import sys
from pathlib import Path
from typing import Final

import psutil  # type: ignore[import-untyped]

from rollq.roles.worker import guard_main
from rollq.roles.worker.spawn import Spawner, environ_bytes

log = logging.getLogger("rollq.worker")

PR_SET_CHILD_SUBREAPER: Final = 36
STAT_SESSION: Final = 3  # of the fields of /proc/PID/stat that follow the name in brackets


class Family:
    """Starts, lists and ends processes. `open` before the first start, `close` after the last."""

    def __init__(self) -> None:
        self.mark = secrets.token_hex(8)
        self._spawner = Spawner([*environ_bytes(), f"ROLLQ_WORKER={self.mark}".encode()])
        self._pids: dict[int, None] = {}
        self._emptied: asyncio.Future[None] | None = None
        self._guard_fd = -1
        self._guard_pid = 0
        self._reaps_orphans = False
        self._children_path = f"/proc/self/task/{os.getpid()}/children"
        self._session = os.getsid(0)

    def open(self) -> None:
        """Start the guard and ask for orphans."""
        if self._guard_fd >= 0:
            return
        if sys.platform == "linux" and os.path.exists(self._children_path):
            libc = ctypes.CDLL(None)
            self._reaps_orphans = libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
        reading, self._guard_fd = os.pipe()
        os.set_blocking(self._guard_fd, False)
        argv = [sys.executable, "-I", "-S", str(Path(guard_main.__file__)), self.mark]
        plain = Spawner(environ_bytes())  # the guard must not find itself
        with open(os.devnull, "wb") as null:
            stdio = (reading, null.fileno(), null.fileno())
            self._guard_pid = plain.spawn([os.fsencode(arg) for arg in argv], (), b"/", stdio)
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
            if self._guard_pid:
                os.waitpid(self._guard_pid, 0)

    def spawn(
        self, argv: list[bytes], extra_env: list[bytes], cwd: bytes, stdio: tuple[int, int, int]
    ) -> int:
        """Start a program; raises OSError."""
        pid = self._spawner.spawn(argv, extra_env, cwd, stdio)
        self._pids[pid] = None
        self._tell(b"+%d\n" % pid)
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

    def reap(self, pid: int) -> tuple[int, object]:
        """Wait for a program that has exited; ends what is left of its group first.

        The dead leader still holds its number here, so that the signal cannot hit a stranger.
        """
        self.signal_group(pid, signal.SIGKILL)
        del self._pids[pid]
        self._tell(b"-%d\n" % pid)
        _, status, usage = os.wait4(pid, 0)
        if self._emptied is not None and not self._pids and not self._emptied.done():
            self._emptied.set_result(None)
        return status, usage

    def sweep(self, run_mark: bytes) -> None:
        """End orphans that carry this mark, and bury those that ended by themselves."""
        if not self._reaps_orphans:
            return
        with open(self._children_path, "rb") as file:
            pids = [int(word) for word in file.read().split()]
        if len(pids) <= len(self._pids) + 1:
            return
        for pid in pids:
            if pid not in self._pids and pid != self._guard_pid:
                self._bury(pid, run_mark)

    def _bury(self, pid: int, run_mark: bytes) -> None:
        """An orphan, or a child that an application's function started: those are left alone."""
        with contextlib.suppress(OSError):
            if run_mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, os.WNOHANG)  # if it takes its time, a later sweep buries it
                return
        with contextlib.suppress(OSError, IndexError):
            fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
            if fields[0] == b"Z" and int(fields[STAT_SESSION]) != self._session:
                os.waitpid(pid, os.WNOHANG)

    def _tell(self, line: bytes) -> None:
        try:
            os.write(self._guard_fd, line)
        except OSError as error:
            if self._guard_pid:
                log.warning("the guard is gone (%s): programs may outlive this worker", error)
                os.waitpid(self._guard_pid, os.WNOHANG)
                self._guard_pid = 0

"""One program in its layers, from its start until all its processes are gone, with the causes of
its end."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from dataclasses import dataclass, field
from typing import Any, Final

from rollq.base.amounts import size_text
from rollq.roles.worker.sandbox.cgroups import JobCgroup
from rollq.roles.worker.sandbox.layers import SandboxSetup

# Messages of programs when the system refuses memory, a process, or space in a file.
NO_MEMORY: Final = re.compile(
    r"MemoryError|Cannot allocate memory|[Oo]ut of memory|bad_alloc|memory exhausted"
)
NO_FORK: Final = re.compile(r"Resource temporarily unavailable|Cannot fork|can't start new thread")
FILE_TOO_LARGE: Final = re.compile(r"File too large|File size limit")


@dataclass(slots=True)
class Box:
    """The layers of one running program."""

    pid: int
    setup: SandboxSetup
    init_pid: int = 0
    group: JobCgroup | None = None
    user: int = 0  # a user of its own; 0: none
    causes: list[str] = field(default_factory=list)  # why the worker killed it

    def kill(self) -> None:
        """Kill all processes in it."""
        if self.init_pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.init_pid, signal.SIGKILL)
        if self.group is not None:
            self.group.kill()

    def why_ended(self, status: int, usage: Any) -> list[str]:
        """The causes of its end outside of the program; `status` is its wait status."""
        setup = self.setup
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        causes = [*self.causes, *self._counted(is_killed=number == signal.SIGKILL)]
        used_s = usage.ru_utime + usage.ru_stime
        is_late = number == signal.SIGKILL and used_s >= setup.cpu_s  # SIGXCPU was ignored
        if setup.cpu_s and (number == signal.SIGXCPU or is_late):
            causes.append(f"killed, limit of {setup.cpu_s} s of CPU time exceeded")
        if setup.disk_bytes and number == signal.SIGXFSZ:
            causes.append(f"killed, disk limit of {size_text(setup.disk_bytes)} exceeded by a file")
        return causes

    def why_call_failed(self, stderr: str) -> list[str]:
        """The causes of a failed function call, whose process lives on."""
        return [*self._counted(is_killed=False), *self.why_failed(stderr)]

    def _counted(self, *, is_killed: bool) -> list[str]:
        """The causes counted by the kernel; `is_killed`: the program itself was killed."""
        if self.group is None:
            return []
        causes = []
        killed, refused = self.group.oom_kills(), self.group.forks_refused()
        if killed:
            limit = size_text(self.setup.memory_bytes)
            memory = f"memory limit of {limit} exceeded (out of memory)"
            if is_killed:
                causes.append(f"killed, {memory}")
            else:
                causes.append(f"{memory}: {killed} of its processes killed")
        if refused:
            limit = f"limit of {self.setup.pids_max} processes reached"
            causes.append(f"{limit}: {refused} more refused")
        return causes

    def why_failed(self, stderr: str) -> list[str]:
        """The causes of a failure by the program's own messages, where the kernel counts nothing: a
        limit of the process made a system call fail."""
        setup = self.setup
        grouped = self.group is not None
        causes = []
        if setup.memory_bytes and not grouped and NO_MEMORY.search(stderr):
            causes.append(f"memory limit of {size_text(setup.memory_bytes)} reached")
        if setup.pids_max and not grouped and NO_FORK.search(stderr):
            causes.append(f"limit of {setup.pids_max} processes reached")
        if setup.disk_bytes and FILE_TOO_LARGE.search(stderr):
            causes.append(f"disk limit of {size_text(setup.disk_bytes)} reached by a file")
        return causes

    def is_gone(self, *, wait: bool = False) -> bool:
        """Whether all its processes are gone, after its program was reaped. The init ends last, and
        with it everything in its namespace."""
        if self.init_pid:
            try:
                pid, _ = os.waitpid(self.init_pid, 0 if wait else os.WNOHANG)
            except ChildProcessError:  # reaped with the orphans
                pid = self.init_pid
            if pid == 0:
                return False
            self.init_pid = 0
        if self.group is not None:
            self.group.kill()
            if not self.group.remove():
                return False
            self.group = None
        return not self.user or not _end_processes_of(self.user)


def _end_processes_of(user: int) -> int:
    """Kill all processes of a job's user; returns how many there were."""
    count = 0
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc"):
            with contextlib.suppress(OSError):
                if name.isdecimal() and os.stat(f"/proc/{name}").st_uid == user:
                    count += 1
                    os.kill(int(name), signal.SIGKILL)
    return count

"""One program in its layers, from its start until nothing is left of it, and what its end was due
to."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from dataclasses import dataclass, field
from typing import Any, Final

from rollq.base.amounts import size_text
from rollq.roles.worker.sandbox.cgroups import JobGroup
from rollq.roles.worker.sandbox.layers import SandboxSetup

# What programs say when the system refuses them memory, a process, or room in a file.
NO_MEMORY: Final = re.compile(
    r"MemoryError|Cannot allocate memory|[Oo]ut of memory|bad_alloc|memory exhausted"
)
NO_FORK: Final = re.compile(r"Resource temporarily unavailable|Cannot fork|can't start new thread")
FILE_TOO_LARGE: Final = re.compile(r"File too large|File size limit")


@dataclass(slots=True)
class Box:
    """What belongs to a program that runs in layers."""

    pid: int
    setup: SandboxSetup
    init_pid: int = 0
    group: JobGroup | None = None
    user: int = 0  # of its own; 0: it has none
    causes: list[str] = field(default_factory=list)  # why we ended it

    def kill(self) -> None:
        """End all that is in it, however it hides."""
        if self.init_pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.init_pid, signal.SIGKILL)
        if self.group is not None:
            self.group.kill()

    def why_ended(self, status: int, usage: Any) -> list[str]:
        """What its end is due to, beside itself; `status` is what the system says of it."""
        setup = self.setup
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        told = [*self.causes, *self._counted(is_killed=number == signal.SIGKILL)]
        used_s = usage.ru_utime + usage.ru_stime
        is_late = number == signal.SIGKILL and used_s >= setup.cpu_s  # it did not heed the first
        if setup.cpu_s and (number == signal.SIGXCPU or is_late):
            told.append(f"killed, limit of {setup.cpu_s} s of CPU time exceeded")
        if setup.disk_bytes and number == signal.SIGXFSZ:
            told.append(f"killed, disk limit of {size_text(setup.disk_bytes)} exceeded by a file")
        return told

    def why_call_failed(self, stderr: str) -> list[str]:
        """What the failure of a function is due to, whose process lives on."""
        return [*self._counted(is_killed=False), *self.why_failed(stderr)]

    def _counted(self, *, is_killed: bool) -> list[str]:
        """What the kernel counts; `is_killed`: its first process was."""
        if self.group is None:
            return []
        told = []
        killed, refused = self.group.oom_kills(), self.group.forks_refused()
        if killed:
            limit = size_text(self.setup.memory_bytes)
            memory = f"memory limit of {limit} exceeded (out of memory)"
            if is_killed:
                told.append(f"killed, {memory}")
            else:
                told.append(f"{memory}: {killed} of its processes killed")
        if refused:
            limit = f"limit of {self.setup.pids_max} processes reached"
            told.append(f"{limit}: {refused} more refused")
        return told

    def why_failed(self, stderr: str) -> list[str]:
        """What the failure of a program is due to by its own words, where the system counts
        nothing: a limit of the process itself made a call fail."""
        setup = self.setup
        grouped = self.group is not None
        told = []
        if setup.memory_bytes and not grouped and NO_MEMORY.search(stderr):
            told.append(f"memory limit of {size_text(setup.memory_bytes)} reached")
        if setup.pids_max and not grouped and NO_FORK.search(stderr):
            told.append(f"limit of {setup.pids_max} processes reached")
        if setup.disk_bytes and FILE_TOO_LARGE.search(stderr):
            told.append(f"disk limit of {size_text(setup.disk_bytes)} reached by a file")
        return told

    def is_gone(self, *, wait: bool = False) -> bool:
        """Whether nothing is left of it, once its program is buried. The init goes last, and
        with it everything in its namespace."""
        if self.init_pid:
            try:
                pid, _ = os.waitpid(self.init_pid, 0 if wait else os.WNOHANG)
            except ChildProcessError:  # buried with the orphans
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
    """End all processes of a job's user; returns how many there were."""
    count = 0
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc"):
            with contextlib.suppress(OSError):
                if name.isdecimal() and os.stat(f"/proc/{name}").st_uid == user:
                    count += 1
                    os.kill(int(name), signal.SIGKILL)
    return count

"""The guard: a small process that outlives a killed worker just long enough to clean up.

It waits for the end of a pipe that only the worker holds. Then the worker is gone, however it
went, and every process that carries its mark in the environment is ended, with its whole group.
Groups of the kernel that the worker made for its jobs are emptied and removed.
Run by path with an isolated interpreter: imports nothing of ours.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

ROUNDS_MAX = 20  # what is ended in one round may have started something just before
GROUP_TRIES = 200  # what was ended takes a moment to be gone
GROUP_PAUSE_S = 0.005


def main(mark: str, groups: list[str]) -> None:
    """Wait until the worker is gone, then end what it left running."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while os.read(0, 1):
        pass
    for _ in range(ROUNDS_MAX):
        pids = marked(mark.encode())
        for pid in pids:
            end(pid)
        if not pids:
            break
    for group in groups:
        with contextlib.suppress(OSError):
            for name in os.listdir(group):
                remove_group(os.path.join(group, name))
        remove_group(group)


def marked(entry: bytes) -> list[int]:
    """Processes with this entry in their environment; none where there is no /proc."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdecimal() and int(name) != os.getpid():
                with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
                    if entry in file.read().split(b"\0"):
                        found.append(int(name))
    return found


def end(pid: int) -> None:
    """End a process and its group, which is never ours: we have one of our own."""
    with contextlib.suppress(OSError):
        group = os.getpgid(pid)
        if group != os.getpgrp():
            os.killpg(group, signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)


def remove_group(folder: str) -> None:
    """End what is in a group of the kernel, and remove it."""
    if not os.path.isdir(folder):
        return
    for _ in range(GROUP_TRIES):
        with contextlib.suppress(OSError), open(os.path.join(folder, "cgroup.procs")) as file:
            for word in file.read().split():
                os.kill(int(word), signal.SIGKILL)
        with contextlib.suppress(OSError):
            os.rmdir(folder)
            return
        time.sleep(GROUP_PAUSE_S)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])

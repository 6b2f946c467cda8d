"""The guard: a small process that outlives a killed worker just long enough to clean up.

It waits for the end of a pipe that only the worker holds. When the worker is gone, it kills every
process with the worker's mark in its environment, with its process group, and empties and removes
the worker's control groups. Run by path with an isolated interpreter: imports nothing of rollq.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

ROUNDS_MAX = 20  # a killed process may have started another just before
GROUP_TRIES = 200  # killed processes take a moment to exit
GROUP_PAUSE_S = 0.005


def main(mark: str, groups: list[str]) -> None:
    """Wait until the worker is gone, then kill its remaining processes."""
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
    """Processes with this entry in their environment; empty without /proc."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdecimal() and int(name) != os.getpid():
                with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
                    if entry in file.read().split(b"\0"):
                        found.append(int(name))
    return found


def end(pid: int) -> None:
    """Kill a process and its group, which is never that of the guard."""
    with contextlib.suppress(OSError):
        group = os.getpgid(pid)
        if group != os.getpgrp():
            os.killpg(group, signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)


def remove_group(folder: str) -> None:
    """Kill the processes in a control group, and remove it."""
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

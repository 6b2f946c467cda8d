"""The guard: a small process that outlives a killed worker just long enough to clean up.

It reads `+PID` and `-PID` lines from the worker. When the pipe ends (the worker is gone, however
it went), it ends every process group that is still listed, and every process that carries the
worker's mark in its environment. Run by path with an isolated interpreter: imports nothing of ours.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys


def main(mark: str) -> None:
    """Follow the worker until it is gone, then end what it left running."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    running: dict[int, None] = {}
    for line in sys.stdin.buffer:
        if line[:1] == b"+":
            running[int(line[1:])] = None
        else:
            running.pop(int(line[1:]), None)
    for pid in running:
        with contextlib.suppress(OSError):
            os.killpg(pid, signal.SIGKILL)
    for pid in marked(f"ROLLQ_WORKER={mark}".encode()):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


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


if __name__ == "__main__":
    main(sys.argv[1])

"""Noticing that a process exited, without reaping it, and without a thread where that can be."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable


def watch_exit(loop: asyncio.AbstractEventLoop, pid: int, on_exit: Callable[[], None]) -> None:
    """Call `on_exit` once, in the loop, when `pid` (a child of ours) has exited."""
    try:
        fd = os.pidfd_open(pid)
    except (AttributeError, OSError):  # no such call here, or no file descriptor left
        _watch_by_thread(loop, pid, on_exit)
        return

    def readable() -> None:
        loop.remove_reader(fd)
        os.close(fd)
        on_exit()

    loop.add_reader(fd, readable)


def _watch_by_thread(
    loop: asyncio.AbstractEventLoop, pid: int, on_exit: Callable[[], None]
) -> None:
    def wait() -> None:
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(on_exit)

    threading.Thread(target=wait, name=f"wait-{pid}", daemon=True).start()

"""Notices the exit of a process without reaping it, and without a thread if possible."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Callable

from rollq.roles.worker.fd_poller import FdPoller


def watch_exit(poller: FdPoller, pid: int, on_exit: Callable[[], None]) -> None:
    """Call `on_exit` once, in the loop, when `pid` (a child of ours) has exited."""
    try:
        fd = os.pidfd_open(pid)
    except (AttributeError, OSError):  # no pidfd_open here, or no descriptor left
        _watch_by_thread(poller.loop, pid, on_exit)
        return

    def readable() -> None:
        poller.close_fd(fd)
        on_exit()

    poller.add(fd, readable)


def leave_exits_to_others() -> None:
    """For a thread of ours that starts no process: block SIGCHLD.

    While the loop starts a program it blocks signals, and the system would wake another thread
    for each exit."""
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGCHLD,))


def _watch_by_thread(
    loop: asyncio.AbstractEventLoop, pid: int, on_exit: Callable[[], None]
) -> None:
    def wait() -> None:
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(on_exit)

    threading.Thread(target=wait, name=f"wait-{pid}", daemon=True).start()

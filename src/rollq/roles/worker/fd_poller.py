"""Descriptors of short-lived processes, behind one that the loop knows.

A loop makes a handle for every descriptor it watches, which costs a short program as much as
writing its result does. Here one more costs a system call.
"""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import Callable
from typing import Final

READY_MAX: Final = 64  # handled in one turn; the rest is still ready in the next


class FdPoller:
    """Calls back, in the loop, while there is something to read."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._on_ready: dict[int, Callable[[], None]] = {}
        self._epoll = select.epoll() if hasattr(select, "epoll") else None
        if self._epoll is not None:
            loop.add_reader(self._epoll.fileno(), self._poll)

    def add(self, fd: int, on_ready: Callable[[], None]) -> None:
        """FdPoller a descriptor until it is taken away."""
        if self._epoll is None:
            self.loop.add_reader(fd, on_ready)
        else:
            self._epoll.register(fd, select.EPOLLIN)
            self._on_ready[fd] = on_ready

    def close_fd(self, fd: int) -> None:
        """Take a descriptor away and close it."""
        if self._epoll is None:
            self.loop.remove_reader(fd)
        elif self._on_ready.pop(fd, None) is not None:
            # Closing does not do it: a program that is just being loaded may hold it for a moment.
            self._epoll.unregister(fd)
        os.close(fd)

    def close(self) -> None:
        """FdPoller nothing any more. Safe to call twice."""
        if self._epoll is not None and not self._epoll.closed:
            self.loop.remove_reader(self._epoll.fileno())
            self._epoll.close()

    def _poll(self) -> None:
        assert self._epoll is not None, "it is what is ready"
        on_ready = self._on_ready
        ready = [(fd, on_ready[fd]) for fd, _ in self._epoll.poll(0, READY_MAX)]
        for fd, act in ready:
            # One that was ready before may have closed this, and its number may be another's now.
            if on_ready.get(fd) is act:
                act()

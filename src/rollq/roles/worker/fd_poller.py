"""Watches descriptors of short-lived processes behind one descriptor of the event loop.

A loop creates a handle for every descriptor that it watches, which costs a short program as much as
writing its result. Here another descriptor costs one system call.
"""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import Callable
from typing import Final

READY_MAX: Final = 64  # handled in one turn; the rest in the next


class FdPoller:
    """Calls back, in the loop, while a descriptor is readable."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._on_ready: dict[int, Callable[[], None]] = {}
        self._epoll = select.epoll() if hasattr(select, "epoll") else None
        if self._epoll is not None:
            loop.add_reader(self._epoll.fileno(), self._poll)

    def add(self, fd: int, on_ready: Callable[[], None]) -> None:
        """Watch a descriptor until `close_fd`."""
        if self._epoll is None:
            self.loop.add_reader(fd, on_ready)
        else:
            self._epoll.register(fd, select.EPOLLIN)
            self._on_ready[fd] = on_ready

    def close_fd(self, fd: int) -> None:
        """Stop watching a descriptor and close it."""
        if self._epoll is None:
            self.loop.remove_reader(fd)
        elif self._on_ready.pop(fd, None) is not None:
            # Explicitly, as a program that is being loaded may still hold a duplicate.
            self._epoll.unregister(fd)
        os.close(fd)

    def close(self) -> None:
        """Watch nothing any more. Idempotent."""
        if self._epoll is not None and not self._epoll.closed:
            self.loop.remove_reader(self._epoll.fileno())
            self._epoll.close()

    def _poll(self) -> None:
        assert self._epoll is not None, "called by its own reader"
        on_ready = self._on_ready
        ready = [(fd, on_ready[fd]) for fd, _ in self._epoll.poll(0, READY_MAX)]
        for fd, act in ready:
            # An earlier callback may have closed this descriptor, and its number may be reused.
            if on_ready.get(fd) is act:
                act()

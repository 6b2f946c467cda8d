"""Timeouts of calls, with one event loop timer for all of them."""

from __future__ import annotations

import asyncio
from math import inf
from typing import Any


class Deadlines:
    """Resolves futures to `None` at their deadlines. Adding and removing one is cheap."""

    __slots__ = ("_at", "_next", "_timer")

    def __init__(self) -> None:
        self._at: dict[asyncio.Future[Any], float] = {}
        self._next = inf
        self._timer: asyncio.TimerHandle | None = None

    def add(self, future: asyncio.Future[Any], seconds: float) -> None:
        """Set a timeout for a future."""
        loop = future.get_loop()
        at = loop.time() + seconds
        self._at[future] = at
        if at < self._next:
            self._arm(loop, at)

    def remove(self, future: asyncio.Future[Any]) -> None:
        """Remove a future that is done or abandoned."""
        del self._at[future]

    def stop(self) -> None:
        """Cancel the timer. Futures that are still pending are not resolved."""
        if self._timer is not None:
            self._timer.cancel()
        self._next = inf

    def _arm(self, loop: asyncio.AbstractEventLoop, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._next = at
        self._timer = loop.call_at(at, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        self._next = inf
        left = inf
        for future, at in self._at.items():
            if at > now:
                left = min(left, at)
            elif not future.done():
                future.set_result(None)
        if left < inf:
            self._arm(loop, left)

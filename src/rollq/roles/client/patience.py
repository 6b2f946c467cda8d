"""How long nothing may happen: one timer however often something does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Patience:
    """Calls back when nothing was heard for so long.

    Args:
        seconds: How long.
        on_overdue: Called once for each `watch` that ends in silence.
    """

    __slots__ = ("_loop", "_on_overdue", "_seconds", "_since", "_timer")

    def __init__(self, seconds: float, on_overdue: Callable[[], None]) -> None:
        self._seconds = seconds
        self._on_overdue = on_overdue
        self._since = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None

    def watch(self) -> None:
        """Something is awaited from now on."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        self._since = self._loop.time()
        if self._timer is None:
            self._timer = self._loop.call_later(self._seconds, self._look, self._loop)

    def heard(self) -> None:
        """Something happened."""
        if self._loop is not None:
            self._since = self._loop.time()

    def stop(self) -> None:
        """Nothing is awaited any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        left = self._since + self._seconds - loop.time()
        if left > 0:
            self._timer = loop.call_later(left, self._look, loop)
        else:
            self._on_overdue()

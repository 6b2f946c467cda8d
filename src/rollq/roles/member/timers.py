"""Timers that wake a member's loop without input: periodic ticks, and one for the leader's next
deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Ticker:
    """Calls `tick` once per period until stopped, with the delay of the call in seconds."""

    __slots__ = ("_at_s", "_period_s", "_tick", "_timer")

    def __init__(self, period_ms: int, tick: Callable[[float], None]) -> None:
        self._period_s = period_ms / 1_000
        self._tick = tick
        self._at_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Call `tick` now, then once per period."""
        self._at_s = asyncio.get_running_loop().time()
        self._ring()

    def stop(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _ring(self) -> None:
        loop = asyncio.get_running_loop()
        late_s = loop.time() - self._at_s
        self._at_s = max(self._at_s + self._period_s, loop.time())
        self._timer = loop.call_at(self._at_s, self._ring)
        self._tick(late_s)


class WakeTimer:
    """Wakes the loop of turns once, at the earliest of the times set since the last wake-up."""

    __slots__ = ("_timer", "_wake")

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._timer: asyncio.TimerHandle | None = None

    def set(self, wait_ms: int | None) -> None:
        """Wake after at most `wait_ms`; None: no deadline."""
        if wait_ms is None:
            return
        loop = asyncio.get_running_loop()
        at_s = loop.time() + wait_ms / 1_000
        if self._timer is not None:
            if self._timer.when() <= at_s:
                return
            self._timer.cancel()
        self._timer = loop.call_at(at_s, self._ring)

    def stop(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _ring(self) -> None:
        self._timer = None
        self._wake()

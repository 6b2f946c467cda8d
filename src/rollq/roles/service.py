"""What the processes of all roles share: ending tasks, clocks, and random numbers."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Iterable
from typing import Any


async def end_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they have ended, ignoring their results."""
    ending = list(tasks)
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)


class SystemClock:
    """The clocks of the machine."""

    def now_ms(self) -> int:
        """Monotonic milliseconds."""
        return time.monotonic_ns() // 1_000_000

    def now_us(self) -> int:
        """Monotonic microseconds."""
        return time.monotonic_ns() // 1_000

    def wall_ms(self) -> int:
        """Milliseconds since 1970 UTC."""
        return time.time_ns() // 1_000_000


class SystemJitter:
    """Random numbers of the operating system."""

    def draw(self, low: int, high: int) -> int:
        """An integer, low <= x < high; `low` if there is none."""
        return low + secrets.randbelow(high - low) if high > low else low

    def draw_id(self) -> bytes:
        """Sixteen random bytes."""
        return secrets.token_bytes(16)

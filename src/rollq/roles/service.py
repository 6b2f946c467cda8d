"""What the processes of all roles share: ending tasks, and random numbers."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable
from typing import Any


async def end_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they are over, however they end."""
    ending = list(tasks)
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)


class SystemJitter:
    """Random numbers of the operating system."""

    def draw(self, low: int, high: int) -> int:
        """An integer, low <= x < high; `low` if there is none."""
        return low + secrets.randbelow(high - low) if high > low else low

    def draw_id(self) -> bytes:
        """Sixteen random bytes."""
        return secrets.token_bytes(16)

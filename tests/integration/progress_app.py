"""Functions that say how far they are."""

from __future__ import annotations

import asyncio
import time

from rollq import progress, task

PAUSE_S = 0.3  # longer than progress is held back


@task("count_warm")
def count_warm(count: int) -> int:
    """In a warm process."""
    for number in range(1, count + 1):
        progress(number, count, f"row {number}")
        time.sleep(PAUSE_S)
    return count


@task("count_in_loop")
async def count_in_loop(count: int) -> int:
    """In the worker's own loop."""
    for number in range(1, count + 1):
        progress(number, count, f"row {number}")
        await asyncio.sleep(PAUSE_S)
    return count


@task("flood_warm")
def flood_warm(count: int) -> int:
    """Much more often than anybody is told."""
    for number in range(count):
        progress(number, count)
    progress(count, count)
    return count

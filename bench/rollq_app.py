"""The functions that rollq's workers run in the works."""

from __future__ import annotations

import asyncio
from pathlib import Path

from rollq import task


@task("noop")
async def noop(_payload: bytes) -> bytes:
    """Do nothing."""
    return b"ok"


@task("square")
def square(number: str) -> int:
    """As plain as a function can be; it runs in a warm process."""
    return int(number) ** 2


@task("hold")
async def hold(runs: str, name: str, seconds: str) -> str:
    """Write down that this job began, then take a while: a second begin would show."""
    write_down(Path(runs), name)
    await asyncio.sleep(float(seconds))
    return name


def write_down(runs: Path, name: str) -> None:
    """Add a line."""
    with runs.open("a") as file:
        file.write(f"{name}\n")

"""The functions that rollq's workers run in the works."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from bench.peers import pool_tasks
from rollq import task

squared = task("squared")(pool_tasks.squared)


@task("noop")
async def noop(_payload: bytes) -> bytes:
    """Do nothing."""
    return b"ok"


@task("square")
def square(number: str) -> int:
    """As plain as a function can be; it runs in a warm process."""
    return int(number) ** 2


@task("noise_array")
def noise_array(length: int) -> Any:
    """An array of numpy that cannot be compressed, whose sum is its length."""
    import numpy  # noqa: PLC0415 - only this work needs it

    numbers = numpy.random.default_rng(1).integers(-(1 << 40), 1 << 40, length)
    numbers[0] += length - numbers.sum()
    return numbers


@task("sum_of")
def sum_of(numbers: Any) -> int:
    """The sum of an array of numpy."""
    return int(numbers.sum())


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

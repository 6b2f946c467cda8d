"""Tasks and flows that tests run. As a script: a flow that waits for a task which waits for ever;
the arguments are the address of the grid and a named pipe that the task writes to."""

from __future__ import annotations

import os
import pickle
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from prefect import flow, task

from rollq import context
from rollq.prefect import RollqTaskRunner


@task
def double(number: int) -> int:
    return 2 * number


@task
async def double_later(number: int) -> int:
    return 2 * number


@task
def total(numbers: list[int]) -> int:
    return sum(numbers)


@task
def nothing() -> None:
    return None


@task
def process_id() -> int:
    return os.getpid()


@task(retries=2)
def third_time(marks: Path) -> int:
    """Succeeds when it is run for the third time."""
    with marks.open("a") as file:
        file.write("run\n")
    tries = len(marks.read_text().splitlines())
    if tries < 3:
        raise ConnectionError(f"try {tries}")
    return tries


@task
def fail(why: str) -> None:
    raise ValueError(why)


@task
def told(error: Any) -> str:
    return repr(error)


@task
def wait_for_ever(begun: Path) -> None:
    begun.write_text(f"{context().job_id} {os.getpid()}")
    threading.Event().wait()


class Own:
    """What rollq cannot take back."""

    def __init__(self, content: bytes = b"") -> None:
        self.content = content


class Large:
    """Has a buffer as arrays do."""

    def __init__(self, content: bytearray) -> None:
        self.content = content

    def __reduce_ex__(self, protocol: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return Large, (pickle.PickleBuffer(self.content),)


@task
def own() -> Own:
    return Own(b"pear")


@task(persist_result=True)
def own_kept() -> Own:
    return Own(b"pear")


@task
def last_of(large: Large, number: int) -> int:
    large.content[-1] += number
    return large.content[-1]


if __name__ == "__main__":

    @flow(task_runner=RollqTaskRunner(sys.argv[1]))
    def waits() -> None:
        left = double.submit(wait_for_ever.submit(Path(sys.argv[2])))
        left.result()

    waits()

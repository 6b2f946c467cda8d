"""Functions that are called with Python values."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rollq import context, task

MODEL: list[str] = []


def load_model() -> None:
    MODEL.append("loaded")


def load_nothing() -> None:
    raise FileNotFoundError("no model here")


@dataclass
class Order:
    item: str
    count: int = 1


class StockError(Exception):
    def __init__(self, item: str, *, left: int) -> None:
        super().__init__(item)
        self.left = left


@task
def plus(left: int, right: int = 10) -> int:
    return left + right


@task
def given(*args: object, **kwargs: object) -> tuple[tuple[object, ...], dict[str, object]]:
    return args, kwargs


@task
def doubled(order: Order) -> Order:
    return Order(order.item, order.count * 2)


@task
def halves(numbers: list[float]) -> list[float]:
    return [one / 2 for one in numbers]


@task
def ones(count: int) -> np.ndarray:
    return np.ones(count, "u1")


@task
def total(numbers: np.ndarray) -> int:
    numbers[0] += 1  # it is the function's own
    return int(numbers.sum())


@task
def line_count(path: Path) -> tuple[str, int]:
    return path.name, len(path.read_text().splitlines())


@task
def names_below(folder: Path) -> list[str]:
    return sorted(str(one.relative_to(folder)) for one in folder.rglob("*") if one.is_file())


@task
def sell(item: str) -> None:
    raise StockError(item, left=0)


@task
def divide(left: int, right: int) -> float:
    return left / right


@task
def unsendable() -> object:
    return object()


@task(autoretry_for=(ConnectionError,), max_retries=2, retry_backoff=0.01)
def flaky(tries: str, fails: int) -> int:
    """Fails so many times; counts in a file."""
    with open(tries, "a") as file:
        file.write("x")
    count = os.path.getsize(tries)
    if count <= fails:
        raise ConnectionError(f"attempt {count}")
    return count


@task
async def plus_in_loop(left: int, right: int) -> int:
    return left + right


@task
async def total_later(numbers: np.ndarray) -> int:
    await asyncio.sleep(0)
    return int(numbers.sum())


@task
async def sell_in_loop(item: str) -> None:
    await asyncio.sleep(0)
    raise StockError(item, left=3)


@task
def whose() -> tuple[str, int]:
    job = context()
    job.progress(0.4, note="nearly half")
    return job.job_id, job.attempt


@task
async def whose_in_loop() -> tuple[str, int]:
    return context().job_id, context().attempt


@task
def variable(name: str) -> str | None:
    return os.environ.get(name)


@task
def whose_of(number: int) -> tuple[str, int]:
    return context().job_id, number


@task
def counted_up(number: int) -> list[int]:
    """The same list in every call of a process, which starts again with 0."""
    if not number:
        COUNTED.clear()
    COUNTED.append(number)
    return COUNTED


@task
def object_if(wanted: bool) -> object:
    return object() if wanted else None


@task
def leave_if(code: int) -> None:
    if code:
        os._exit(code)


@task
def wait(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


@task
def wait_long(begun: str) -> None:
    with open(begun, "a") as file:
        file.write("x")
    time.sleep(60)


@task(initializer=load_model)
def model_of(number: int) -> list[str]:
    return MODEL


@task(initializer=load_model)
def model_too() -> list[str]:
    return MODEL


@task(initializer=load_nothing, autoretry_for=(Exception,))
def no_model(number: int = 0) -> int:
    return number


COUNTED: list[int] = []

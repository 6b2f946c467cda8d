"""What Dask and Ray have in common as peers: a function is sent with every job."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench.peers import pool_tasks
from bench.window import NO_END, Rate, keep_busy

SECONDS_MAX: Final = 120.0
WINDOW: Final = 64

Function = Callable[[bytes], bytes]


class FunctionPool(ABC):
    """Two slots for any function. Nothing in it is durable."""

    def __init__(self, _mode: str) -> None:
        self._folder = Path()

    @abstractmethod
    def _open(
        self, function: Function, argument: bytes
    ) -> tuple[Callable[[], None], Callable[[], int]]:
        """How to send one call, and how to wait for at least one result."""

    def noop(self, payload: bytes, window: int, seconds: float) -> Rate:
        """Jobs through the pool."""
        return self._run(pool_tasks.noop, payload, window, seconds)

    def run_true(self, count: int) -> float:
        """Through subprocess in the worker."""
        return self._run(pool_tasks.run_true, b"", WINDOW, SECONDS_MAX, count).per_s

    def run_files(self, count: int) -> float:
        """Through subprocess in the worker."""
        return self._run(
            pool_tasks.run_files, bytes(self._folder), WINDOW, SECONDS_MAX, count
        ).per_s

    def _run(
        self,
        function: Function,
        argument: bytes,
        window: int,
        seconds: float,
        count: int = NO_END,
    ) -> Rate:
        send, collect = self._open(function, argument)
        left = count

        def submit() -> None:
            nonlocal left
            left -= 1
            send()

        return keep_busy(submit, collect, window, seconds, lambda: left > 0)

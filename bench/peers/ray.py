"""Ray: a head with two slots. Nothing in it is durable."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any, Final

from bench.peers import pool_tasks
from bench.peers.fresh import fresh_start_s
from bench.procs import HOST, OUR_TREE, missing_module
from bench.window import keep_busy

SLOTS: Final = 2
WINDOW: Final = 64


class Ray:
    """Started inside this process; its own processes end with `stop`."""

    def __init__(self, _mode: str) -> None:
        self._folder = Path()

    def available(self) -> str:
        """It comes from PyPI, and is large: not in the `bench` extra."""
        return "no module ray: pip install ray" if missing_module("ray") else ""

    def version(self) -> str:
        """What is measured."""
        return f"ray {version_of('ray')}"

    def start(self, folder: Path) -> None:
        """Returns when tasks can run."""
        import ray  # noqa: PLC0415 - not a dependency

        folder.mkdir(parents=True)
        self._folder = folder
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        os.environ.update(OUR_TREE)
        ray.init(
            num_cpus=SLOTS,
            include_dashboard=False,
            log_to_driver=False,
            _node_ip_address=HOST,
            object_store_memory=200_000_000,
        )

    def stop(self) -> None:
        """End all."""
        import ray  # noqa: PLC0415

        ray.shutdown()

    def noop(self, payload: bytes, window: int, seconds: float) -> float:
        """Jobs a second."""
        self._run(pool_tasks.noop, payload, window, 1.0, 10_000)
        return self._run(pool_tasks.noop, payload, window, seconds, 10**9)

    def first_result_s(self, payload: bytes) -> float:
        """From starting the head to the first result."""
        import ray  # noqa: PLC0415

        return fresh_start_s(
            self, self._folder, lambda: ray.get(ray.remote(pool_tasks.noop).remote(payload))
        )

    def run_true(self, count: int) -> float:
        """Through subprocess in the worker."""
        return self._run(pool_tasks.run_true, b"", WINDOW, 120, count)

    def run_files(self, count: int) -> float:
        """Through subprocess in the worker."""
        return self._run(pool_tasks.run_files, bytes(self._folder), WINDOW, 120, count)

    def _run(
        self,
        function: Callable[[bytes], bytes],
        argument: bytes,
        window: int,
        seconds: float,
        count: int,
    ) -> float:
        import ray  # noqa: PLC0415

        task = ray.remote(function)
        waiting: list[Any] = []
        left = count

        def submit() -> None:
            nonlocal left
            left -= 1
            waiting.append(task.remote(argument))

        def collect() -> int:
            ready, others = ray.wait(waiting, num_returns=1)
            more, others = (
                ray.wait(others, num_returns=len(others), timeout=0) if others else ([], [])
            )
            waiting[:] = others
            return len(ray.get(ready + more))

        return keep_busy(submit, collect, window, seconds, lambda: left > 0)

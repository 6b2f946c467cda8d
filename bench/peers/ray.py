"""Ray: a head with two slots. Nothing in it is durable."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any, Final

from bench.peers import pool_tasks
from bench.peers.fresh import fresh_start_s
from bench.peers.function_pool import Function, FunctionPool
from bench.procs import HOST, OUR_TREE, missing_module

SLOTS: Final = 2


class Ray(FunctionPool):
    """Started inside this process; its own processes end with `stop`."""

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

    def first_result_s(self, payload: bytes) -> float:
        """From starting the head to the first result."""
        import ray  # noqa: PLC0415

        return fresh_start_s(
            self, self._folder, lambda: ray.get(ray.remote(pool_tasks.noop).remote(payload))
        )

    def _open(
        self, function: Function, argument: bytes
    ) -> tuple[Callable[[], None], Callable[[], int]]:
        import ray  # noqa: PLC0415

        task = ray.remote(function)
        waiting: list[Any] = []

        def collect() -> int:
            ready, others = ray.wait(waiting, num_returns=1)
            more, others = (
                ray.wait(others, num_returns=len(others), timeout=0) if others else ([], [])
            )
            waiting[:] = others
            return len(ray.get(ready + more))

        return lambda: waiting.append(task.remote(argument)), collect

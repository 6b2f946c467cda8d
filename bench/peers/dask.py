"""Dask: a scheduler and two workers of one slot each. Nothing in it is durable."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any, Final

from bench.peers import pool_tasks
from bench.peers.fresh import fresh_start_s
from bench.procs import HOST, Process, free_ports, missing_module, python, stop_all
from bench.window import keep_busy

WORKERS: Final = 2
WINDOW: Final = 64


class Dask:
    """The scheduler and its workers as processes, the client here."""

    def __init__(self, _mode: str) -> None:
        self._processes: list[Process] = []
        self._client: Any = None
        self._folder = Path()

    def available(self) -> str:
        """It comes from PyPI."""
        return missing_module("distributed")

    def version(self) -> str:
        """What is measured."""
        return f"distributed {version_of('distributed')}"

    def start(self, folder: Path) -> None:
        """Returns when both workers are connected."""
        from distributed import Client  # noqa: PLC0415 - not a dependency

        folder.mkdir(parents=True)
        self._folder = folder
        (port,) = free_ports(1)
        quiet = ("--no-dashboard",)
        argv = python("distributed.cli.dask_scheduler", "--host", HOST, "--port", str(port), *quiet)
        scheduler = Process(argv, folder / "scheduler.log")
        self._processes.append(scheduler)
        scheduler.wait_for_port(port)
        address = f"tcp://{HOST}:{port}"
        for number in range(WORKERS):
            argv = python(
                "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-nanny", *quiet
            )
            self._processes.append(Process(argv, folder / f"worker-{number}.log"))
        self._client = Client(address)
        self._client.wait_for_workers(WORKERS, timeout=60)

    def stop(self) -> None:
        """End all."""
        if self._client is not None:
            self._client.close()
            self._client = None
        stop_all(self._processes)
        self._processes.clear()

    def noop(self, payload: bytes, window: int, seconds: float) -> float:
        """Jobs a second; the key of each is its own, or Dask would not run it again."""
        self._run(pool_tasks.noop, payload, window, 0.3, 10_000)
        return self._run(pool_tasks.noop, payload, window, seconds, 10**9)

    def first_result_s(self, payload: bytes) -> float:
        """From starting scheduler and workers to the first result."""
        return fresh_start_s(
            self,
            self._folder,
            lambda: self._client.submit(pool_tasks.noop, payload, pure=False).result(),
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
        from distributed import as_completed  # noqa: PLC0415

        done = as_completed(with_results=True)
        left = count

        def submit() -> None:
            nonlocal left
            left -= 1
            done.add(self._client.submit(function, argument, pure=False))

        def collect() -> int:
            return len(done.next_batch(block=True))

        return keep_busy(submit, collect, window, seconds, lambda: left > 0)

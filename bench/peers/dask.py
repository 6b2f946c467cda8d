"""Dask: a scheduler and two workers of one slot each. Nothing in it is durable."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any, Final

from bench.cpu import Roles
from bench.peers import pool_tasks
from bench.peers.fresh import fresh_start_s
from bench.peers.function_pool import Function, FunctionPool
from bench.procs import HOST, Process, free_ports, missing_module, python, stop_all

WORKERS: Final = 2


class Dask(FunctionPool):
    """The scheduler and its workers as processes, the client here."""

    def __init__(self, mode: str) -> None:
        super().__init__(mode)
        self._processes: list[Process] = []
        self._client: Any = None

    @property
    def client(self) -> Any:
        """Its own client, once it is started."""
        return self._client

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

    def roles(self) -> Roles:
        """The scheduler and its workers."""
        scheduler, *workers = (one.pid for one in self._processes)
        return {"server": [scheduler], "worker": workers}

    def first_result_s(self, payload: bytes) -> float:
        """From starting scheduler and workers to the first result."""
        return fresh_start_s(
            self,
            self._folder,
            lambda: self._client.submit(pool_tasks.noop, payload, pure=False).result(),
        )

    def _open(
        self, function: Function, argument: bytes
    ) -> tuple[Callable[[], None], Callable[[], int]]:
        """The key of each call is its own, or Dask would not run it again."""
        from distributed import as_completed  # noqa: PLC0415

        done = as_completed(with_results=True)

        def send() -> None:
            done.add(self._client.submit(function, argument, pure=False))

        return send, lambda: len(done.next_batch(block=True))

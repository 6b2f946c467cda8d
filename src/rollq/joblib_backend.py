"""A joblib backend: `parallel_config("rollq")` after `register()`.

Functions must be registered with `@task`, and values are encoded as with `delay`. Nothing is
pickled.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future
from typing import Any, Final

from joblib import register_parallel_backend
from joblib.parallel import BatchedCalls, ParallelBackendBase

from rollq.roles.client.blocking.clients import BlockingClient
from rollq.roles.client.blocking.current import SERVERS_ENV
from rollq.roles.client.blocking.executor import Executor

NAME: Final = "rollq"
SERVERS: Final = "127.0.0.1:5000"


def register() -> None:
    """Register the backend `rollq` with joblib."""
    register_parallel_backend(NAME, GridBackend)


class GridBackend(ParallelBackendBase):
    """Runs the calls of one `Parallel` as jobs.

    Args:
        servers: Addresses of members; default: ROLLQ_SERVERS, or 127.0.0.1:5000.
        nesting_level: For joblib.
        options: Arguments of `Executor`, including job options: `queue`, `priority`, `credentials`,
            ….
    """

    supports_retrieve_callback = True
    default_n_jobs = -1  # the sum of the slots of all workers

    def __init__(self, servers: str = "", nesting_level: int | None = None, **options: Any) -> None:
        super().__init__(nesting_level=nesting_level)
        self._servers = servers or os.environ.get(SERVERS_ENV, SERVERS)
        self._options = options
        self._executor: Executor | None = None
        self._open: dict[Future[Any], None] = {}

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """The requested number; for -1 the sum of the slots of all workers."""
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 has no meaning")
        if n_jobs is not None and n_jobs > 0:
            return n_jobs
        with BlockingClient(self._servers) as client:
            return max(1, sum(worker.slots for worker in client.admin.workers()))

    def configure(self, n_jobs: int = 1, parallel: Any = None, **_: Any) -> int:
        """Start the executor, before the first call."""
        self.parallel = parallel
        self._executor = Executor(self._servers, **self._options)
        return self.effective_n_jobs(n_jobs)

    def terminate(self) -> None:
        """Shut the executor down, after the last call."""
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown()

    def submit(self, func: BatchedCalls, callback: Any = None) -> Future[list[Any]]:
        """Submit a batch of calls; the callback is called with the future when all have ended."""
        assert self._executor is not None, "joblib configures before it calls"
        calls = [self._executor.submit(fn, *args, **kwargs) for fn, args, kwargs in func.items]
        self._open.update(dict.fromkeys(calls))
        batch = _Batch(calls, self._open)
        if callback is not None:
            batch.add_done_callback(callback)
        batch.watch()
        return batch

    def retrieve_result_callback(self, out: Future[list[Any]]) -> list[Any]:
        """The values of a batch that has ended; raises the exception of a failed call."""
        return out.result()

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """Cancel the calls that have not ended."""
        for future in list(self._open):
            future.cancel()
        if not ensure_ready:
            self.terminate()


class _Batch(Future[list[Any]]):
    """The future of a batch of calls: a list of values when all have ended."""

    def __init__(self, calls: list[Future[Any]], still_open: dict[Future[Any], None]) -> None:
        super().__init__()
        self._calls = calls
        self._open = still_open
        self._left = len(calls)
        self._lock = threading.Lock()  # callbacks run in the executor's thread or in this one

    def watch(self) -> None:
        """Subscribe to the end of every call."""
        for call in self._calls:
            call.add_done_callback(self._on_end)

    def _on_end(self, call: Future[Any]) -> None:
        self._open.pop(call, None)
        with self._lock:
            self._left -= 1
            is_last = not self._left
        if not is_last:
            return
        try:
            values = [one.result() for one in self._calls]
        except BaseException as error:
            self.set_exception(error)
        else:
            self.set_result(values)

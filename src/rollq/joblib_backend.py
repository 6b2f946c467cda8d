"""The grid under joblib: `parallel_config("rollq")` after `register()`.

The functions are those that are registered with `@task`, and values travel as they do with `delay`:
joblib would pickle what it is given, and nothing is unpickled here.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future
from typing import Any, Final

from joblib import register_parallel_backend
from joblib.parallel import BatchedCalls, ParallelBackendBase

from rollq.roles.client.blocking import BlockingClient
from rollq.roles.client.current import SERVERS_ENV
from rollq.roles.client.executor import Executor

NAME: Final = "rollq"
SERVERS: Final = "127.0.0.1:5000"


def register() -> None:
    """Make the name `rollq` known to joblib."""
    register_parallel_backend(NAME, GridBackend)


class GridBackend(ParallelBackendBase):  # type: ignore[misc]
    """Calls of one `Parallel` as jobs.

    Args:
        servers: Addresses of members; left out: those of ROLLQ_SERVERS, or 127.0.0.1:5000.
        nesting_level: Of joblib.
        options: Of `Executor`, and so of every job: `queue`, `priority`, `credentials`, ….
    """

    supports_retrieve_callback = True
    default_n_jobs = -1  # as many as the workers have slots

    def __init__(self, servers: str = "", nesting_level: int | None = None, **options: Any) -> None:
        super().__init__(nesting_level=nesting_level)
        self._servers = servers or os.environ.get(SERVERS_ENV, SERVERS)
        self._options = options
        self._executor: Executor | None = None
        self._open: dict[Future[Any], None] = {}

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """As many as are asked for; with -1 the slots of all workers."""
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 has no meaning")
        if n_jobs is not None and n_jobs > 0:
            return n_jobs
        with BlockingClient(self._servers) as client:
            return max(1, sum(worker.slots for worker in client.admin.workers()))

    def configure(self, n_jobs: int = 1, parallel: Any = None, **_: Any) -> int:
        """Before the first call."""
        self.parallel = parallel
        self._executor = Executor(self._servers, **self._options)
        return self.effective_n_jobs(n_jobs)

    def terminate(self) -> None:
        """After the last call."""
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown()

    def submit(self, func: BatchedCalls, callback: Any = None) -> Future[list[Any]]:
        """A future for the values of some calls; the callback is called with it when it is done."""
        assert self._executor is not None, "joblib configures before it calls"
        calls = [self._executor.submit(fn, *args, **kwargs) for fn, args, kwargs in func.items]
        self._open.update(dict.fromkeys(calls))
        batch = _Batch(calls, self._open)
        if callback is not None:
            batch.add_done_callback(callback)
        batch.watch()
        return batch

    def retrieve_result_callback(self, out: Future[list[Any]]) -> list[Any]:
        """The values of calls that have ended; raises what one of them raised."""
        return out.result()

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """One has failed, or nobody wants the rest: cancel it."""
        for future in list(self._open):
            future.cancel()
        if not ensure_ready:
            self.terminate()


class _Batch(Future[list[Any]]):
    """Calls that joblib made one of. It has the values when all have ended."""

    def __init__(self, calls: list[Future[Any]], still_open: dict[Future[Any], None]) -> None:
        super().__init__()
        self._calls = calls
        self._open = still_open
        self._left = len(calls)
        self._lock = threading.Lock()  # ends come from the executor's thread, early ones from here

    def watch(self) -> None:
        """Hear of every end."""
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

"""For code that was written for the futures of Dask: `from rollq.dask import Client, as_completed`.

Functions need not be registered: they go as they are, to workers that were started with
`--app rollq.pickled`. A future among the arguments stands for its result, which goes from worker to
worker.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

from rollq.roles.client.blocking import BlockingClient, BlockingJob
from rollq.roles.client.current import given_servers

ENDS = {"OK": "finished", "CANCELLED": "cancelled"}  # any other end is error


class Client:
    """A client of the grid at an address, or of that of ROLLQ_SERVERS."""

    def __init__(self, address: str = "", **_: Any) -> None:
        self.own = BlockingClient(given_servers(address), allow_pickle=True)
        self.own.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up; jobs go on."""
        self.own.stop()

    def submit(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> GridFuture:
        """Call a function in the grid."""
        kwargs.pop("pure", None)  # every call is a job of its own
        return GridFuture(self.own.run(function, *args, **kwargs))

    def map(
        self, function: Callable[..., Any], *iterables: Iterable[Any], **kwargs: Any
    ) -> list[GridFuture]:
        """Call it for each of many."""
        return [self.submit(function, *args, **kwargs) for args in zip(*iterables, strict=False)]

    def gather(self, futures: Any) -> Any:
        """The results of futures in lists, tuples and dicts, or of one."""
        if isinstance(futures, GridFuture):
            return futures.result()
        if isinstance(futures, dict):
            return {key: self.gather(one) for key, one in futures.items()}
        if isinstance(futures, list | tuple | set):
            return type(futures)(self.gather(one) for one in futures)
        return futures

    def scatter(self, value: Any) -> GridFuture:
        """Bring a value into the grid, once for all calls that are given the future."""
        return self.submit(_same, value)


class GridFuture:
    """A call in the grid, by the names of Dask."""

    def __init__(self, job: BlockingJob) -> None:
        self.job = job
        self.key = job.id
        self._inner = job._inner  # type: ignore[attr-defined] # by which arguments know a job

    def result(self, timeout: float | None = None) -> Any:
        """What it returned; raises what it raised."""
        return self.job.get(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """What it raised; None if it returned."""
        return None if self.job.result(timeout).ok else self.job.result().error

    def done(self) -> bool:
        """Whether it has ended."""
        return self.job.is_done

    def cancel(self) -> None:
        """End it."""
        self.job.cancel()

    @property
    def status(self) -> str:
        """pending, finished, cancelled or error."""
        return ENDS.get(self.job.result().status, "error") if self.done() else "pending"

    def __repr__(self) -> str:
        return f"<Future: {self.status}, key: {self.key}>"


def as_completed(futures: Iterable[GridFuture], *, with_results: bool = False) -> Iterator[Any]:
    """Futures as they end, or pairs of them and their results."""
    waited = {_ended(one): one for one in futures}
    for ended in concurrent.futures.as_completed(waited):
        future = waited[ended]
        yield (future, future.result()) if with_results else future


def wait(futures: Iterable[GridFuture], timeout: float | None = None) -> None:
    """Until all have ended."""
    _, left = concurrent.futures.wait([_ended(one) for one in futures], timeout)
    if left:
        raise TimeoutError(f"{len(left)} have not ended")


def _ended(future: GridFuture) -> concurrent.futures.Future[Any]:
    job = future.job
    loop = job._thread.loop  # type: ignore[attr-defined]
    return asyncio.run_coroutine_threadsafe(future._inner.result(), loop)


def _same(value: Any) -> Any:
    return value

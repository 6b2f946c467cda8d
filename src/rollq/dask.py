"""An adapter for code written for Dask futures: `from rollq.dask import Client, as_completed`.

Functions need not be registered: they are pickled, and run on workers that were started with `--app
rollq.pickled`. A future among the arguments is replaced by its result, which goes directly from
worker to worker.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

from rollq.roles.client.blocking.bridge import result_soon
from rollq.roles.client.blocking.clients import BlockingClient, BlockingJob
from rollq.roles.client.blocking.current import given_servers
from rollq.roles.client.functions.calls import job_in

ENDS = {"OK": "finished", "CANCELLED": "cancelled"}  # any other end is error


class Client:
    """A client of the grid at an address, or of ROLLQ_SERVERS."""

    def __init__(self, address: str = "", **_: Any) -> None:
        self.own = BlockingClient(given_servers(address), allow_pickle=True)
        self.own.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; jobs go on."""
        self.own.stop()

    def submit(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> GridFuture:
        """Submit a call; returns its future."""
        kwargs.pop("pure", None)  # every call is a job of its own
        return GridFuture(self.own.run(function, *args, **kwargs))

    def map(
        self, function: Callable[..., Any], *iterables: Iterable[Any], **kwargs: Any
    ) -> list[GridFuture]:
        """Submit a call for each element; returns the futures."""
        return [self.submit(function, *args, **kwargs) for args in zip(*iterables, strict=False)]

    def gather(self, futures: Any) -> Any:
        """Return the results of futures in nested lists, tuples and dicts, or of one future."""
        if isinstance(futures, GridFuture):
            return futures.result()
        if isinstance(futures, dict):
            return {key: self.gather(one) for key, one in futures.items()}
        if isinstance(futures, list | tuple | set):
            return type(futures)(self.gather(one) for one in futures)
        return futures

    def scatter(self, value: Any) -> GridFuture:
        """Store a value in the grid once; pass the future to the calls that need it."""
        return self.submit(_same, value)


class GridFuture:
    """The future of a call, with Dask's names."""

    def __init__(self, job: BlockingJob) -> None:
        self.job = job
        self.key = job.id
        self._inner = job_in(job)  # marks a job among arguments

    def result(self, timeout: float | None = None) -> Any:
        """Wait, and return the value; raises the exception of the function."""
        return self.job.get(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait, and return the exception; None if it succeeded."""
        return None if self.job.result(timeout).ok else self.job.result().error

    def done(self) -> bool:
        """Whether it has ended."""
        return self.job.is_done

    def cancel(self) -> None:
        """Cancel it."""
        self.job.cancel()

    @property
    def status(self) -> str:
        """pending, finished, cancelled or error."""
        return ENDS.get(self.job.result().status, "error") if self.done() else "pending"

    def __repr__(self) -> str:
        return f"<Future: {self.status}, key: {self.key}>"


def as_completed(futures: Iterable[GridFuture], *, with_results: bool = False) -> Iterator[Any]:
    """Iterate over futures as they end, or over pairs of future and result."""
    waited = {_ended(one): one for one in futures}
    for ended in concurrent.futures.as_completed(waited):
        future = waited[ended]
        yield (future, future.result()) if with_results else future


def wait(futures: Iterable[GridFuture], timeout: float | None = None) -> None:
    """Wait until all have ended; raises TimeoutError."""
    _, left = concurrent.futures.wait([_ended(one) for one in futures], timeout)
    if left:
        raise TimeoutError(f"{len(left)} have not ended")


def _ended(future: GridFuture) -> concurrent.futures.Future[Any]:
    return result_soon(future.job)


def _same(value: Any) -> Any:
    return value

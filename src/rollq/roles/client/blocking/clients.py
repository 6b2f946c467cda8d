"""The blocking clients: asyncio clients that run in a background thread. They are thread-safe.

Their methods are generated from the asyncio classes by `bridge` on import. Type checkers read
`blocking.pyi` instead, which `docs/make_blocking.py` writes.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine, Generator, Iterator
from typing import Any, Self

from rollq.base.errors import LocalError
from rollq.roles.client.blocking.bridge import Bridge
from rollq.roles.client.blocking.loop_thread import LoopThread
from rollq.roles.client.calls.access import AccessCalls
from rollq.roles.client.calls.admin import AdminCalls
from rollq.roles.client.calls.batches import Batches
from rollq.roles.client.calls.caches import Caches
from rollq.roles.client.calls.jobs import Jobs
from rollq.roles.client.calls.schedules import Schedules
from rollq.roles.client.client import Client
from rollq.roles.client.functions.chains import JobGroup
from rollq.roles.client.many.keyed import KeyedRun
from rollq.roles.client.results.handles import Batch, Job
from rollq.roles.client.results.result import Result
from rollq.roles.client.several_groups.client import MultiClient
from rollq.roles.client.several_groups.discovery import Federation
from rollq.roles.client.topics.subscriptions import Publication, Subscription


class Running:
    """Starts and stops a client in its background thread."""

    def __init_subclass__(cls, *, of: type | None = None) -> None:
        if of is not None:
            cls.__signature__ = inspect.signature(of)
        super().__init_subclass__(of=of)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(LoopThread("rollq-client"), self._of(*args, **kwargs))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the thread and connect, in the background, to the leader."""
        self._thread.start()
        try:
            self._thread.run(self._inner.start())
        except BaseException:
            self._thread.stop()
            raise

    def stop(self) -> None:
        """Close the connection and end the thread. Jobs go on."""
        try:
            self._thread.run(self._inner.stop())
        except LocalError:
            return  # already stopped
        self._thread.stop()


# --- handles; defined before the clients, whose methods return them


class BlockingJob(Bridge, of=Job):
    """A submitted job. `get`, `result` and `cancel` block; `aget` and `aresult` are for the event
    loop of an application, such as a notebook; `await job` is `aget`."""

    async def aget(self, timeout: float | None = None) -> Any:
        """The same as `get`, without blocking the event loop."""
        return await self._elsewhere(self._inner.get(timeout))

    async def aresult(self, timeout: float | None = None) -> Result:
        """The same as `result`, without blocking the event loop."""
        result: Result = await self._elsewhere(self._inner.result(timeout))
        return result

    def __await__(self) -> Generator[Any, None, Any]:
        return self.aget().__await__()

    def _elsewhere(self, call: Coroutine[Any, Any, Any]) -> asyncio.Future[Any]:
        """Run a coroutine in the client's loop and return an awaitable for the caller's loop."""
        try:
            loop = self._thread.loop
        except BaseException:
            call.close()
            raise
        return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call, loop))


class BlockingJobGroup(Bridge, of=JobGroup):
    """The jobs of a group, in order."""


class BlockingBatch(Bridge, of=Batch):
    """Many submitted jobs."""


class BlockingKeyedRun(Bridge, of=KeyedRun):
    """Jobs with ids of their own, some of which may have been submitted before."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class BlockingPublication(Bridge, of=Publication):
    """A message of a subscription."""


class BlockingSubscription(Bridge, of=Subscription):
    """Messages of a subscription, as an iterator. Leaving the `with` block, or `close`, ends it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[BlockingPublication]:
        while taken := self.take():
            yield from taken

    def take(self) -> list[BlockingPublication]:
        """Return all messages received so far, waiting for at least one; empty if it is closed."""
        taken = self._thread.run(self._inner.take())
        return [BlockingPublication(self._thread, message) for message in taken]


class BlockingJobs(Bridge, of=Jobs):
    """`client.jobs`: submit, wait for, inspect and cancel jobs."""


class BlockingBatches(Bridge, of=Batches):
    """`client.batches`: stage jobs in parts and accept all of them by one commit."""


class BlockingCaches(Bridge, of=Caches):
    """`client.caches`: named sets of files that workers keep, and blobs."""


class BlockingAdmin(Bridge, of=AdminCalls):
    """`client.admin`: queues, workers, settings and members of the group."""


class BlockingAccess(Bridge, of=AccessCalls):
    """`client.access`: accounts and roles, and what they may do."""


class BlockingSchedules(Bridge, of=Schedules):
    """`client.schedules`: jobs that the grid submits by itself, by cron or interval."""


# --- the clients


class BlockingClient(Running, Bridge, of=Client):
    """The blocking form of `Client`, with the same arguments.

    Callbacks are called in the client's thread. Iterables are read there too, except those of
    `stage` and `stage_redrives`, which are read in the calling thread.
    """


class BlockingMultiClient(Running, Bridge, of=MultiClient):
    """The blocking form of `MultiClient`, with the same arguments."""

    @classmethod
    def discover(cls, addresses: str, **options: Any) -> Self:
        """The same as `MultiClient.discover`."""
        return cls(Federation(addresses), **options)

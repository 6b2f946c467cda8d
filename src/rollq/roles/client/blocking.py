"""The blocking clients: the asyncio ones in a thread of their own. Any thread may call them.

Their calls are made of the asyncio ones by `bridge` when this is imported. Type checkers read
`blocking.pyi` instead, which `docs/make_blocking.py` writes.
"""

from __future__ import annotations

import inspect
from typing import Any, Self

from rollq.base.errors import LocalError
from rollq.roles.client.access import AccessCalls
from rollq.roles.client.admin import AdminCalls
from rollq.roles.client.batches import Batches
from rollq.roles.client.bridge import Bridge
from rollq.roles.client.caches import Caches
from rollq.roles.client.client import Client
from rollq.roles.client.handles import Batch, Job
from rollq.roles.client.jobs import Jobs
from rollq.roles.client.keyed import KeyedRun
from rollq.roles.client.loop_thread import LoopThread
from rollq.roles.client.multi import MultiClient


class Running:
    """A client with a thread of its own."""

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
        """Start the thread and look for the leader."""
        self._thread.start()
        self._thread.run(self._inner.start())

    def stop(self) -> None:
        """Hang up and end the thread. Jobs go on."""
        try:
            self._thread.run(self._inner.stop())
        except LocalError:
            return  # it is stopped
        self._thread.stop()


# --- before the clients, whose calls say that they return these


class BlockingJob(Bridge, of=Job):
    """One accepted job."""


class BlockingBatch(Bridge, of=Batch):
    """Many accepted jobs."""


class BlockingKeyedRun(Bridge, of=KeyedRun):
    """Jobs with ids of their own, some of which may have been submitted before."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class BlockingJobs(Bridge, of=Jobs):
    """`client.jobs`: submit jobs, wait for their results, ask how they stand, end them."""


class BlockingBatches(Bridge, of=Batches):
    """`client.batches`: stage jobs in parts, and accept all of them by one commit."""


class BlockingCaches(Bridge, of=Caches):
    """`client.caches`: files that workers keep for many jobs, and blobs."""


class BlockingAdmin(Bridge, of=AdminCalls):
    """`client.admin`: queues, workers, settings and members of the group."""


class BlockingAccess(Bridge, of=AccessCalls):
    """`client.access`: accounts and roles, and what they may do."""


# --- the clients


class BlockingClient(Running, Bridge, of=Client):
    """The same as `Client`, for code without an event loop. Arguments as there.

    Callbacks are called in the client's thread. Iterables are read there too, but for those of
    `stage` and `stage_redrives`, which are read in the thread of the call.
    """


class BlockingMultiClient(Running, Bridge, of=MultiClient):
    """The same as `MultiClient`, for code without an event loop. Arguments as there."""

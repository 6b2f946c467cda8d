"""The blocking client: the asyncio one in a thread of its own. Any thread may call it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Self, TypeVar, Unpack

from rollq.base.errors import LocalError
from rollq.base.ids import JobId, MemberId
from rollq.base.limits import MAP_WINDOW
from rollq.grid.commands import Settings
from rollq.grid.views import ArrayView, ClientView, JobView, QueueView
from rollq.roles.client.client import Client
from rollq.roles.client.handles import Batch, Counts, Job, Progress
from rollq.roles.client.loop_thread import LoopThread
from rollq.roles.client.results import Result
from rollq.roles.client.specs import JobSpec, Options

Value = TypeVar("Value")


class BlockingJob:
    """One accepted job."""

    def __init__(self, thread: LoopThread, job: Job) -> None:
        self._thread = thread
        self._job = job

    @property
    def job_id(self) -> JobId:
        """The id."""
        return self._job.job_id

    @property
    def id(self) -> str:
        """The id as text."""
        return self._job.id

    @property
    def is_done(self) -> bool:
        """Whether the result is here."""
        return self._job.is_done

    def result(self, timeout: float | None = None) -> Result:
        """Wait for the result; see `Job.result`."""
        return self._thread.run(self._job.result(timeout))

    def cancel(self) -> bool:
        """Ask the grid to end it; false if it had ended."""
        return self._thread.run(self._job.cancel())


class BlockingBatch:
    """Many accepted jobs."""

    def __init__(self, thread: LoopThread, batch: Batch) -> None:
        self._thread = thread
        self._batch = batch

    def __len__(self) -> int:
        return len(self._batch)

    @property
    def id(self) -> str:
        """The id of the array, or of the first job."""
        return self._batch.id

    @property
    def counts(self) -> Counts:
        """How the jobs ended so far."""
        return self._batch.counts

    def job_ids(self) -> Iterator[JobId]:
        """The ids, in the order of submission."""
        return self._batch.job_ids()

    def wait(self, timeout: float | None = None, progress: Progress | None = None) -> Counts:
        """Wait until all have ended; see `Batch.wait`. `progress` is called in another thread."""
        return self._thread.run(self._batch.wait(timeout, progress))

    def results(self) -> Iterator[Result]:
        """Every result once, as they come."""
        while taken := self._thread.run(self._batch.take()):
            yield from taken

    def cancel(self) -> int:
        """Ask the grid to end all that has not ended; how many that were."""
        return self._thread.run(self._batch.cancel())


class BlockingClient:
    """The same as `Client`, for code without an event loop. Arguments as there."""

    def __init__(
        self,
        addresses: str,
        *,
        client_id: str = "",
        desired_parallelism: int = 0,
        timeout: float = 30.0,
    ) -> None:
        self._client = Client(
            addresses,
            client_id=client_id,
            desired_parallelism=desired_parallelism,
            timeout=timeout,
        )
        self._thread = LoopThread("rollq-client")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the thread and look for the leader."""
        self._thread.start()
        self._thread.run(self._client.start())

    def stop(self) -> None:
        """Hang up and end the thread. Jobs go on."""
        try:
            self._thread.run(self._client.stop())
        except LocalError:
            return  # it is stopped
        self._thread.stop()

    @property
    def client_id(self) -> str:
        """The name that results are owed to."""
        return self._client.client_id

    @property
    def is_connected(self) -> bool:
        """Whether a leader has welcomed us."""
        return self._client.is_connected

    @property
    def leader(self) -> str:
        """The address of the member that welcomed us; empty if none has."""
        return self._client.leader

    # --- jobs

    def submit(
        self,
        job: str | JobSpec,
        args: Sequence[str] = (),
        *,
        files: Mapping[str, bytes] | None = None,
        payload: bytes | None = None,
        job_id: JobId | str | None = None,
        timeout: float | None = None,
        **options: Unpack[Options],
    ) -> BlockingJob:
        """Submit one job; see `Client.submit`."""
        call = self._client.submit(
            job, args, files=files, payload=payload, job_id=job_id, timeout=timeout, **options
        )
        return BlockingJob(self._thread, self._thread.run(call))

    def submit_many(
        self,
        jobs: str | Iterable[JobSpec],
        arguments: Iterable[Any] | None = None,
        *,
        keep_results: bool = True,
        timeout: float | None = None,
        progress: Progress | None = None,
        **options: Unpack[Options],
    ) -> BlockingBatch:
        """Submit many jobs; see `Client.submit_many`. The iterable is read in another thread."""
        call = self._client.submit_many(
            jobs,
            arguments,
            keep_results=keep_results,
            timeout=timeout,
            progress=progress,
            **options,
        )
        return BlockingBatch(self._thread, self._thread.run(call))

    def submit_array(
        self,
        exec_name: str,
        count: int,
        args: Sequence[str] = (),
        *,
        files: Mapping[str, bytes] | None = None,
        payload: bytes | None = None,
        running_max: int = 0,
        keep_results: bool = True,
        timeout: float | None = None,
        **options: Unpack[Options],
    ) -> BlockingBatch:
        """Submit an array; see `Client.submit_array`."""
        call = self._client.submit_array(
            exec_name,
            count,
            args,
            files=files,
            payload=payload,
            running_max=running_max,
            keep_results=keep_results,
            timeout=timeout,
            **options,
        )
        return BlockingBatch(self._thread, self._thread.run(call))

    def map(
        self,
        jobs: str | Iterable[JobSpec],
        arguments: Iterable[Any] | None = None,
        *,
        ordered: bool = False,
        window: int = MAP_WINDOW,
        progress: Progress | None = None,
        **options: Unpack[Options],
    ) -> Iterator[Result]:
        """One program over many arguments; see `Client.map`."""
        run = self._client.map_run(
            jobs, arguments, ordered=ordered, window=window, progress=progress, **options
        )
        try:
            while results := self._thread.run(run.take()):
                yield from results
        finally:
            self._thread.loop.call_soon_threadsafe(run.close)

    def attach(self, job_id: JobId | str, *, timeout: float | None = None) -> BlockingJob:
        """A handle on a job of another process; see `Client.attach`."""
        return BlockingJob(
            self._thread, self._thread.run(self._client.attach(job_id, timeout=timeout))
        )

    def unclaimed(self) -> list[Result]:
        """Results that have come so far of jobs of an earlier process; see `Client.unclaimed`."""
        return self._thread.run(_call(self._client.unclaimed))

    def cancel(self, *job_ids: JobId | str) -> int:
        """End jobs and arrays; returns how many there were to end."""
        return self._thread.run(self._client.cancel(*job_ids))

    # --- questions

    def status(self, job_id: JobId | str, *, timeout: float | None = None) -> JobView | None:
        """One job or task; None if it is not known (any more)."""
        return self._thread.run(self._client.status(job_id, timeout=timeout))

    def array(self, array_id: JobId | str) -> ArrayView | None:
        """One array, by what its tasks do."""
        return self._thread.run(self._client.array(array_id))

    def explain(self, job_id: JobId | str) -> Any:
        """Why a job waits."""
        return self._thread.run(self._client.explain(job_id))

    def counts(self) -> QueueView:
        """All queues added up."""
        return self._thread.run(self._client.counts())

    def queue(self, name: str) -> QueueView | None:
        """One queue."""
        return self._thread.run(self._client.queue(name))

    def queues(self) -> Iterator[QueueView]:
        """Every queue, by name."""
        return self._iterate(self._client.queues())

    def client(self, client_id: str = "") -> ClientView | None:
        """One client; this one if none is named."""
        return self._thread.run(self._client.client(client_id))

    def dead(self) -> Iterator[JobView]:
        """Every dead job, oldest first."""
        return self._iterate(self._client.dead())

    def settings(self) -> Settings:
        """The cluster's settings."""
        return self._thread.run(self._client.settings())

    def cluster(self) -> dict[str, Any]:
        """The members of the group: who leads, who lags."""
        return self._thread.run(self._client.cluster())

    def query(
        self, what: str, key: bytes = b"", limit: int = 100, *, timeout: float | None = None
    ) -> bytes:
        """A view by its name, as msgpack."""
        return self._thread.run(self._client.query(what, key, limit, timeout=timeout))

    # --- changes

    def pause(self, queue: str) -> None:
        """Assign nothing of this queue for now."""
        self._thread.run(self._client.pause(queue))

    def resume(self, queue: str) -> None:
        """Assign again."""
        self._thread.run(self._client.resume(queue))

    def redrive(self, *job_ids: JobId | str) -> int:
        """Give dead jobs new attempts; returns how many were dead."""
        return self._thread.run(self._client.redrive(*job_ids))

    def purge(self, *job_ids: JobId | str) -> int:
        """Forget dead jobs for good; returns how many there were."""
        return self._thread.run(self._client.purge(*job_ids))

    def set_settings(self, settings: Settings) -> None:
        """Replace the cluster's settings."""
        self._thread.run(self._client.set_settings(settings))

    def add_member(self, member_id: MemberId, address: str) -> None:
        """Let a member in; it votes as soon as it has caught up."""
        self._thread.run(self._client.add_member(member_id, address))

    def remove_member(self, member_id: MemberId) -> None:
        """Take a member out."""
        self._thread.run(self._client.remove_member(member_id))

    def transfer(self, member_id: MemberId) -> None:
        """Hand leadership to a member."""
        self._thread.run(self._client.transfer(member_id))

    def _iterate(self, pages: AsyncIterator[Value]) -> Iterator[Value]:
        while (one := self._thread.run(_next(pages))) is not END:
            yield one  # type: ignore[misc]


END = object()


async def _call(function: Callable[[], Value]) -> Value:
    await asyncio.sleep(0)  # in the loop's own time
    return function()


async def _next(pages: AsyncIterator[Value]) -> Value | object:
    return await anext(pages, END)

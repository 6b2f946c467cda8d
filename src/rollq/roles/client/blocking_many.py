"""What the blocking clients share: handles, and submitting from any thread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, Self, Unpack

from rollq.base.errors import LocalError
from rollq.base.ids import ClientId, JobId
from rollq.base.limits import MAP_WINDOW
from rollq.roles.client.handles import Batch, Counts, Job, Progress
from rollq.roles.client.keyed import Ended, KeyedRun
from rollq.roles.client.loop_thread import LoopThread
from rollq.roles.client.many import ManySubmitter
from rollq.roles.client.results import Result
from rollq.roles.client.specs import Input, JobSpec, Options, Payload
from rollq.roles.client.streams import StreamPart
from rollq.roles.client.supply import BytesMoved


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

    def output(
        self, *, follow: bool = True, stream: str = "", tail: int | None = None
    ) -> Iterator[StreamPart]:
        """What it writes; see `Job.output`."""
        return self._thread.iterate(self._job.output(follow=follow, stream=stream, tail=tail))

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


class BlockingKeyedRun:
    """Jobs with ids of their own, some of which may have been submitted before."""

    def __init__(self, thread: LoopThread, run: KeyedRun) -> None:
        self._thread = thread
        self._run = run

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def put(self, specs: Sequence[JobSpec]) -> None:
        """Submit jobs; see `KeyedRun.put`."""
        self._thread.run(self._run.put(specs))

    def take(self, wait_s: float | None = None) -> list[Ended]:
        """Those that ended, at least one; empty if none is on the way, or none ends so soon."""
        return self._thread.run(self._run.take(wait_s))

    def close(self) -> None:
        """End what was made here and has not ended."""
        self._thread.loop.call_soon_threadsafe(self._run.close)


class Startable(Protocol):
    """What is started and stopped in its loop."""

    client_id: ClientId

    async def start(self) -> None:
        """Begin to look for leaders."""

    async def stop(self) -> None:
        """Hang up."""


class BlockingSubmitter:
    """A client in a thread of its own: what clients of one group and of several can do alike."""

    def __init__(self, client: ManySubmitter, startable: Startable) -> None:
        self._submitter = client
        self._startable = startable
        self._thread = LoopThread("rollq-client")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the thread and look for the leader."""
        self._thread.start()
        self._thread.run(self._startable.start())

    def stop(self) -> None:
        """Hang up and end the thread. Jobs go on."""
        try:
            self._thread.run(self._startable.stop())
        except LocalError:
            return  # it is stopped
        self._thread.stop()

    @property
    def client_id(self) -> str:
        """The name that results are owed to."""
        return self._submitter.client_id

    def submit(
        self,
        job: str | JobSpec,
        args: Sequence[str] = (),
        *,
        files: Mapping[str, Input] | None = None,
        outputs: Sequence[str] = (),
        payload: Payload | None = None,
        job_id: JobId | str | None = None,
        key: str = "",
        timeout: float | None = None,
        progress: BytesMoved | None = None,
        **options: Unpack[Options],
    ) -> BlockingJob:
        """Submit one job; see `Client.submit`. `progress` is called in another thread."""
        call = self._submitter.submit(
            job,
            args,
            files=files,
            outputs=outputs,
            payload=payload,
            job_id=job_id,
            key=key,
            timeout=timeout,
            progress=progress,
            **options,
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
        call = self._submitter.submit_many(
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
        files: Mapping[str, Input] | None = None,
        outputs: Sequence[str] = (),
        payload: Payload | None = None,
        running_max: int = 0,
        keep_results: bool = True,
        timeout: float | None = None,
        progress: BytesMoved | None = None,
        **options: Unpack[Options],
    ) -> BlockingBatch:
        """Submit an array; see `Client.submit_array`."""
        call = self._submitter.submit_array(
            exec_name,
            count,
            args,
            files=files,
            outputs=outputs,
            progress=progress,
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
        run = self._submitter.map_run(
            jobs, arguments, ordered=ordered, window=window, progress=progress, **options
        )
        try:
            while results := self._thread.run(run.take()):
                yield from results
        finally:
            self._thread.loop.call_soon_threadsafe(run.close)

    def cancel(self, *job_ids: JobId | str) -> int:
        """End jobs and arrays; returns how many there were to end."""
        return self._thread.run(self._submitter.cancel(*job_ids))

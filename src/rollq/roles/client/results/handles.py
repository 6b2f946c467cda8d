"""Handles that the calls return: one job, or many jobs that were submitted together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from rollq.base.errors import DeadlineError, ErrorCode, RollqError
from rollq.base.ids import JobId, guid_to_text, task_id, task_number
from rollq.base.job_events import JobEvent
from rollq.base.limits import ARRAY_POLL_MS
from rollq.roles.client.engine.base import Engine
from rollq.roles.client.jobs.specs import JobFile
from rollq.roles.client.results.result import CANCELLED, DONE, Result, html_row
from rollq.roles.client.results.streams import StreamPart, output_of
from rollq.wire import messages as wire

Progress = Callable[[int, int | None], None]  # ended jobs, and their total if it is known
TAKEN_MAX = 1_024  # results per `take`: one message may stand for millions of tasks


class Job:
    """A submitted job.

    Attributes:
        job_id: Its id as bytes.
        followers: The ids of the jobs that were submitted with it as `then` or `notify`.
    """

    __slots__ = ("_engine", "_error", "_parents", "_result", "_waiters", "followers", "job_id")

    job_id: JobId
    followers: tuple[str, ...]

    def __init__(
        self,
        engine: Engine,
        job_id: JobId,
        parents: Sequence[Job] = (),
        followers: Sequence[JobId] = (),
    ) -> None:
        self.job_id = job_id
        self.followers = tuple(map(guid_to_text, followers))
        self._parents = parents  # jobs among its arguments
        self._engine = engine
        self._result: Result | None = None
        self._error: RollqError | None = None
        self._waiters: dict[asyncio.Future[None], None] = {}

    @property
    def id(self) -> str:
        """The id as text."""
        return guid_to_text(self.job_id)

    @property
    def is_done(self) -> bool:
        """Whether the result has arrived."""
        return self._result is not None

    def is_of(self, engine: Engine) -> bool:
        """Whether it was submitted by this client."""
        return self._engine is engine

    async def result(self, timeout: float | None = None) -> Result:
        """Wait for the result, at most `timeout` seconds. It may be called again.

        Raises:
            DeadlineError: TIMED_OUT. The job goes on.
            RollqError: DISCONNECTED, if the client was stopped. The job goes on.
        """
        if self._result is None and self._error is None:
            self._engine.loop  # noqa: B018 - raises in a forked child, where it would wait forever
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters[waiter] = None
            try:
                if timeout is None:
                    await waiter
                else:
                    async with asyncio.timeout(timeout):
                        await waiter
            except TimeoutError:
                raise DeadlineError(
                    ErrorCode.TIMED_OUT,
                    f"no result of job {self.id} within {timeout} s",
                    "it is still in the grid: wait again, or cancel it; `rollq explain` says why "
                    "it waits",
                ) from None
            finally:
                del self._waiters[waiter]
        if self._result is None:
            assert self._error is not None
            raise self._error
        return self._result

    async def get(self, timeout: float | None = None) -> Any:
        """Wait for the job and return its value. Raises the exception of the function, or of a job
        among its arguments; JobError if it failed otherwise; and what `result` raises."""
        result = await self.result(timeout)
        if not result.ok:
            for parent in self._parents:
                if parent.is_done:
                    await parent.get()
        if result.is_large:
            await result.aload()
        return result.get()

    def file(self, name: str) -> JobFile:
        """Refer to an output file of this job as an input of another job. That job waits for this
        one to end ok, and its worker downloads the file. `-` is stdout."""
        return JobFile(self.job_id, name)

    def output(
        self, *, follow: bool = True, stream: str = "", tail: int | None = None
    ) -> AsyncGenerator[StreamPart, None]:
        """Iterate over its output, while it runs and after its end; see `Client.output`. With
        `follow` and without `tail` the output is complete."""
        return output_of(
            self._engine,
            self.job_id,
            follow=follow,
            stream=stream,
            tail=tail,
            whole=True,
            result=self._result,
            ending=self.result if follow else None,
        )

    def events(self) -> AsyncGenerator[JobEvent, None]:
        """Iterate over its events from now until its end; see `Client.events`."""
        return self._engine.events(self.job_id)

    async def cancel(self) -> bool:
        """Cancel it; false if it had ended."""
        return await self._engine.cancel((self.job_id,)) > 0

    def deliver(self, results: Sequence[wire.Result]) -> bool:
        """Set the result."""
        self._result = Result(results[0], self._engine)
        self._wake()
        return True

    def fail(self, error: RollqError) -> None:
        """The client was stopped."""
        self._error = error
        self._wake()

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def __repr__(self) -> str:
        return f"<Job {self.id}{' done' if self._result else ''}>"

    def _repr_html_(self) -> str:
        return html_row(
            "Job", self.id, "not ended" if self._result is None else self._result.ending
        )


@dataclass(slots=True)
class Counts:
    """Number of jobs of a batch by their outcome."""

    total: int = 0
    ok: int = 0
    failed: int = 0
    dead: int = 0
    cancelled: int = 0
    cut: int = 0  # not accepted: refused, or an array task whose id belongs to another job

    @property
    def ended(self) -> int:
        """The number of jobs that ended."""
        return self.ok + self.failed + self.dead + self.cancelled + self.cut


class Batch:
    """Many submitted jobs: a bulk or an array. Ids are consecutive, so it needs little memory.

    Args:
        engine: The client.
        first_id: The id of job 0.
        keeps: Whether results are kept for `results`, or only counted.
        array_id: The id of the array; empty: it is none.

    Attributes:
        counts: Number of jobs by outcome so far.
    """

    first_id: JobId
    array_id: JobId
    counts: Counts

    def __init__(
        self, engine: Engine, first_id: JobId, *, keeps: bool, array_id: JobId = b""
    ) -> None:
        self.first_id = first_id
        self.array_id = array_id
        self.counts = Counts()
        self._engine = engine
        self._keeps = keeps
        self._ended = bytearray()
        self._kept: deque[wire.Result] = deque()
        self._wake = asyncio.Event()
        self._is_complete = False  # no more jobs will be added
        self._error: RollqError | None = None

    def __len__(self) -> int:
        return self.counts.total

    @property
    def id(self) -> str:
        """The id of the array, or of the first job."""
        return guid_to_text(self.array_id or self.first_id)

    @property
    def is_done(self) -> bool:
        """Whether every job has ended."""
        return self._is_complete and self.counts.ended >= self.counts.total

    def job_ids(self) -> Iterator[JobId]:
        """Iterate over the ids, in the order of submission."""
        return (task_id(self.first_id, number) for number in range(len(self)))

    async def wait(self, timeout: float | None = None, progress: Progress | None = None) -> Counts:
        """Wait until all have ended, and return the counts.

        Raises:
            DeadlineError: TIMED_OUT. The jobs go on.
        """
        try:
            async with asyncio.timeout(timeout):
                while not self.is_done:
                    await self._next()
                    if progress is not None:
                        progress(self.counts.ended, self.counts.total)
        except DeadlineError:
            raise
        except TimeoutError:
            raise DeadlineError(
                ErrorCode.TIMED_OUT,
                f"{self.counts.ended} of {len(self)} jobs ended within {timeout} s",
                "they are still in the grid: wait again, or cancel them",
            ) from None
        return self.counts

    async def take(self) -> list[Result]:
        """Return the results that arrived since the last call; waits for one, empty at the end."""
        while not self._kept and not self.is_done:
            await self._next()
        kept, self._kept = self._kept, deque()
        taken: list[Result] = []
        while kept and len(taken) < TAKEN_MAX:
            one = kept.popleft()
            count = min(one.count, TAKEN_MAX)
            taken += [Result(single(one, number), self._engine) for number in range(count)]
            if one.count > TAKEN_MAX:
                rest = one.count - TAKEN_MAX
                kept.appendleft(structs.replace(single(one, TAKEN_MAX), count=rest))
        kept.extend(self._kept)
        self._kept = kept
        return taken

    async def results(self) -> AsyncGenerator[Result, None]:
        """Iterate over the results as they arrive. Each is returned once and then dropped. There
        are none if the batch does not keep results."""
        while taken := await self.take():
            for one in taken:
                yield one

    async def cancel(self) -> int:
        """Cancel the jobs that have not ended; returns how many."""
        if self.array_id:
            return await self._engine.cancel((self.array_id,))
        left = [one for one, ended in zip(self.job_ids(), self._ended, strict=True) if not ended]
        return await self._engine.cancel(left)

    def __repr__(self) -> str:
        return f"<Batch {self.id} {self.counts.ended} of {len(self)} ended>"

    def _repr_html_(self) -> str:
        return html_row("Batch", self.id, f"{self.counts.ended} of {len(self)} ended")

    # --- called by the client

    def extend(self, count: int) -> None:
        """Add jobs."""
        self.counts.total += count
        self._ended.extend(bytes(count))

    def cut(self, first: int, count: int = 1) -> None:
        """Count jobs as not accepted."""
        for number in range(first, first + count):
            if not self._ended[number]:
                self._ended[number] = 1
                self.counts.cut += 1

    def fail(self, error: RollqError) -> None:
        """The client was stopped."""
        self._error = error
        self._wake.set()

    def complete(self) -> None:
        """No more jobs will be added."""
        self._is_complete = True
        self._wake.set()

    def deliver(self, results: Sequence[wire.Result]) -> bool:
        """Count and keep results."""
        for result in results:
            number, count = task_number(self.first_id, result.job_id), result.count
            if number + count <= len(self._ended) and not self._ended[number]:
                if count == 1:
                    self._ended[number] = 1
                else:
                    self._ended[number : number + count] = bytes((1,)) * count
                self._count(result, count)
        self._wake.set()
        return self.is_done

    def _count(self, result: wire.Result, count: int) -> None:
        counts = self.counts
        if result.outcome == DONE:
            if result.status == 0:
                counts.ok += 1
            else:
                counts.failed += 1
        elif result.outcome == CANCELLED:
            counts.cancelled += count
        else:
            counts.dead += count
        if self._keeps:
            self._kept.append(result)

    async def _next(self) -> None:
        """Wait for a change."""
        if self._error is not None:
            raise self._error
        self._engine.loop  # noqa: B018 - raises in a forked child, where it would wait forever
        self._wake.clear()
        if not self.array_id:
            await self._wake.wait()
            return
        try:
            async with asyncio.timeout(ARRAY_POLL_MS / 1000):
                await self._wake.wait()
        except TimeoutError:
            before = self.counts.ended
            # Results precede the answer on the link, unless they are resent from an earlier
            # session.
            for _ in range(2):
                try:
                    if not await self._engine.is_array_over(self.array_id):
                        return
                except DeadlineError:
                    return  # without a leader the wait goes on, as for a single job
            if self.counts.ended == before:
                self.counts.cut = self.counts.total - before


def single(result: wire.Result, number: int) -> wire.Result:
    """The result of one task, from a message for several."""
    if result.count == 1:
        return result
    return structs.replace(result, job_id=task_id(result.job_id, number), count=1)

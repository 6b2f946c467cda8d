"""Submitting one job, or one program over many arguments: what every kind of client can do.

Where a request goes, to one group or to one of several, is the subclass's business.
"""

from __future__ import annotations

import asyncio
import secrets
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence, Sized
from pathlib import Path
from typing import Any, Final, Unpack

from rollq.base.errors import DeadlineError, DialError, ErrorCode, LocalError, RollqError
from rollq.base.ids import ClientId, JobId, MessageId
from rollq.base.jobs import BlobRef
from rollq.base.limits import CONFIRM_JOBS_MAX, MAP_WINDOW
from rollq.roles.client.answers import error_of
from rollq.roles.client.deadlines import Deadlines
from rollq.roles.client.forks import Home
from rollq.roles.client.handles import PREFIX_BYTES, Job, Progress, Sink
from rollq.roles.client.inputs import Inputs
from rollq.roles.client.machine import id_of
from rollq.roles.client.mapping import MapRun
from rollq.roles.client.results import Result
from rollq.roles.client.session import Answer, OnAnswer, Session
from rollq.roles.client.signals import Request
from rollq.roles.client.specs import (
    Input,
    JobSpec,
    Options,
    Payload,
    as_id,
    as_specs,
    body_of,
    id_for,
    job_options,
    subject_of,
)
from rollq.roles.client.streams import Ending, OutputReader, StreamPart
from rollq.roles.client.supply import (
    NOTHING,
    BytesMoved,
    Supply,
    blobs_of,
    caches_of,
    supply_of,
)
from rollq.wire import messages as wire

ACCEPTED_PERHAPS: Final = (
    "; a job may have been accepted all the same, and may be submitted again under the same id"
)


class Submitter(ABC):
    """The part of a client that makes jobs and hands out their results.

    Attributes:
        takes_bulks: Whether many jobs may go in one message.
    """

    takes_bulks = False

    def __init__(self, client_id: ClientId, timeout_s: float) -> None:
        self.client_id = client_id or secrets.token_hex(8)
        self._timeout_s = timeout_s
        self._deadlines = Deadlines()
        self._inputs = Inputs()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._home = Home()  # where it was started
        self._routes: dict[bytes, Sink] = {}  # by job id, or by what the ids of a batch share

    async def submit(
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
    ) -> Job:
        """Submit one job; returns when it is accepted: on the disks of a majority.

        `files` are its inputs by name: bytes, the path of a file, the path of a folder (with all
        that is in it), or what the grid has already. Small ones ride in the job; others go up
        first, as far as the grid lacks them, and `progress` is told how much of them it has.
        `outputs` are patterns of the files to bring back; all that are new if there are none.
        `timeout` counts from when the files are there.

        A job with an id or a `key` of your own may be submitted again, also by another process
        under the same client id: it runs once, and its result comes to whoever asked last. The key
        is told with its result and in the history.

        Raises:
            DeadlineError: nobody accepted it in time. It may have been accepted all the same.
            RollqError: it was refused; the code and the hint say why.
        """
        name = job if isinstance(job, str) else ""
        spec = JobSpec(name, args, files or {}, payload, job_id, options, outputs, key)
        if not isinstance(job, str):
            if spec != JobSpec(""):
                raise LocalError(
                    ErrorCode.BAD_OPTIONS, "a spec carries its own arguments and options"
                )
            spec = job
        spec = await self.settle(spec) if spec.files else spec
        request = self._request(spec)
        handle = Job(self, request.job_id)
        if self._routes.setdefault(request.job_id, handle) is not handle:
            raise LocalError(
                ErrorCode.ID_CONFLICT,
                f"job {handle.id} was submitted here and has not ended",
                "use the handle of the first submit",
            )
        try:
            await self._call(request, timeout, supply_of(spec, progress))
        except BaseException:
            self._routes.pop(request.job_id, None)
            raise
        return handle

    async def map(
        self,
        jobs: str | Iterable[JobSpec],
        arguments: Iterable[Any] | None = None,
        *,
        ordered: bool = False,
        window: int = MAP_WINDOW,
        progress: Progress | None = None,
        **options: Unpack[Options],
    ) -> AsyncIterator[Result]:
        """One program over many arguments: results as they come, or in order.

        `arguments` may be endless: at most `window` jobs are on the way. An element is a string,
        a sequence of strings, or bytes (a payload). Leaving the loop early cancels the rest.
        """
        run = self.map_run(
            jobs, arguments, ordered=ordered, window=window, progress=progress, **options
        )
        try:
            while results := await run.take():
                for result in results:
                    yield result
        finally:
            run.close()

    def map_run(
        self,
        jobs: str | Iterable[JobSpec],
        arguments: Iterable[Any] | None = None,
        *,
        ordered: bool = False,
        window: int = MAP_WINDOW,
        progress: Progress | None = None,
        **options: Unpack[Options],
    ) -> MapRun:
        """The same as `map`, to be taken in handfuls and closed by hand."""
        if window < 1:
            raise LocalError(ErrorCode.BAD_OPTIONS, f"a window of {window}", "use 1 or more")
        source = jobs if arguments is None else arguments
        return MapRun(
            self,
            as_specs(jobs, arguments, options),
            window=window,
            ordered=ordered,
            total=len(source) if isinstance(source, Sized) else None,
            progress=progress,
            patience_s=self._timeout_s,
        )

    async def cancel(self, *job_ids: JobId | str) -> int:
        """End jobs and arrays: what waits at once, what runs as soon as its worker obeys. Returns
        how many there were to end."""
        ids = [as_id(one) for one in job_ids]
        count = 0
        for first in range(0, len(ids), CONFIRM_JOBS_MAX):
            count += await self._cancel(tuple(ids[first : first + CONFIRM_JOBS_MAX]))
        return count

    def output(
        self,
        job_id: JobId | str,
        *,
        follow: bool = True,
        stream: str = "",
        tail: int | None = None,
        whole: bool = False,
        result: Result | None = None,
        ending: Ending | None = None,
    ) -> AsyncGenerator[StreamPart, None]:
        """What a job writes: while it runs as it comes, after its end from the result.

        Args:
            job_id: Any job, also one of another client.
            follow: Whether to go on until it is over; else only what it has written by now.
            stream: `stdout` or `stderr`; empty: both, each in its order.
            tail: Of what it has written by now, only the last lines of each stream.
            whole: Nothing may be left out, also if it was written before this call or faster than
                it can be shown. What does not come while it runs comes at its end.
            result: Its result, if that is here already.
            ending: What waits for its result; left out, the grid is asked for it.

        Raises:
            RollqError: UNKNOWN_JOB; TIMED_OUT, if nobody answered.
        """
        wanted = as_id(job_id)
        is_whole = whole and follow and tail is None
        reader = OutputReader(self._session_of(wanted), wanted, self, stream, whole=is_whole)
        return reader.parts(self._timeout_s, follow=follow, tail=tail, result=result, ending=ending)

    # --- what a subclass must do

    @abstractmethod
    def _session_of(self, job_id: JobId) -> Session:
        """The way to the group that has a job."""

    @abstractmethod
    def ask(self, request: Request, on_answer: OnAnswer, supply: Supply = NOTHING) -> None:
        """Send a request, after its files; the callback gets its answer."""

    @abstractmethod
    def uploaded_at(self) -> float:
        """When files were on their way last, by the loop's clock."""

    @abstractmethod
    async def fetch(self, ref: BlobRef, path: Path, progress: BytesMoved | None = None) -> None:
        """Bring a blob into a file, verified."""

    @abstractmethod
    async def _cancel(self, job_ids: tuple[JobId, ...]) -> int:
        """End jobs; how many there were to end."""

    @abstractmethod
    def give_up(self, request_id: MessageId) -> None:
        """Nobody waits for the answer any more."""

    @abstractmethod
    def _leave(self, job_ids: tuple[JobId, ...]) -> None:
        """End jobs that were given up, and confirm their results unseen."""

    @abstractmethod
    def _trouble(self) -> str:
        """Why nobody answers, if that is known."""

    @abstractmethod
    def _was_sent(self) -> bool:
        """Whether anything was ever sent, so that it may have been accepted."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop that this client lives in. Raises LocalError BAD_SETUP in a forked child."""
        self._home.check()
        if self._loop is None:
            raise LocalError(
                ErrorCode.BAD_SETUP, "the client is not started", "use `async with`, or start it"
            )
        return self._loop

    # --- for those who submit without a coroutine a job

    async def settle(self, spec: JobSpec) -> JobSpec:
        """Read the files of a job, as far as they are not in it."""
        return await self._inputs.settle(spec)

    async def settle_all(self, specs: Sequence[JobSpec]) -> Sequence[JobSpec]:
        """The same for many."""
        return await self._inputs.settle_all(specs)

    def enter(self, spec: JobSpec, sink: Sink, on_answer: OnAnswer) -> JobId:
        """Submit a job whose result is for the sink; nobody waits."""
        request = self._request(spec)
        if self._routes.setdefault(request.job_id, sink) is not sink:
            raise LocalError(ErrorCode.ID_CONFLICT, "a job of this id was submitted here already")
        try:
            self.ask(request, on_answer, supply_of(spec))
        except BaseException:
            self._routes.pop(request.job_id, None)
            raise
        return request.job_id

    def expect(self, prefix: bytes, sink: Sink) -> None:
        """Results of jobs whose ids begin so are for the sink, until it has all of them."""
        self._routes[prefix] = sink

    def drop(self, key: bytes) -> None:
        """No result will come for this id or prefix: what was asked for was refused, or is over."""
        self._routes.pop(key, None)

    def leave(self, job_ids: Iterable[JobId]) -> None:
        """Nobody wants these results any more: end the jobs, take their results unseen."""
        ids = list(job_ids)
        for job_id in ids:
            self._routes.pop(job_id, None)
            self.give_up(job_id)
        for first in range(0, len(ids), CONFIRM_JOBS_MAX):
            self._leave(tuple(ids[first : first + CONFIRM_JOBS_MAX]))

    def overdue(self, what: str, wait_s: float | None = None) -> RollqError:
        """The error for what nobody answered in time."""
        trouble = self._trouble()
        return DeadlineError(
            ErrorCode.TIMED_OUT,
            f"no answer within {self._timeout_s if wait_s is None else wait_s:g} s: {what}"
            + (f" ({trouble})" if trouble else ""),
            "check that a majority of the members runs"
            + (ACCEPTED_PERHAPS if what != wire.Query.__name__ and self._was_sent() else ""),
        )

    # --- helpers

    def _request(self, spec: JobSpec) -> wire.SubmitJob:
        job_id = id_for(spec, self.client_id)
        return wire.SubmitJob(
            job_id,
            self.client_id,
            subject_of(spec.exec_name, spec.options),
            spec.exec_name,
            body_of(spec, job_id, self.client_id),
            job_options(spec.options),
            blobs_of(spec),
            caches_of(spec),
            spec.key,
        )

    async def _call(
        self, request: Request, timeout: float | None = None, supply: Supply = NOTHING
    ) -> Any:
        """Ask, and wait for the answer. Raises what a refusal means, and DeadlineError."""
        answered: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()

        def on_answer(answer: Answer) -> None:
            if not answered.done():
                answered.set_result(answer)

        wait_s = self._timeout_s if timeout is None else timeout
        self.ask(request, on_answer, supply)
        answer = None
        try:
            if supply is not NOTHING:
                answer = answered.result() if await self.uploaded(answered, wait_s) else None
            else:
                self._deadlines.add(answered, wait_s)
                try:
                    answer = await answered
                finally:
                    self._deadlines.remove(answered)
        finally:
            if answer is None:  # out of time, or cancelled
                self.give_up(id_of(request))
        if answer is None:
            raise self.overdue(type(request).__name__, wait_s)
        if type(answer) is wire.Error:
            raise error_of(answer)
        return answer

    async def uploaded(self, answered: asyncio.Future[Any], wait_s: float) -> bool:
        """Wait for an answer; there is time from when no files are on their way any more. False:
        there is none."""
        asked_at = self.loop.time()
        while not answered.done():
            left_s = max(asked_at, self.uploaded_at()) + wait_s - self.loop.time()
            if left_s <= 0:
                return False
            await asyncio.wait((answered,), timeout=left_s)
        return True

    def _fail_all(self) -> None:
        """Nobody will be told a result any more."""
        self._deadlines.stop()
        routes, self._routes = self._routes, {}
        error = DialError(
            ErrorCode.DISCONNECTED,
            "the client was stopped",
            "jobs go on; come back under the same client id for their results",
        )
        for sink in dict.fromkeys(routes.values()):
            sink.fail(error)

    def _deliver_all(self, results: list[wire.Result]) -> list[wire.Result]:
        """Hand results to whoever waits for them; those that nobody waits for."""
        routes = self._routes
        runs: dict[bytes, list[wire.Result]] = {}
        for result in results:
            sink = routes.get(result.job_id)
            if sink is not None:
                del routes[result.job_id]
                sink.deliver((result,))
                continue
            prefix = result.job_id[:PREFIX_BYTES]
            run = runs.get(prefix)
            if run is None:
                runs[prefix] = run = []
            run.append(result)
        strangers: list[wire.Result] = []
        for prefix, run in runs.items():
            sink = routes.get(prefix)
            if sink is None:
                strangers += run
            elif sink.deliver(run):
                routes.pop(prefix, None)
        return strangers

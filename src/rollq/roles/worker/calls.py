"""Calls of Python functions: in the event loop, or in the pool of warm processes."""

from __future__ import annotations

import asyncio
import contextvars
import os
import time
import types
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from msgspec import UNSET

from rollq.base.digests import Digest
from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.ids import guid_texts
from rollq.base.job_events import JobProgress
from rollq.base.jobs import DEFAULT_OPTIONS, AttemptRef, JobOptions, Status
from rollq.roles.worker.app import raised, raised_value, returned, returned_value
from rollq.roles.worker.bundles import BundleRun
from rollq.roles.worker.call_files import CallFiles, list_files
from rollq.roles.worker.outputs import ExecutionEnd, refusal, value_parts
from rollq.roles.worker.signals import StoredResult
from rollq.roles.worker.warm import WarmCall, WarmPool
from rollq.roles.worker.warm_main import WarmRequest
from rollq.tasks import ATTEMPT, ENDS, Task
from rollq.values.calls import Bundle, is_bundle, unpack_call
from rollq.wire.messages import AssignJob
from rollq.wire.models import JSON_OBJECT_STARTS, JobRequest, decode_if_marked

TURN_MS_MAX: Final = 2  # how long calls that never wait may block the event loop


# Job, attempt, run time, value, and whether it was a call with values.
Returned: TypeAlias = tuple[AssignJob, AttemptRef, int, Any, bool]


class LoopOwner(Protocol):
    """Handles the ends of calls in the loop."""

    def result_of(
        self, job: AssignJob, ref: AttemptRef, ending: ExecutionEnd
    ) -> StoredResult | None:
        """The result of a call; None: it follows after its outputs are uploaded."""

    def calls_ended(self, results: list[StoredResult], ran_s: float) -> None:
        """Calls ended without waiting, each after `ran_s` on average. More may be added now."""

    def call_waits(self, call: LoopCall, rest: list[AttemptRef]) -> None:
        """A call waits: it can be killed from now on. The rest was removed from the line; some of
        it may be added again."""

    def call_ended(self, call: LoopCall, ending: ExecutionEnd) -> None:
        """A call that had waited ended."""


class LoopCalls:
    """The coroutine functions that run in the worker's event loop.

    Calls are queued and share a task, one after the other: creating a task costs more than a call
    that never waits. A call that waits keeps the task for itself.

    Args:
        loop: The event loop.
        owner: Handles their ends.
        tasks: The functions by name.
        path_of: Returns the path of a stored blob.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        owner: LoopOwner,
        tasks: Mapping[str, Task[..., Any]],
        path_of: Callable[[Digest], Path],
    ) -> None:
        self._path_of = path_of
        self.loop = loop
        self._owner = owner
        self._tasks = tasks
        self._line: deque[tuple[AssignJob, AttemptRef]] = deque()  # not started
        self._task: asyncio.Task[None] | None = None  # runs the calls of the line

    def add(self, jobs: Iterable[tuple[AssignJob, AttemptRef]]) -> None:
        """Queue calls; they start in this turn of the loop or the next."""
        self._line.extend(jobs)
        if self._task is None and self._line:
            self._task = self.loop.create_task(self._serve())

    def remove(self, ref: AttemptRef) -> AssignJob | None:
        """Remove a call from the queue; None: it has started, or is not queued."""
        for queued in self._line:
            if queued[1] == ref:
                self._line.remove(queued)
                return queued[0]
        return None

    def clear(self) -> None:
        """Start no more calls."""
        self._line.clear()

    async def _serve(self) -> None:
        task = asyncio.current_task()
        assert task is not None, "called by create_task"
        pause_s = time.perf_counter() + TURN_MS_MAX / 1000
        while self._line:
            call = self._call_all(task, pause_s)
            if call is not None:
                self._task = None  # belongs to this call now; the others get a new one
                rest = [ref for _, ref in self._line]
                self._line.clear()
                self._owner.call_waits(call, rest)
                await call.go_on()
                return
            if task.cancelling():  # a call cancelled itself; the others must go on
                break
            if self._line and time.perf_counter() > pause_s:
                await asyncio.sleep(0)
                pause_s = time.perf_counter() + TURN_MS_MAX / 1000
        self._task = None
        self.add(())

    def _call_all(self, task: asyncio.Task[None], pause_s: float) -> LoopCall | None:
        """Run calls until it is time for a pause, or one waits: that one is returned."""
        line, results = self._line, list[StoredResult]()
        values: list[Returned] = []
        # Bound to locals once for all calls.
        tasks, clock, copy_context = self._tasks, time.perf_counter, contextvars.copy_context
        path_of = self._path_of
        is_cancelled, set_attempt = task.cancelling, ATTEMPT.set
        begun_s = now_s = clock()
        count = 0  # of calls that did not return
        waiting: LoopCall | None = None
        while line and now_s <= pause_s:
            job, ref = line.popleft()
            before_s = now_s
            valued = False
            try:
                coroutine, valued = begun(tasks[job.exec_name], job, path_of)
                in_context = copy_context().run
                in_context(set_attempt, ref)
                if job.ends:
                    in_context(ENDS.set, job.ends)
                waits_for = in_context(coroutine.send, None)
            except StopIteration as stop:
                now_s = clock()
                values.append((job, ref, int((now_s - before_s) * 1000), stop.value, valued))
                if is_cancelled():
                    break
                continue
            except CannotCallError as error:
                ending = refusal(str(error))
            except BaseException as error:
                # SystemExit too: a function may end itself, but not the worker.
                ending = how_raised(tasks[job.exec_name], error, valued=valued)
            else:
                steps = WaitingCall(coroutine, in_context, waits_for, tasks[job.exec_name], valued)
                waiting = LoopCall(self._owner, task, job, ref, steps=steps, begun_s=before_s)
                break
            now_s = clock()
            count += 1
            self._end(job, ref, int((now_s - before_s) * 1000), ending, results)
            if is_cancelled():
                break
        count += len(values)
        if count:
            self._encode(values, results)
            self._owner.calls_ended(results, (now_s - begun_s) / count)
        return waiting

    def _end(
        self,
        job: AssignJob,
        ref: AttemptRef,
        run_ms: int,
        ending: ExecutionEnd,
        results: list[StoredResult],
    ) -> None:
        ending.run_ms = run_ms
        result = self._owner.result_of(job, ref, ending)
        if result is not None:
            results.append(result)

    def _encode(self, values: list[Returned], results: list[StoredResult]) -> None:
        """Make results of the values that calls returned."""
        texts = guid_texts(b"".join([job.job_id for job, *_ in values]))
        ok, parts = Status.OK, None
        like: tuple[str, str, Any] = ("", "", self)  # client, function and value of `parts`
        for (job, ref, run_ms, value, valued), ident in zip(values, texts, strict=True):
            if valued:
                self._end(job, ref, run_ms, how_returned(value, valued=True), results)
                continue
            if value is not like[2] or job.exec_name is not like[1] or job.client_id is not like[0]:
                like = job.client_id, job.exec_name, value
                parts = value_parts(*like)
            if parts is None:
                self._end(job, ref, run_ms, returned(value), results)
            else:
                before, between, after = parts
                encoded = b"%b%b%b%d%b" % (before, ident, between, run_ms, after)
                results.append(StoredResult(ref, job.lease_ms, ok, encoded, 0, 0, run_ms))


class WaitingCall(NamedTuple):
    """A coroutine that waits."""

    coroutine: Coroutine[Any, Any, Any]
    in_context: Callable[..., Any]  # runs a function in its context
    waits_for: Any
    function: Task[..., Any]
    valued: bool  # whether it was called with values


class LoopCall:
    """One call of a coroutine function that waits. It is cancelled at its first run limit.

    Attributes:
        job: Of the call.
        ref: The attempt.
        begun_s: Its start, by the performance counter.
    """

    __slots__ = ("_cancelled", "_note", "_owner", "_steps", "_task", "begun_s", "job", "ref")

    def __init__(
        self,
        owner: LoopOwner,
        task: asyncio.Task[None],
        job: AssignJob,
        ref: AttemptRef,
        *,
        steps: WaitingCall,
        begun_s: float,
    ) -> None:
        self._owner = owner
        self._task = task
        self._steps = steps
        self._cancelled = False
        self._note = ""
        self.begun_s = begun_s
        self.job = job
        self.ref = ref

    async def go_on(self) -> None:
        """Run the rest of the call, in its task."""
        timer = self._set_limit()
        ending = await self._step_through()
        if timer is not None:
            timer.cancel()
        if self._note:
            ending.status = Status.FAILED
            ending.notes.append(self._note)
        ending.run_ms = int((time.perf_counter() - self.begun_s) * 1000)
        self._owner.call_ended(self, ending)

    def kill(self) -> None:
        """Cancel it."""
        self._cancelled = True
        self._task.cancel()

    @types.coroutine
    def _step_through(self) -> Generator[Any, Any, ExecutionEnd]:
        coroutine, in_context, waits_for, function, valued = self._steps
        try:
            while True:
                try:
                    sent = yield waits_for
                except BaseException as error:
                    waits_for = in_context(coroutine.throw, error)
                else:
                    waits_for = in_context(coroutine.send, sent)
        except StopIteration as stop:
            return how_returned(stop.value, valued=valued)
        except BaseException as error:
            if self._cancelled and isinstance(error, asyncio.CancelledError):
                return ExecutionEnd(Status.CANCELLED)
            return how_raised(function, error, valued=valued)

    def _set_limit(self) -> asyncio.TimerHandle | None:
        """Schedule the cancellation at the first of its limits."""
        options = self.job.options
        limits = [ms for ms in (options.run_ms_soft, options.run_ms_max) if ms] if options else []
        if not limits:
            return None
        left_s = self.begun_s + min(limits) / 1000 - time.perf_counter()
        loop = self._task.get_loop()
        return loop.call_later(max(left_s, 0), self._out_of_time, min(limits))

    def _out_of_time(self, limit_ms: int) -> None:
        self._note = f"cancelled, run limit of {limit_ms / 1000:g} s exceeded"
        self._task.cancel()


class PooledCall:
    """A plain function in a warm process. Its time counts from its start in the process."""

    __slots__ = ("_call", "_on_end", "_options", "_pool", "_started_s", "_timers")

    def __init__(
        self,
        pool: WarmPool,
        call: WarmRequest,
        options: JobOptions,
        on_end: Callable[[ExecutionEnd], None],
        on_progress: Callable[[JobProgress], None],
        *,
        blobs: Sequence[Path] = (),
    ) -> None:
        self._pool = pool
        self._options = options
        self._on_end = on_end
        self._timers: list[asyncio.TimerHandle] = []
        self._started_s = time.perf_counter()
        self._call = WarmCall(call, self._begun, self._ended, on_progress, blobs=blobs)
        pool.run(self._call)

    def kill(self) -> None:
        """Kill the process that runs it, or remove it from the queue."""
        if self._pool.drop(self._call):
            self._ended(ExecutionEnd(Status.CANCELLED))
        else:
            self._call.cancelled = True
            self._call.end_hard("cancelled")

    def _begun(self) -> None:
        """Start the timers: TimeoutError inside the function at the soft limit, the end of its
        process at the hard one."""
        self._started_s = time.perf_counter()
        if self._options is DEFAULT_OPTIONS:
            return
        for limit_ms, act, what in (
            (self._options.run_ms_soft, self._call.end_softly, "told to end, soft run limit"),
            (self._options.run_ms_max, self._call.end_hard, "killed, run limit"),
        ):
            if limit_ms:
                why = f"{what} of {limit_ms / 1000:g} s exceeded"
                self._timers.append(self._pool.loop.call_later(limit_ms / 1000, act, why))

    def _ended(self, ending: ExecutionEnd) -> None:
        for timer in self._timers:
            timer.cancel()
        ending.run_ms = int((time.perf_counter() - self._started_s) * 1000)
        self._on_end(ending)


def request_of(job: AssignJob) -> JobRequest | None:
    """The request of a function; None: the job is a bare payload.

    Raises:
        RemoteError: the job has files, which a function without values cannot use.
    """
    request = decode_if_marked(job.body, JobRequest, "JobId")
    if request is not None and request.files and request.call is UNSET:
        raise RemoteError(
            ErrorCode.BAD_PAYLOAD,
            f"{job.exec_name[:64]!a} is a function, which takes no files",
            "pass what it needs as arguments or as the payload",
        )
    return request


def call_of(
    job: AssignJob, request: JobRequest | None, ref: AttemptRef, env: dict[str, str]
) -> WarmRequest:
    """A job as it is sent to a warm process.

    Raises:
        RemoteError: a file of its arguments is invalid.
    """
    name, given = job.exec_name, env or None
    if request is None:
        return WarmRequest(name, None, job.body, given, ref=ref, ends=job.ends)
    if request.call is UNSET:
        return WarmRequest(name, request.args or (), b"", given, ref=ref, ends=job.ends)
    files = list_files(job, request)
    return WarmRequest(
        name, None, b"", given, call=request.call, files=files, ref=ref, ends=job.ends
    )


def begun(
    function: Task[..., Any], job: AssignJob, path_of: Callable[[Digest], Path]
) -> tuple[Coroutine[Any, Any, Any], bool]:
    """A coroutine for a call that has not started, and whether it is a call with values. `path_of`
    returns the path of a blob.

    Raises:
        CannotCallError: the job cannot run as a coroutine function.
        Exception: its arguments do not fit.
    """
    if job.options is not None and job.options.secrets:
        raise CannotCallError(str(no_env_in_loop(job)))
    if not job.body.startswith(JSON_OBJECT_STARTS):
        payload: Coroutine[Any, Any, Any] = function.function(*function.payload_args(job.body))
        return payload, False
    try:
        request = request_of(job)
    except RemoteError as error:
        raise CannotCallError(str(error)) from None
    if request is None:
        values = function.payload_args(job.body)
    elif request.env:  # coroutine functions share the worker's own process, and its environment
        raise CannotCallError(str(no_env_in_loop(job)))
    elif request.call is not UNSET:
        return _called_with_values(function, job, request, path_of), True
    else:
        values = function.call_args(request.args or ())
    coroutine: Coroutine[Any, Any, Any] = function.function(*values)
    return coroutine, False


async def _called_with_values(
    function: Task[..., Any],
    job: AssignJob,
    request: JobRequest,
    path_of: Callable[[Digest], Path],
) -> Any:
    try:
        listed = list_files(job, request)
    except RemoteError as error:
        raise CannotCallError(str(error)) from None
    files = CallFiles(
        listed, lambda: [os.open(path_of(blob.digest), os.O_RDONLY) for blob in job.blobs]
    )
    try:
        assert request.call is not UNSET, "checked by the caller"
        if is_bundle(request.call):
            return await _called_all(function, BundleRun(function, Bundle(request.call, files)))
        args, kwargs = function.checked_values(*unpack_call(request.call, files))
        return await function.function(*args, **kwargs)
    finally:
        files.close()


async def _called_all(function: Task[..., Any], run: BundleRun) -> BundleRun:
    """Run the calls of a bundle one after the other."""
    for row in run.bundle.rows:
        try:
            args, kwargs = function.checked_values(*run.bundle.values(row))
            value = await function.function(*args, **kwargs)
        except Exception as error:
            run.raised(error)
        else:
            run.returned(value)
    return run


def how_returned(value: Any, *, valued: bool) -> ExecutionEnd:
    """The end of a call in the loop that returned."""
    if not valued:
        return returned(value)
    ending, parts = value.ending() if type(value) is BundleRun else returned_value(value)
    if parts:
        ending.data = b"".join(parts)
    return ending


def how_raised(function: Task[..., Any], error: BaseException, *, valued: bool) -> ExecutionEnd:
    """The end of a call in the loop that raised."""
    exit_code = function.exit_code_of(error)
    return raised_value(error, exit_code) if valued else raised(error, exit_code)


class CannotCallError(Exception):
    """A job that cannot run as it was requested, on any worker."""


def no_env_in_loop(job: AssignJob) -> RemoteError:
    """The error for an environment of a coroutine function: it has no process of its own."""
    return RemoteError(
        ErrorCode.BAD_PAYLOAD,
        f"{job.exec_name[:64]!a} is a coroutine function, which has no environment of its own",
        "pass what it needs as arguments, or make it a plain function",
    )

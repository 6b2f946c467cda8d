"""The grid as a `concurrent.futures.Executor`."""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from concurrent.futures import Executor as BaseExecutor
from contextlib import contextmanager
from math import inf
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, Unpack, cast

import msgspec

from rollq.base.errors import ErrorCode, LocalError, RollqError
from rollq.base.ids import JobId
from rollq.base.limits import CLIENT_PENDING_MAX, MAP_WINDOW
from rollq.roles.client.answers import error_of
from rollq.roles.client.blocking.loop_thread import LoopThread
from rollq.roles.client.engine.one_group import GroupEngine
from rollq.roles.client.functions.calls import as_task, call_spec, task_of
from rollq.roles.client.jobs.inputs import needs_reading
from rollq.roles.client.jobs.options import Options
from rollq.roles.client.jobs.specs import JobSpec
from rollq.roles.client.jobs.supply import supply_of
from rollq.roles.client.many.function_run import FunctionRun, MappedFunction, values_of
from rollq.roles.client.many.pump import Pump
from rollq.roles.client.results.result import Result
from rollq.roles.client.session.group_session import Answer
from rollq.security.credentials import NONE, Credentials
from rollq.security.files import as_credentials
from rollq.wire import messages as wire


class Executor(BaseExecutor):
    """An executor that runs calls as jobs.

    `submit` takes a function that is registered with `@task`, which is called with Python values,
    or the name of a program or function that workers know. With a name, string arguments are passed
    as arguments; a single value of another type is the payload: bytes as they are, anything else as
    JSON. Nothing is pickled.

    A future's value is what `reads` returns for the job's result; the default is `Result.get`. The
    future of a job that failed raises the exception of the function, or JobError. Cancelling a
    future cancels its job, also while it runs.

    Args:
        addresses: As for `Client`.
        client_id: As for `Client`.
        reads: Converts a result to the future's value, such as `Result.json` for functions called
            by name that return numbers or lists.
        pending_max: `submit` blocks while this many jobs have not ended.
        allow_pickle: Whether functions that no module registers may be sent: `rollq.pickled`.
        credentials: As for `Client`.
        options: Options of every job.
    """

    def __init__(
        self,
        addresses: str,
        *,
        client_id: str = "",
        reads: Callable[[Result], Any] = Result.get,
        pending_max: int = CLIENT_PENDING_MAX,
        allow_pickle: bool = False,
        credentials: Credentials | str | Path = NONE,
        **options: Unpack[Options],
    ) -> None:
        self._engine = GroupEngine(addresses, client_id, credentials=as_credentials(credentials))
        self._pump = Pump(self._engine, "{} futures", inf, self._on_answer)
        self._thread = LoopThread("rollq-executor")
        self._reads = reads
        self._allow_pickle = allow_pickle
        self._options = options
        self._room = threading.BoundedSemaphore(pending_max)
        self._lock = threading.Lock()
        self._new: deque[_JobFuture] = deque()
        self._open: dict[_OpenFuture, None] = {}
        self._futures: dict[JobId, _JobFuture] = {}  # in the loop: submitted, without a result
        self._under_way: dict[asyncio.Task[None], None] = {}  # in the loop: background tasks
        self._is_shut = False
        self._all_ended = threading.Condition(self._lock)
        self._thread.start()
        self._thread.run(self._engine.start())
        # Jobs may not have been sent yet when the program ends.
        atexit.register(self._close_at_exit)

    def submit(self, fn: str | Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit a job and return its future.

        Raises:
            LocalError: the function is not registered, or the arguments do not match.
            RuntimeError: the executor was shut down.
        """
        self._thread.check_process()  # before taking a lock that a fork may have left locked
        future = _JobFuture(self, self._spec(fn, args, kwargs))
        with self._entered(future):
            self._new.append(future)
            is_first = len(self._new) == 1
        if is_first:  # one wake-up of the loop serves all submits until it runs
            self._thread.loop.call_soon_threadsafe(self._enter_new)
        return future

    def map(
        self,
        fn: str | Callable[..., Any],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int | None = None,
    ) -> Iterator[Any]:
        """Call a function for each element; returns an iterator over the values, in order. It
        starts at once. Short calls are combined into one job (`Client.map`); `timeout` counts from
        now. Closing the iterator, or an exception, cancels the rest.

        Raises:
            LocalError: the function is not registered.
            RuntimeError: the executor was shut down.
        """
        if isinstance(fn, str):
            by_name = cast("Callable[..., Any]", fn)  # `submit` takes it
            return super().map(by_name, *iterables, timeout=timeout)
        self._thread.check_process()
        task, first = as_task(fn) if self._allow_pickle else (task_of(fn), ())
        mapped = MappedFunction(task, first, {}, self._options)
        # Read completely, as every executor does: the caller may change the iterables afterwards.
        rows = list(zip(*iterables, strict=False))
        run = FunctionRun(
            *(self._engine, mapped, rows),
            total=len(rows),
            window=MAP_WINDOW,
            ordered=True,
            progress=None,
            chunksize=chunksize,
            return_exceptions=False,
        )
        future = _MapFuture(self, run)
        with self._entered(future):
            self._thread.loop.call_soon_threadsafe(self._begin_map, future)
        return future.values(None if timeout is None else monotonic() + timeout)

    @contextmanager
    def _entered(self, future: _OpenFuture) -> Iterator[None]:
        """Wait for room and register a future; the block runs under the lock."""
        self._room.acquire()
        with self._lock:
            if self._is_shut:
                self._room.release()
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._open[future] = None
            yield

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more calls. With `wait`, return when all jobs have ended and the connection is
        closed. Without, the interpreter waits for them at its exit."""
        with self._lock:
            was_shut, self._is_shut = self._is_shut, True
            left = list(self._open)
        if cancel_futures:
            for future in left:
                future.cancel()
        if not wait:
            if not was_shut:
                threading.Thread(target=self._close, daemon=True).start()
        else:
            self._close()

    def _close(self) -> None:
        with self._all_ended:
            self._all_ended.wait_for(lambda: not self._open)
        try:
            self._thread.run(self._engine.stop())
        except LocalError:
            return  # already closed
        self._thread.stop()
        atexit.unregister(self._close_at_exit)

    def _close_at_exit(self) -> None:
        if not self._thread.is_fork:  # a forked child has no running loop
            self.shutdown()

    def _spec(
        self, fn: str | Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> JobSpec:
        if not isinstance(fn, str):
            task, more = as_task(fn) if self._allow_pickle else (task_of(fn), ())
            return call_spec(task, (*more, *args), kwargs, options=self._options, results={})
        name = fn
        if kwargs:
            raise LocalError(
                ErrorCode.BAD_OPTIONS,
                "a function that is called by its name has no keyword arguments",
                "submit the function itself, or pass one JSON object",
            )
        if all(isinstance(one, str) for one in args):
            return JobSpec(name, args, options=self._options)
        if len(args) > 1:
            raise LocalError(
                ErrorCode.BAD_OPTIONS,
                "several arguments that are not all strings",
                "pass strings, or one value (a list, an object) that the function takes apart",
            )
        value = args[0]
        try:
            payload = value if isinstance(value, bytes) else msgspec.json.encode(value)
        except (TypeError, ValueError) as error:
            raise LocalError(ErrorCode.BAD_OPTIONS, f"cannot be sent as JSON: {error}") from None
        return JobSpec(name, payload=payload, options=self._options)

    # --- in the loop's thread

    def _enter_new(self) -> None:
        with self._lock:
            new = list(self._new)
            self._new.clear()
        jobs: list[wire.SubmitJob] = []
        for future in new:
            if future.cancelled():
                continue
            if needs_reading(future.spec):
                self._keep(self._settle(future))
                continue
            try:
                request = self._engine.request_for(future.spec)
            except RollqError as error:
                self._end([future], error)
                continue
            future.job_id = request.job_id
            self._futures[request.job_id] = future
            self._engine.targets[request.job_id] = self
            jobs.append(request)
        try:
            self._pump.send_jobs(jobs)
        except RollqError as error:
            for job in jobs:
                self._engine.forget(job.job_id, self)
            self._end([self._futures.pop(job.job_id) for job in jobs], error)

    async def _settle(self, future: _JobFuture) -> None:
        """Upload large arguments, then send the job."""
        try:
            spec = await self._engine.inputs.settle(future.spec)
            request = self._engine.request_for(spec)
            if future.cancelled():
                return
            future.job_id = request.job_id
            self._futures[request.job_id] = future
            self._engine.targets[request.job_id] = self
            self._pump.send(request, supply_of(spec))
        except Exception as error:  # also of the disk that the files are read from
            if future.job_id is not None:
                self._futures.pop(future.job_id, None)
                self._engine.forget(future.job_id, self)
            self._end([future], error)

    def _keep(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a coroutine in the background, and keep a reference to its task."""
        task = self._thread.loop.create_task(work)
        self._under_way[task] = None
        task.add_done_callback(self._under_way.pop)
        return task

    def _begin_map(self, future: _MapFuture) -> None:
        if not future.cancelled():
            future.task = self._keep(future.serve())

    def end_map(self, future: _MapFuture) -> None:
        """A map has ended; called by its future."""
        self._forget([future])

    def withdraw(self, future: _OpenFuture) -> None:
        """A future was cancelled: cancel its jobs."""
        # Scheduled before the future is removed, because the loop may stop when none is open.
        self._thread.loop.call_soon_threadsafe(self._leave, future)
        self._forget([future])

    def _leave(self, future: _OpenFuture) -> None:
        future.ends()
        if isinstance(future, _MapFuture):
            if future.task is not None:
                future.task.cancel()
            return
        assert isinstance(future, _JobFuture)
        if future.job_id is not None and self._futures.pop(future.job_id, None) is not None:
            self._pump.drop(future.job_id)
            self._engine.leave((future.job_id,))

    def _on_answer(self, answer: Answer) -> None:
        """A submit was accepted or refused."""
        if isinstance(answer, wire.Error):
            future = self._futures.pop(answer.request_id, None)
            if future is not None:
                self._engine.forget(answer.request_id, self)
                self._end([future], error_of(answer))

    def deliver(self, results: Sequence[wire.Result]) -> bool:
        """Resolve the futures of these results, after fetching large values."""
        ended: list[_JobFuture] = []
        for message in results:
            future = self._futures.pop(message.job_id, None)
            if future is None:
                continue
            result = Result(message, self._engine)
            if result.is_large:
                self._keep(self._load(future, result))
            else:
                self._resolve(future, result)
                ended.append(future)
        self._forget(ended)
        return True

    def fail(self, error: RollqError) -> None:
        """The client was stopped."""
        left, self._futures = list(self._futures.values()), {}
        self._end(left, error)

    async def _load(self, future: _JobFuture, result: Result) -> None:
        try:
            await result.aload()
        except Exception as error:  # also of the disk that a large value is stored on
            self._end([future], error)
        else:
            self._end([future], result)

    def _end(self, futures: list[_JobFuture], ending: Result | Exception) -> None:
        for future in futures:
            self._resolve(future, ending)
        self._forget(futures)

    def _resolve(self, future: _JobFuture, ending: Result | Exception) -> None:
        """Set the value or exception of a future, unless it was cancelled."""
        if future.ends():
            try:
                if isinstance(ending, Exception):
                    raise ending
                if not ending.ok:
                    ending.get()
                value = self._reads(ending)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(value)

    def _forget(self, futures: Sequence[_OpenFuture]) -> None:
        with self._all_ended:
            for future in futures:
                if future in self._open:
                    del self._open[future]
                    self._room.release()
            if not self._open:
                self._all_ended.notify_all()


class _OpenFuture(Future[Any]):
    """A future that stays pending until its jobs end, so that it can be cancelled until then."""

    def __init__(self, executor: Executor) -> None:
        super().__init__()
        self._executor = executor
        self._has_ended = False  # changed in the executor's loop alone

    def cancel(self) -> bool:
        """Cancel the future and its jobs."""
        was_cancelled = self.cancelled()
        is_cancelled = super().cancel()
        if is_cancelled and not was_cancelled:
            self._executor.withdraw(self)
        return is_cancelled

    def ends(self) -> bool:
        """Whether its outcome is to be set. Called in the executor's loop, at its end: those who
        wait for a cancelled future are told here."""
        is_first, self._has_ended = not self._has_ended, True
        return is_first and self.set_running_or_notify_cancel()


class _JobFuture(_OpenFuture):
    """The future of one job."""

    def __init__(self, executor: Executor, spec: JobSpec) -> None:
        super().__init__(executor)
        self.spec = spec
        self.job_id: JobId | None = None  # once it is submitted


class _MapFuture(_OpenFuture):
    """All calls of one map."""

    def __init__(self, executor: Executor, run: FunctionRun) -> None:
        super().__init__(executor)
        self.task: asyncio.Task[None] | None = None  # in the loop, once started
        self._run = run
        self._taken: SimpleQueue[list[Any] | BaseException] = SimpleQueue()

    async def serve(self) -> None:
        """Run the map, in the executor's loop."""
        try:
            while taken := await self._run.take():
                self._taken.put(taken)
            self._taken.put([])
        except BaseException as error:
            self._taken.put(error)
        finally:
            self._run.close()
            if self.ends():
                self.set_result(None)
                self._executor.end_map(self)

    def values(self, until_s: float | None) -> Iterator[Any]:
        """Iterate over the values in order; raises TimeoutError at `until_s`."""
        try:
            while True:
                left_s = None if until_s is None else max(until_s - monotonic(), 0)
                try:
                    taken = self._taken.get(timeout=left_s)
                except Empty:
                    raise TimeoutError from None
                if isinstance(taken, BaseException):
                    raise taken
                if not taken:
                    return
                yield from values_of(taken)
        finally:
            self.cancel()

    def cancel(self) -> bool:
        """Cancel the map and its jobs; the iterator over its values ends."""
        is_cancelled = super().cancel()
        if is_cancelled:
            self._taken.put(CancelledError())
        return is_cancelled

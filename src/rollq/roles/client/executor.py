"""The grid as a `concurrent.futures.Executor`: for code that knows only futures."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor as BaseExecutor
from concurrent.futures import Future
from math import inf
from pathlib import Path
from typing import Any, Unpack

import msgspec

from rollq.base.errors import ErrorCode, LocalError, RollqError
from rollq.base.ids import JobId
from rollq.base.limits import CLIENT_PENDING_MAX
from rollq.roles.client.answers import error_of
from rollq.roles.client.group_engine import GroupEngine
from rollq.roles.client.loop_thread import LoopThread
from rollq.roles.client.pump import Pump
from rollq.roles.client.results import Result
from rollq.roles.client.session import Answer
from rollq.roles.client.specs import JobSpec, Options
from rollq.security.credentials import NONE, Credentials
from rollq.security.files import as_credentials
from rollq.tasks import TASKS
from rollq.wire import messages as wire


class Executor(BaseExecutor):
    """Futures for jobs.

    What is submitted is the name of a program or function that workers know, or a function that is
    registered here with `@task`. Strings are passed as arguments; one value of another kind is
    passed as the payload: bytes as they are, anything else as JSON. Nothing is pickled.

    A future's result is what `reads` makes of the job's result, once it is ok; the default is
    `Result.value`. A future whose job did not end well raises JobError. Cancelling a future
    cancels its job, also while it runs.

    Args:
        addresses: As for `Client`.
        client_id: As for `Client`.
        reads: Makes the future's value out of a result; `Result.json` for functions that return
            numbers, lists and the like.
        pending_max: `submit` blocks while so many jobs have not ended.
        credentials: As for `Client`.
        options: For every job.
    """

    def __init__(
        self,
        addresses: str,
        *,
        client_id: str = "",
        reads: Callable[[Result], Any] = lambda result: result.value,
        pending_max: int = CLIENT_PENDING_MAX,
        credentials: Credentials | str | Path = NONE,
        **options: Unpack[Options],
    ) -> None:
        self._engine = GroupEngine(addresses, client_id, credentials=as_credentials(credentials))
        self._pump = Pump(self._engine, "futures", inf, self._on_answer)
        self._thread = LoopThread("rollq-executor")
        self._reads = reads
        self._options = options
        self._room = threading.BoundedSemaphore(pending_max)
        self._lock = threading.Lock()
        self._new: deque[_JobFuture] = deque()
        self._open: dict[_JobFuture, None] = {}
        self._futures: dict[JobId, _JobFuture] = {}  # in the loop: submitted, result not here
        self._loading: dict[asyncio.Task[None], None] = {}  # in the loop: large values on their way
        self._is_shut = False
        self._all_ended = threading.Condition(self._lock)
        self._thread.start()
        self._thread.run(self._engine.start())

    def submit(self, fn: str | Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """A future for one job.

        Raises:
            LocalError: the function is not registered, or cannot be called with these.
            RuntimeError: the executor was shut down.
        """
        if kwargs:
            raise LocalError(
                ErrorCode.BAD_OPTIONS, "a job has no keyword arguments", "pass one JSON object"
            )
        self._thread.check_process()  # before a lock is waited for that a fork may have left taken
        future = _JobFuture(self, self._spec(fn, args))
        self._room.acquire()
        with self._lock:
            if self._is_shut:
                self._room.release()
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._open[future] = None
            self._new.append(future)
            is_first = len(self._new) == 1
        if is_first:  # one call into the loop takes all that wait by then
            self._thread.loop.call_soon_threadsafe(self._enter_new)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more. With `wait`, return when all have ended and the connection is closed."""
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
            return  # closed before
        self._thread.stop()

    def _spec(self, fn: str | Callable[..., Any], args: tuple[Any, ...]) -> JobSpec:
        name = fn if isinstance(fn, str) else _name_of(fn)
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
            self._end([self._futures.pop(job.job_id) for job in jobs], error)

    def withdraw(self, future: _JobFuture) -> None:
        """A future was cancelled: so is its job."""
        # While the future counts as open, nobody stops the loop.
        self._thread.loop.call_soon_threadsafe(self._leave, future)
        self._forget([future])

    def _leave(self, future: _JobFuture) -> None:
        if future.job_id is not None and self._futures.pop(future.job_id, None) is not None:
            self._pump.drop(future.job_id)
            self._engine.leave((future.job_id,))

    def _on_answer(self, answer: Answer) -> None:
        """The grid accepted a job, or did not."""
        if isinstance(answer, wire.Error):
            future = self._futures.pop(answer.request_id, None)
            if future is not None:
                self._engine.forget(answer.request_id, self)
                self._end([future], error_of(answer))

    def deliver(self, results: Sequence[wire.Result]) -> bool:
        """Jobs have ended; what is large of a result is fetched before its future has it."""
        ended: list[_JobFuture] = []
        for message in results:
            future = self._futures.pop(message.job_id, None)
            if future is None:
                continue
            result = Result(message, self._engine)
            if result.is_large:
                loading = self._thread.loop.create_task(self._load(future, result))
                self._loading[loading] = None
                loading.add_done_callback(self._loading.pop)
            else:
                self._resolve(future, result)
                ended.append(future)
        self._forget(ended)
        return True

    def fail(self, error: RollqError) -> None:
        """The client stops."""
        left, self._futures = list(self._futures.values()), {}
        self._end(left, error)

    async def _load(self, future: _JobFuture, result: Result) -> None:
        try:
            await result.aload()
        except RollqError as error:
            self._end([future], error)
        else:
            self._end([future], result)

    def _end(self, futures: list[_JobFuture], ending: Result | RollqError) -> None:
        for future in futures:
            self._resolve(future, ending)
        self._forget(futures)

    def _resolve(self, future: _JobFuture, ending: Result | RollqError) -> None:
        """A future has its value, unless it was cancelled."""
        if not future.done() and future.set_running_or_notify_cancel():
            try:
                if isinstance(ending, RollqError):
                    raise ending
                value = self._reads(ending.raise_for_status())
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(value)

    def _forget(self, futures: list[_JobFuture]) -> None:
        with self._all_ended:
            for future in futures:
                if future in self._open:
                    del self._open[future]
                    self._room.release()
            if not self._open:
                self._all_ended.notify_all()


class _JobFuture(Future[Any]):
    """A future that stays pending while its job runs, so that it may be cancelled until the end."""

    def __init__(self, executor: Executor, spec: JobSpec) -> None:
        super().__init__()
        self.spec = spec
        self.job_id: JobId | None = None
        self._executor = executor

    def cancel(self) -> bool:
        """Cancel the job too."""
        was_cancelled = self.cancelled()
        is_cancelled = super().cancel()
        if is_cancelled and not was_cancelled:
            self._executor.withdraw(self)
        return is_cancelled


def _name_of(fn: Callable[..., Any]) -> str:
    for name, one in TASKS.items():
        if one.function is fn:
            return name
    raise LocalError(
        ErrorCode.BAD_OPTIONS,
        f"{getattr(fn, '__name__', fn)!r} is not registered",
        "decorate it with @rollq.task, and start workers with its module as --app",
    )

"""Calls of Python functions: in the loop, or through the pool of warm processes."""

from __future__ import annotations

import asyncio
import contextvars
import time
import types
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Final, Protocol

from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.jobs import DEFAULT_OPTIONS, AttemptRef, JobOptions, Status
from rollq.roles.worker.app import raised, returned
from rollq.roles.worker.outputs import Ending
from rollq.roles.worker.warm import WarmCall, WarmPool
from rollq.roles.worker.warm_main import Call
from rollq.tasks import Task
from rollq.wire.messages import AssignJob
from rollq.wire.models import JobRequest, decode_if_marked

TURN_MS_MAX: Final = 2  # for so long calls that never wait may keep the loop from its sockets


class LoopCalls:
    """The coroutine functions that run in the worker's loop.

    Calls that never wait share a task, one after the other: making a task costs more than such a
    call. A call that waits keeps the task to itself from then on, and the rest gets another.

    Args:
        loop: Where they run.
        on_all_begun: Told that every call which was added has begun; may add more.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, on_all_begun: Callable[[], None]) -> None:
        self.loop = loop
        self._on_all_begun = on_all_begun
        self._calls: deque[LoopCall] = deque()  # not begun yet; each has a slot
        self._task: asyncio.Task[None] | None = None  # that takes the next call

    def add(self, call: LoopCall) -> None:
        """Run this one, in this turn of the loop or the next."""
        self._calls.append(call)
        if self._task is None:
            self._task = self.loop.create_task(self._serve())

    def remove(self, ref: AttemptRef) -> LoopCall | None:
        """Take one back; None: it has begun, or is none of these."""
        for call in self._calls:
            if call.ref == ref:
                self._calls.remove(call)
                return call
        return None

    async def _serve(self) -> None:
        task = asyncio.current_task()
        assert task is not None, "called by create_task"
        now_s = time.perf_counter()
        pause_s = now_s + TURN_MS_MAX / 1000
        while self._calls:
            call = self._calls.popleft()
            now_s = call.begin(now_s)
            if not self._calls:
                self._on_all_begun()
            if call.waits:
                self._serve_elsewhere()  # this task is its own: the others must not wait for it
                await call.go_on(task)
                return
            if task.cancelling():  # it has asked for its own end, not for that of the others
                break
            if now_s > pause_s:
                await asyncio.sleep(0)
                now_s = time.perf_counter()
                pause_s = now_s + TURN_MS_MAX / 1000
        self._serve_elsewhere()

    def _serve_elsewhere(self) -> None:
        self._task = self.loop.create_task(self._serve()) if self._calls else None


class LoopOwner(Protocol):
    """Who hears of calls in the loop."""

    def call_waits(self, call: LoopCall) -> None:
        """It did not end at once: it can be killed from now on."""

    def call_ended(self, call: LoopCall, ending: Ending, ran_s: float) -> None:
        """It ended."""


class LoopCall:
    """One call of a coroutine function. It is cancelled at either limit.

    Attributes:
        job: What is called, and for whom.
        ref: The attempt.
        begun_s: When it began, by the performance counter.
        waits: Whether it did not end at once.
    """

    __slots__ = (
        "_args",
        "_cancelled",
        "_coroutine",
        "_function",
        "_in_context",
        "_note",
        "_owner",
        "_task",
        "_waits_for",
        "begun_s",
        "job",
        "ref",
        "waits",
    )

    _coroutine: Coroutine[Any, Any, Any]  # this and what follows: once it waits
    _cancelled: bool
    _in_context: Callable[..., Any]
    _note: str
    _task: asyncio.Task[None]
    _waits_for: Any

    def __init__(
        self,
        owner: LoopOwner,
        function: Task,
        job: AssignJob,
        ref: AttemptRef,
        args: tuple[str, ...] | None,
    ) -> None:
        self._owner = owner
        self._function = function
        self._args = args
        self.job = job
        self.ref = ref
        self.waits = False

    def begin(self, now_s: float) -> float:
        """Call the function in a context of its own, until it ends or waits; returns the time.

        It must be called in a task, which the call keeps to itself if it waits.
        """
        self.begun_s = now_s
        function, args = self._function, self._args
        try:
            if args is None:
                values = function.payload_args(self.job.body)
            else:
                values = function.call_args(args)
            coroutine = function.function(*values)  # runs nothing of it yet
            in_context = contextvars.copy_context().run
            self._waits_for = in_context(coroutine.send, None)
        except StopIteration as stop:
            ending = returned(stop.value)
        except BaseException as error:
            # SystemExit too: a function may end itself, not the worker.
            ending = raised(error)
        else:
            self.waits = True
            self._coroutine, self._in_context = coroutine, in_context
            self._cancelled = False
            self._note = ""
            return now_s
        ended_s = time.perf_counter()
        self._end(ending, ended_s - now_s)
        return ended_s

    async def go_on(self, task: asyncio.Task[None]) -> None:
        """Run the rest of it in this task."""
        self._task = task
        self._owner.call_waits(self)
        timer = self._set_limit()
        ending = await self._step_through()
        if timer is not None:
            timer.cancel()
        if self._note:
            ending.status = Status.FAILED
            ending.notes.append(self._note)
        self._end(ending, time.perf_counter() - self.begun_s)

    def _end(self, ending: Ending, ran_s: float) -> None:
        ending.run_ms = int(ran_s * 1000)
        self._owner.call_ended(self, ending, ran_s)

    def kill(self) -> None:
        """Cancel it."""
        self._cancelled = True
        self._task.cancel()

    @types.coroutine
    def _step_through(self) -> Generator[Any, Any, Ending]:
        coroutine, in_context, waits_for = self._coroutine, self._in_context, self._waits_for
        try:
            while True:
                try:
                    sent = yield waits_for
                except BaseException as error:
                    waits_for = in_context(coroutine.throw, error)
                else:
                    waits_for = in_context(coroutine.send, sent)
        except StopIteration as stop:
            return returned(stop.value)
        except asyncio.CancelledError as error:
            return Ending(Status.CANCELLED) if self._cancelled else raised(error)
        except BaseException as error:
            return raised(error)

    def _set_limit(self) -> asyncio.TimerHandle | None:
        """Cancel it when the first of its limits is reached."""
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
    """A plain function in a warm process. Its time counts from when a process takes it."""

    __slots__ = ("_call", "_on_end", "_options", "_pool", "_started_s", "_timers")

    def __init__(
        self,
        pool: WarmPool,
        call: Call,
        options: JobOptions,
        on_end: Callable[[Ending], None],
    ) -> None:
        self._pool = pool
        self._options = options
        self._on_end = on_end
        self._timers: list[asyncio.TimerHandle] = []
        self._started_s = time.perf_counter()
        self._call = WarmCall(call, self._begun, self._ended)
        pool.run(self._call)

    def kill(self) -> None:
        """End the process that runs it, or take it back."""
        if self._pool.drop(self._call):
            self._ended(Ending(Status.CANCELLED))
        else:
            self._call.cancelled = True
            self._call.end_hard("cancelled")

    def _begun(self) -> None:
        """TimeoutError inside the function at the soft limit, the end of its process at the hard
        one."""
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

    def _ended(self, ending: Ending) -> None:
        for timer in self._timers:
            timer.cancel()
        ending.run_ms = int((time.perf_counter() - self._started_s) * 1000)
        self._on_end(ending)


def request_of(job: AssignJob) -> JobRequest | None:
    """What a function is asked for; None: the job is a bare payload.

    Raises:
        RemoteError: the job is not one for a function.
    """
    request = decode_if_marked(job.body, JobRequest, "JobId")
    if request is not None and request.files:
        raise RemoteError(
            ErrorCode.BAD_PAYLOAD,
            f"{job.exec_name[:64]!a} is a function, which takes no files",
            "pass what it needs as arguments or as the payload",
        )
    return request


def args_of(request: JobRequest | None) -> tuple[str, ...] | None:
    """What a function is called with; None: the job is a bare payload."""
    return None if request is None else request.args or ()


def no_env_in_loop(job: AssignJob) -> RemoteError:
    """Coroutine functions share the worker's own process, and its environment."""
    return RemoteError(
        ErrorCode.BAD_PAYLOAD,
        f"{job.exec_name[:64]!a} is a coroutine function, which has no environment of its own",
        "pass what it needs as arguments, or make it a plain function",
    )

"""Calls of Python functions: in the loop, or through the pool of warm processes."""

from __future__ import annotations

import asyncio
import contextvars
import time
import types
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, Final

from rollq.base.jobs import DEFAULT_OPTIONS, JobOptions, Status
from rollq.roles.worker.app import raised, returned
from rollq.roles.worker.outputs import Ending
from rollq.roles.worker.warm import WarmCall, WarmPool
from rollq.roles.worker.warm_main import Call
from rollq.tasks import Task

TURN_MS_MAX: Final = 2  # for so long calls that never wait may keep the loop from its sockets


class LoopCalls:
    """The coroutine functions that run in the worker's loop.

    Calls that never wait share a task, one after the other: making a task costs more than such a
    call. A call that waits keeps the task to itself from then on, and the rest gets another.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._waiting: deque[LoopCall] = deque()  # bounded by the worker's slots
        self._task: asyncio.Task[None] | None = None  # that takes the next call

    def run(self, call: LoopCall) -> None:
        """Run a call in this turn of the loop or the next."""
        self._waiting.append(call)
        if self._task is None:
            self._task = self.loop.create_task(self._serve())

    def keep_task(self) -> None:
        """The call that runs now keeps its task: the others must not wait for it."""
        self._task = self.loop.create_task(self._serve()) if self._waiting else None

    async def _serve(self) -> None:
        task = asyncio.current_task()
        assert task is not None, "called by create_task"
        waiting = self._waiting
        pause_s = time.perf_counter() + TURN_MS_MAX / 1000
        while waiting:
            ended_s = await waiting.popleft().run(task)
            if self._task is not task:
                return  # it waited, and this task was its own
            if task.cancelling():  # it has asked for its own end, not for that of the others
                self.keep_task()
                return
            if ended_s > pause_s and waiting:
                await asyncio.sleep(0)
                pause_s = time.perf_counter() + TURN_MS_MAX / 1000
        self._task = None


class LoopCall:
    """One call of a coroutine function. It is cancelled at either limit."""

    __slots__ = (
        "_call",
        "_calls",
        "_cancelled",
        "_function",
        "_note",
        "_on_end",
        "_options",
        "_task",
    )

    def __init__(
        self,
        calls: LoopCalls,
        function: Task,
        call: Call,
        options: JobOptions,
        on_end: Callable[[Ending], None],
    ) -> None:
        self._calls = calls
        self._function = function
        self._call = call
        self._options = options
        self._on_end = on_end
        self._cancelled = False
        self._note = ""
        self._task: asyncio.Task[None] | None = None  # once it runs
        calls.run(self)

    def kill(self) -> None:
        """Cancel it."""
        self._cancelled = True
        if self._task is not None:
            self._task.cancel()

    async def run(self, task: asyncio.Task[None]) -> float:
        """Run it in this task; returns when it ended, by the performance counter."""
        started_s = time.perf_counter()
        timer = None
        if self._cancelled:
            ending = Ending(Status.CANCELLED)
        else:
            self._task = task
            if self._options is not DEFAULT_OPTIONS:
                timer = self._set_limit()
            ending = await self._step_through()
        if timer is not None:
            timer.cancel()
        if self._note:
            ending.status = Status.FAILED
            ending.notes.append(self._note)
        ended_s = time.perf_counter()
        ending.run_ms = int((ended_s - started_s) * 1000)
        self._on_end(ending)
        return ended_s

    @types.coroutine
    def _step_through(self) -> Generator[Any, Any, Ending]:
        """Call the function in a context of its own; from when it waits for the first time, in a
        task of its own too."""
        function, call = self._function, self._call
        in_context = contextvars.copy_context().run
        try:
            args = function.payload_args(call.body) if call.args is None else call.args
            coroutine = in_context(function.function, *args)
            waits_for = in_context(coroutine.send, None)
            self._calls.keep_task()
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
            # SystemExit too: a function may end itself, not the worker.
            return raised(error)

    def _set_limit(self) -> asyncio.TimerHandle | None:
        """Cancel it when the first of its limits is reached."""
        limits = [ms for ms in (self._options.run_ms_soft, self._options.run_ms_max) if ms]
        if not limits:
            return None
        return self._calls.loop.call_later(min(limits) / 1000, self._out_of_time, min(limits))

    def _out_of_time(self, limit_ms: int) -> None:
        self._note = f"cancelled after {limit_ms} ms"
        if self._task is not None:
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
            (self._options.run_ms_soft, self._call.end_softly, "told to end"),
            (self._options.run_ms_max, self._call.end_hard, "ended by force"),
        ):
            if limit_ms:
                why = f"{what} after {limit_ms} ms"
                self._timers.append(self._pool.loop.call_later(limit_ms / 1000, act, why))

    def _ended(self, ending: Ending) -> None:
        for timer in self._timers:
            timer.cancel()
        ending.run_ms = int((time.perf_counter() - self._started_s) * 1000)
        self._on_end(ending)

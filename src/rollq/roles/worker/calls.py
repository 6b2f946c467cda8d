"""Calls of Python functions: in the loop, or through the pool of warm processes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from rollq.base.jobs import DEFAULT_OPTIONS, JobOptions, Status
from rollq.roles.worker.app import raised, returned
from rollq.roles.worker.outputs import Ending
from rollq.roles.worker.warm import WarmCall, WarmPool
from rollq.roles.worker.warm_main import Call
from rollq.tasks import Task


class LoopCall:
    """A coroutine function in the worker's loop. It is cancelled at either limit."""

    __slots__ = (
        "_args",
        "_begun",
        "_body",
        "_cancelled",
        "_function",
        "_note",
        "_on_end",
        "_task",
        "_timer",
    )

    def __init__(
        self,
        function: Task,
        args: tuple[str, ...] | None,
        body: bytes,
        options: JobOptions,
        on_end: Callable[[Ending], None],
    ) -> None:
        self._function = function
        self._args = args
        self._body = body
        self._on_end = on_end
        self._begun = False
        self._cancelled = False
        self._note = ""
        self._timer: asyncio.TimerHandle | None = None
        self._task = asyncio.get_running_loop().create_task(self._run())
        if options is not DEFAULT_OPTIONS:
            self._set_limits(options)

    def kill(self) -> None:
        """Cancel it."""
        self._cancelled = True
        if self._begun:
            self._task.cancel()

    def _set_limits(self, options: JobOptions) -> None:
        """Cancel it when the first of its limits is reached."""
        limits = [ms for ms in (options.run_ms_soft, options.run_ms_max) if ms]
        if limits:
            delay_s = min(limits) / 1000
            self._timer = self._task.get_loop().call_later(delay_s, self._out_of_time, min(limits))

    def _out_of_time(self, limit_ms: int) -> None:
        self._note = f"cancelled after {limit_ms} ms"
        self._task.cancel()

    async def _run(self) -> None:
        started_s = time.perf_counter()
        self._begun = True
        ending = Ending(Status.CANCELLED)
        if not self._cancelled:
            function = self._function
            try:
                args = function.payload_args(self._body) if self._args is None else self._args
                ending = returned(await function.function(*args))
            except asyncio.CancelledError as error:
                if not self._cancelled:
                    ending = raised(error)
            except BaseException as error:
                # SystemExit too: a function may end itself, not the worker.
                ending = raised(error)
        if self._timer is not None:
            self._timer.cancel()
        if self._note:
            ending.status = Status.FAILED
            ending.notes.append(self._note)
        ending.run_ms = int((time.perf_counter() - started_s) * 1000)
        self._on_end(ending)


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

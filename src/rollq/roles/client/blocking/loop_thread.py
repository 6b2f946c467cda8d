"""An event loop in a background thread, for blocking callers."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError
from typing import Any, TypeVar

from rollq.base.errors import DialError, ErrorCode, LocalError, RollqError
from rollq.net.loops import new_loop
from rollq.roles.client.forks import OwnerProcess

Value = TypeVar("Value")


class LoopThread:
    """An event loop in a daemon thread."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._process = OwnerProcess()  # the process that started it
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The running loop. Raises LocalError BAD_SETUP in a forked child."""
        self.check_process()
        if self._loop is None:
            raise LocalError(
                ErrorCode.BAD_SETUP, "the client is not started", "use `with`, or start it"
            )
        return self._loop

    def check_process(self) -> None:
        """Raises LocalError BAD_SETUP in a forked child."""
        self._process.check()

    @property
    def is_fork(self) -> bool:
        """Whether this is a forked child of the process that has the thread."""
        return self._process.is_fork

    def start(self) -> None:
        """Start the thread, unless it is running."""
        if self._thread is None:
            self._process = OwnerProcess()
            self._loop = new_loop()
            self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stop the loop and join the thread. Does nothing in a forked child."""
        if self._process.is_fork:
            return
        thread, self._thread = self._thread, None
        loop, self._loop = self._loop, None
        if thread is not None and loop is not None:
            asyncio.run_coroutine_threadsafe(_cancel_others(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    def run(self, call: Coroutine[Any, Any, Value]) -> Value:
        """Run a coroutine in the loop and wait for its value.

        Raises:
            DialError: DISCONNECTED, if the loop is stopped meanwhile.
        """
        try:
            future = asyncio.run_coroutine_threadsafe(call, self.loop)
        except BaseException:
            call.close()
            raise
        try:
            return future.result()
        except CancelledError:
            raise DialError(ErrorCode.DISCONNECTED, "the client was stopped") from None
        except BaseException:
            future.cancel()  # also when the waiting thread is interrupted
            raise

    def call(self, function: Callable[..., Value], *args: Any, **kwargs: Any) -> Value:
        """Call a function in the loop's thread."""
        return self.run(_call(function, *args, **kwargs))

    def iterate(self, values: AsyncGenerator[Value, None]) -> Iterator[Value]:
        """Iterate over an asynchronous generator; it is closed when the caller stops iterating."""
        try:
            while (value := self.run(_next(values))) is not Exhausted.EXHAUSTED:
                yield value
        finally:
            with contextlib.suppress(RollqError):  # a stopped client has closed it
                self.run(values.aclose())

    def _serve(self) -> None:
        assert self._loop is not None
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()


class Exhausted(enum.Enum):
    """What follows the last value."""

    EXHAUSTED = enum.auto()


async def _call(function: Callable[..., Value], *args: Any, **kwargs: Any) -> Value:
    await asyncio.sleep(0)
    return function(*args, **kwargs)


async def _next(values: AsyncGenerator[Value, None]) -> Value | Exhausted:
    return await anext(values, Exhausted.EXHAUSTED)


async def _cancel_others() -> None:
    """Cancel all other tasks, so that threads that wait for them are released."""
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)

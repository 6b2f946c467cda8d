"""Disk work of a member or a worker: one job at a time, on a thread.

An executor, so that the loop can wait for results; `post` makes no future, which would cost more
than the hand-over itself in every turn. With a fast disk the hand-over costs more than the write:
then the loop may write itself (`may_stay`), as long as the disk stays fast."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import ParamSpec, TypeVar

from rollq.base.limits import QUICK_SYNC_MS_MAX, SYNCS_AVERAGED

P = ParamSpec("P")
T = TypeVar("T")


class PersistThread(Executor):
    """One thread, from construction to `shutdown`.

    Args:
        name: Of the thread.
        prepare: Runs first on the thread.
    """

    def __init__(self, name: str, prepare: Callable[[], None] | None = None) -> None:
        self._orders: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._posted = 0  # written by the loop
        self._done = 0  # written by the thread; <= _posted
        self._sync_ms = 2.0 * QUICK_SYNC_MS_MAX  # a moving average; slow until measured
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        if prepare is not None:
            self.post(prepare)
        self._thread.start()

    def post(self, order: Callable[[], None]) -> None:
        """Queue a call that raises nothing and reports its result itself."""
        self._posted += 1
        self._orders.put(order)

    def may_stay(self) -> bool:
        """Whether the caller of `post` may do a small write with a sync itself: syncs were fast
        lately, and no posted work has to come before it."""
        return self._sync_ms <= QUICK_SYNC_MS_MAX and self._done == self._posted

    def synced(self, seconds: float) -> None:
        """Note the duration of a sync, on either thread. Calls must not overlap."""
        self._sync_ms += (seconds * 1000 - self._sync_ms) / SYNCS_AVERAGED

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Queue a call; the future gets its result."""
        future: Future[T] = Future()

        def order() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        self.post(order)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the thread after all posted work. Idempotent."""
        self._orders.put(None)
        if wait:
            self._thread.join()

    def _serve(self) -> None:
        while (order := self._orders.get()) is not None:
            order()
            self._done += 1

"""Everything of a member or a worker that waits for the disk: one by one, on a thread.

An executor, so that the loop can wait for it; `post` leaves out the future, which costs more than
the hand-over itself where there is one for every turn. With a disk that is quick the hand-over
costs more than the wait: then the loop may do it itself (`may_stay`), as long as it stays quick.
"""

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
    """One thread. It runs from its making to `shutdown`.

    Args:
        name: Of the thread.
        prepare: Called in it, first.
    """

    def __init__(self, name: str, prepare: Callable[[], None] | None = None) -> None:
        self._orders: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._posted = 0  # counted by the loop
        self._done = 0  # counted by the thread; <= _posted
        self._sync_ms = 2.0 * QUICK_SYNC_MS_MAX  # a moving average; unknown is slow
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        if prepare is not None:
            self.post(prepare)
        self._thread.start()

    def post(self, order: Callable[[], None]) -> None:
        """Have something done that raises nothing and tells by itself how it went."""
        self._posted += 1
        self._orders.put(order)

    def may_stay(self) -> bool:
        """Whether the caller of `post` may as well do a small write with a sync itself: the disk
        was quick lately, and nothing is being written that it must not come before."""
        return self._sync_ms <= QUICK_SYNC_MS_MAX and self._done == self._posted

    def synced(self, seconds: float) -> None:
        """A write with a sync took so long, wherever it was done. Not called by two at once."""
        self._sync_ms += (seconds * 1000 - self._sync_ms) / SYNCS_AVERAGED

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have something done; the future tells how it went."""
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
        """End the thread after what was posted. Twice is no error."""
        self._orders.put(None)
        if wait:
            self._thread.join()

    def _serve(self) -> None:
        while (order := self._orders.get()) is not None:
            order()
            self._done += 1

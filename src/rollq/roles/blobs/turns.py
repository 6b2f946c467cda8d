"""Limits concurrent transfers: so many in total, and one for each key.

A second upload of the same blob waits for the first, and then has nothing left to send, or only the
rest.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
W = TypeVar("W", bound=Hashable)


class TransferSlots(Generic[K, W]):
    """Slots for holders `W` of keys `K`. First come, first served, as far as keys are free."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._served: dict[K, W] = {}
        self._waiting: dict[K, dict[W, Callable[[], None]]] = {}
        self._queue: dict[K, None] = {}  # waiting keys that no transfer holds

    def enter(self, key: K, who: W, start: Callable[[], None]) -> None:
        """Request a slot; `start` is called, perhaps at once, when it is granted."""
        self._waiting.setdefault(key, {})[who] = start
        if key not in self._served:
            self._queue[key] = None
        self._serve()

    def leave(self, key: K, who: W) -> None:
        """Release a slot, or withdraw the request. No effect without either."""
        if self._served.get(key) == who:
            del self._served[key]
            if key in self._waiting:
                self._queue[key] = None
            self._serve()
            return
        waiting = self._waiting.get(key, {})
        waiting.pop(who, None)
        if not waiting:
            self._waiting.pop(key, None)
            self._queue.pop(key, None)

    @property
    def waiting(self) -> int:
        """How many keys wait for a slot."""
        return len(self._queue)

    def is_wanted(self, key: K) -> bool:
        """Whether a transfer waits for this key."""
        return key in self._waiting

    def _serve(self) -> None:
        while self._queue and len(self._served) < self._count_max:
            key = next(iter(self._queue))
            del self._queue[key]
            waiting = self._waiting[key]
            who = next(iter(waiting))
            start = waiting.pop(who)
            if not waiting:
                del self._waiting[key]
            self._served[key] = who
            start()

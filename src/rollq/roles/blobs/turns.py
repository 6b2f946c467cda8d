"""Who may write or read now: so many at once, and one at a time for each key.

A second upload of the same blob waits for the first: when its turn comes there is nothing left to
send, or only the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
W = TypeVar("W", bound=Hashable)


class Turns(Generic[K, W]):
    """Waiters `W` for keys `K`. Those who come first are served first, as far as keys allow."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._served: dict[K, W] = {}
        self._waiting: dict[K, dict[W, Callable[[], None]]] = {}
        self._row: dict[K, None] = {}  # keys with waiters and none served

    def enter(self, key: K, who: W, start: Callable[[], None]) -> None:
        """Ask for a turn; `start` is called when it has come, perhaps at once."""
        self._waiting.setdefault(key, {})[who] = start
        if key not in self._served:
            self._row[key] = None
        self._serve()

    def leave(self, key: K, who: W) -> None:
        """The turn is over, or is not wanted any more. No effect without a turn."""
        if self._served.get(key) == who:
            del self._served[key]
            if key in self._waiting:
                self._row[key] = None
            self._serve()
            return
        waiting = self._waiting.get(key, {})
        waiting.pop(who, None)
        if not waiting:
            self._waiting.pop(key, None)
            self._row.pop(key, None)

    @property
    def waiting(self) -> int:
        """For so many keys there is no room."""
        return len(self._row)

    def is_wanted(self, key: K) -> bool:
        """Whether anything waits for this key."""
        return key in self._waiting

    def _serve(self) -> None:
        while self._row and len(self._served) < self._count_max:
            key = next(iter(self._row))
            del self._row[key]
            waiting = self._waiting[key]
            who = next(iter(waiting))
            start = waiting.pop(who)
            if not waiting:
                del self._waiting[key]
            self._served[key] = who
            start()

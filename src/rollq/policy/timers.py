"""Many timers with one next: a heap whose entries are allowed to be out of date.

What is due when is in a dict; the heap only knows when to look. Putting a timer off and cancelling
it touch the dict alone, so that a heartbeat costs a dictionary write. Entries that mean nothing
any more are dropped when they surface, and all at once when they outnumber the live ones.

Keys are never compared: timers that are due together come in the order in which they were set.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

STALE_MIN: Final = 64  # below this, sweeping is not worth a thought


class Timers(Generic[K]):
    """Due times by key, the earliest first. At most one timer a key."""

    __slots__ = ("_due_ms", "_heap", "_number")

    def __init__(self) -> None:
        self._due_ms: dict[K, int] = {}
        self._heap: list[tuple[int, int, K]] = []
        self._number = 0

    def __len__(self) -> int:
        """How many timers are set."""
        return len(self._due_ms)

    def __contains__(self, key: K) -> bool:
        """Whether a timer is set for this key."""
        return key in self._due_ms

    def set(self, key: K, due_ms: int) -> None:
        """Set the timer of a key, in place of the one it may have."""
        earlier_ms = self._due_ms.get(key)
        self._due_ms[key] = due_ms
        # A timer that is put off keeps its entry: it is pushed anew when that one surfaces.
        if earlier_ms is None or due_ms < earlier_ms:
            self._push(key, due_ms)

    def cancel(self, key: K) -> None:
        """Forget the timer of a key, if it has one."""
        self._due_ms.pop(key, None)

    def may_be_due(self, now_ms: int) -> bool:
        """Whether `pop_due` is worth a call: no timer precedes the first entry, stale or not."""
        heap = self._heap
        return bool(heap) and heap[0][0] <= now_ms

    def pop_due(self, now_ms: int, count_max: int) -> list[K]:
        """Take out up to `count_max` keys whose time has come, earliest first."""
        due: list[K] = []
        while len(due) < count_max:
            next_ms = self.next_ms()
            if next_ms is None or next_ms > now_ms:
                break
            key = heapq.heappop(self._heap)[2]
            del self._due_ms[key]
            due.append(key)
        return due

    def next_ms(self) -> int | None:
        """When the earliest timer is due."""
        while self._heap:
            entry_ms, _, key = self._heap[0]
            due_ms = self._due_ms.get(key)
            if due_ms == entry_ms:
                return entry_ms
            heapq.heappop(self._heap)
            if due_ms is not None and due_ms > entry_ms:
                self._push(key, due_ms)
        return None

    def clear(self) -> None:
        """Forget every timer."""
        self._due_ms.clear()
        self._heap.clear()

    def _push(self, key: K, due_ms: int) -> None:
        if len(self._heap) > 2 * len(self._due_ms) + STALE_MIN:
            self._sweep()
        self._number += 1
        heapq.heappush(self._heap, (due_ms, self._number, key))

    def _sweep(self) -> None:
        """Keep one entry a live timer. Paid for by the stale ones, which are the majority."""
        numbers: dict[K, int] = {}
        for _, number, key in self._heap:
            if number < numbers.get(key, number + 1):
                numbers[key] = number
        self._heap = [
            (due_ms, numbers[key], key) for key, due_ms in self._due_ms.items() if key in numbers
        ]
        heapq.heapify(self._heap)

"""Many timers with one next: entries are allowed to be out of date.

What is due when is in a dict; the entries only know when to look. Putting a timer off and
cancelling it touch the dict alone, so that a heartbeat costs a dictionary write. Entries that mean
nothing any more are dropped when they surface, and all at once when they outnumber the live ones.

Most timers are set for the same while, so most are set in the order in which they are due: those
stand in a line. A heap holds the others.

Keys are never compared: timers that are due together come in the order in which they were set.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

STALE_MIN: Final = 64  # below this, sweeping is not worth a thought
DROPS_PER_PUSH: Final = 2  # stale entries at the head of the line: it shrinks faster than it grows


class Timers(Generic[K]):
    """Due times by key, the earliest first. At most one timer a key."""

    __slots__ = ("_due_ms", "_heap", "_line", "_number")

    def __init__(self) -> None:
        self._due_ms: dict[K, int] = {}  # the truth; the entries below are only when to look here
        # Entries (due_ms, number, key). Invariant: every timer has one that is due no later than
        # it is; an entry without such a timer is stale.
        self._line: deque[tuple[int, int, K]] = deque()  # ascending by (due_ms, number)
        self._heap: list[tuple[int, int, K]] = []  # what came out of order
        self._number = 0  # of the last entry; keeps keys from being compared

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

    def put_off(self, key: K, due_ms: int) -> None:
        """Let the timer of a key, if it has one, be due no earlier than this."""
        earlier_ms = self._due_ms.get(key)
        if earlier_ms is not None and earlier_ms < due_ms:
            self._due_ms[key] = due_ms

    def cancel(self, key: K) -> None:
        """Forget the timer of a key, if it has one."""
        self._due_ms.pop(key, None)

    def may_be_due(self, now_ms: int) -> bool:
        """Whether `pop_due` is worth a call: no timer precedes the first entries, stale or not."""
        line, heap = self._line, self._heap
        return bool((line and line[0][0] <= now_ms) or (heap and heap[0][0] <= now_ms))

    def pop_due(self, now_ms: int, count_max: int) -> list[K]:
        """Take out up to `count_max` keys whose time has come, earliest first."""
        due: list[K] = []
        while len(due) < count_max:
            next_ms = self.next_ms()
            if next_ms is None or next_ms > now_ms:
                break
            key = self._pop_first()[2]
            del self._due_ms[key]
            due.append(key)
        return due

    def next_ms(self) -> int | None:
        """When the earliest timer is due."""
        while (entry := self._first()) is not None:
            entry_ms, _, key = entry
            due_ms = self._due_ms.get(key)
            if due_ms == entry_ms:
                return entry_ms
            self._pop_first()
            if due_ms is not None and due_ms > entry_ms:
                self._push(key, due_ms)
        return None

    def clear(self) -> None:
        """Forget every timer."""
        self._due_ms.clear()
        self._line.clear()
        self._heap.clear()

    def _push(self, key: K, due_ms: int) -> None:
        line, live = self._line, self._due_ms
        for _ in range(DROPS_PER_PUSH):
            if not line or line[0][2] in live:
                break
            line.popleft()
        if len(line) + len(self._heap) > 2 * len(live) + STALE_MIN:
            self._sweep()
        self._number += 1
        if not line or line[-1][0] <= due_ms:
            line.append((due_ms, self._number, key))
        else:
            heapq.heappush(self._heap, (due_ms, self._number, key))

    def _first(self) -> tuple[int, int, K] | None:
        line, heap = self._line, self._heap
        if not line:
            return heap[0] if heap else None
        return line[0] if not heap or line[0][:2] < heap[0][:2] else heap[0]

    def _pop_first(self) -> tuple[int, int, K]:
        line, heap = self._line, self._heap
        if line and (not heap or line[0][:2] < heap[0][:2]):
            return line.popleft()
        return heapq.heappop(heap)

    def _sweep(self) -> None:
        """Keep one entry a live timer. Paid for by the stale ones, which are the majority."""
        numbers: dict[K, int] = {}
        for entries in (self._line, self._heap):
            for _, number, key in entries:
                if number < numbers.get(key, number + 1):
                    numbers[key] = number
        # Out of the order of `_due_ms`: a sorted list is a line.
        live = [
            (due_ms, numbers[key], key) for key, due_ms in self._due_ms.items() if key in numbers
        ]
        live.sort(key=_place)
        self._line.clear()
        self._line.extend(live)
        self._heap.clear()


def _place(entry: tuple[int, int, object]) -> tuple[int, int]:
    return entry[:2]

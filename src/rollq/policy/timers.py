"""Many timers, of which the earliest is found cheaply; queue entries may be out of date.

The due time of each key is in a dict; entries only say when to check, some of them for many keys.
Rescheduling and cancelling a timer change only the dict, so a heartbeat costs one dictionary write.
Stale entries are dropped when they reach the front, and all at once when they outnumber the live
ones.

Most timers have the same duration, so most are set in the order in which they are due: those are in
a FIFO. A heap holds the others.

Keys are never compared: timers that are due together fire in the order in which they were set.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from typing import Final, Generic, TypeAlias, TypeVar

K = TypeVar("K", bound=Hashable)

Entry: TypeAlias = tuple[int, int, list[K]]  # due_ms, number, keys

STALE_MIN: Final = 64  # fewer stale entries are not worth a sweep
# stale entries dropped from the front: the FIFO shrinks faster than it grows
DROPS_PER_PUSH: Final = 2


class Timers(Generic[K]):
    """Due times by key, the earliest first. At most one timer per key."""

    __slots__ = ("_due_ms", "_entry_keys", "_fifo", "_heap", "_number")

    def __init__(self) -> None:
        self._due_ms: dict[K, int] = {}  # the due times; entries below only say when to look here
        # Invariant: every timer has an entry that is due no later than itself; an entry without
        # such a timer is stale.
        self._fifo: deque[Entry[K]] = deque()  # ascending by (due_ms, number)
        self._heap: list[Entry[K]] = []  # entries set out of order
        self._entry_keys = 0  # keys in all entries, including stale ones
        self._number = 0  # number of the last entry; a tie-breaker, so that keys are not compared

    def __len__(self) -> int:
        """How many timers are set."""
        return len(self._due_ms)

    def __contains__(self, key: K) -> bool:
        """Whether a timer is set for this key."""
        return key in self._due_ms

    def set(self, key: K, due_ms: int) -> None:
        """Set the timer of a key, replacing any earlier one."""
        old_ms = self._due_ms.get(key)
        self._due_ms[key] = due_ms
        # A later due time keeps the entry: it is pushed again when it reaches the front.
        if old_ms is None or due_ms < old_ms:
            self._push([key], due_ms)

    def set_all(self, keys: Sequence[K], due_ms: int) -> None:
        """Set the timers of several different keys to the same time."""
        live = self._due_ms
        if live.keys().isdisjoint(keys):
            live.update(dict.fromkeys(keys, due_ms))
            self._push(list(keys), due_ms)
        else:
            for key in keys:
                self.set(key, due_ms)

    def put_off(self, key: K, due_ms: int) -> None:
        """Postpone the timer of a key, if it has one, to `due_ms` at the earliest."""
        old_ms = self._due_ms.get(key)
        if old_ms is not None and old_ms < due_ms:
            self._due_ms[key] = due_ms

    def cancel(self, key: K) -> None:
        """Remove the timer of a key, if it has one."""
        self._due_ms.pop(key, None)

    def cancel_all(self, keys: Iterable[K]) -> None:
        """Remove the timers of several keys."""
        pop = self._due_ms.pop
        if self._due_ms:
            for key in keys:
                pop(key, None)

    def may_be_due(self, now_ms: int) -> bool:
        """Whether `pop_due` is worth a call: no timer is due before the first entry, stale or
        not."""
        fifo, heap = self._fifo, self._heap
        return bool((fifo and fifo[0][0] <= now_ms) or (heap and heap[0][0] <= now_ms))

    def pop_due(self, now_ms: int, count_max: int) -> list[K]:
        """Remove and return up to `count_max` keys that are due, earliest first."""
        due: list[K] = []
        while len(due) < count_max:
            next_ms = self.next_ms()
            if next_ms is None or next_ms > now_ms:
                break
            keys = self._pop_first()[2]
            due_now = [key for key in keys if self._due_ms.get(key) == next_ms]
            postponed = [key for key in keys if self._due_ms.get(key, next_ms) > next_ms]
            rest = due_now[count_max - len(due) :]
            for key in due_now[: count_max - len(due)]:
                del self._due_ms[key]
                due.append(key)
            for key in postponed:
                self._push([key], self._due_ms[key])
            if rest:  # they come first in the next call
                self._entry_keys += len(rest)
                self._fifo.appendleft((next_ms, 0, rest))
        return due

    def next_ms(self) -> int | None:
        """When the earliest timer is due."""
        while (entry := self._first()) is not None:
            entry_ms, _, keys = entry
            live = self._due_ms
            if any(live.get(key) == entry_ms for key in keys):
                return entry_ms
            self._pop_first()
            for key in keys:
                if live.get(key, entry_ms) > entry_ms:
                    self._push([key], live[key])
        return None

    def clear(self) -> None:
        """Remove every timer."""
        self._due_ms.clear()
        self._fifo.clear()
        self._heap.clear()
        self._entry_keys = 0

    def _push(self, keys: list[K], due_ms: int) -> None:
        fifo, live = self._fifo, self._due_ms
        for _ in range(DROPS_PER_PUSH):
            if not fifo or not live.keys().isdisjoint(fifo[0][2]):
                break
            self._entry_keys -= len(fifo.popleft()[2])
        if self._entry_keys > 2 * len(live) + STALE_MIN:
            self._sweep()
        self._number += 1
        self._entry_keys += len(keys)
        if not fifo or fifo[-1][0] <= due_ms:
            fifo.append((due_ms, self._number, keys))
        else:
            heapq.heappush(self._heap, (due_ms, self._number, keys))

    def _first(self) -> Entry[K] | None:
        fifo, heap = self._fifo, self._heap
        if not fifo:
            return heap[0] if heap else None
        return fifo[0] if not heap or fifo[0][:2] < heap[0][:2] else heap[0]

    def _pop_first(self) -> Entry[K]:
        fifo, heap = self._fifo, self._heap
        is_next = fifo and (not heap or fifo[0][:2] < heap[0][:2])
        entry = fifo.popleft() if is_next else heapq.heappop(heap)
        self._entry_keys -= len(entry[2])
        return entry

    def _sweep(self) -> None:
        """Keep one entry per live timer. Amortised: stale entries are the majority."""
        numbers: dict[K, int] = {}
        for entries in (self._fifo, self._heap):
            for _, number, keys in entries:
                for key in keys:
                    if number < numbers.get(key, number + 1):
                        numbers[key] = number
        # A sorted list is a valid FIFO.
        live = [
            (due_ms, numbers[key], [key]) for key, due_ms in self._due_ms.items() if key in numbers
        ]
        live.sort(key=_due_order)
        self._fifo.clear()
        self._fifo.extend(live)
        self._heap.clear()
        self._entry_keys = len(live)


def _due_order(entry: tuple[int, int, object]) -> tuple[int, int]:
    return entry[:2]

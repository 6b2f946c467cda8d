"""Many timers with one next: entries are allowed to be out of date.

What is due when is in a dict; the entries only know when to look, some of them for many keys.
Putting a timer off and cancelling it touch the dict alone, so that a heartbeat costs a dictionary
write. Entries that mean nothing any more are dropped when they surface, and all at once when they
outnumber the live ones.

Most timers are set for the same while, so most are set in the order in which they are due: those
stand in a line. A heap holds the others.

Keys are never compared: timers that are due together come in the order in which they were set.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from typing import Final, Generic, TypeAlias, TypeVar

K = TypeVar("K", bound=Hashable)

Entry: TypeAlias = tuple[int, int, list[K]]  # due_ms, number, keys

STALE_MIN: Final = 64  # below this, sweeping is not worth a thought
DROPS_PER_PUSH: Final = 2  # stale entries at the head of the line: it shrinks faster than it grows


class Timers(Generic[K]):
    """Due times by key, the earliest first. At most one timer a key."""

    __slots__ = ("_due_ms", "_entry_keys", "_heap", "_line", "_number")

    def __init__(self) -> None:
        self._due_ms: dict[K, int] = {}  # the truth; the entries below are only when to look here
        # Entries (due_ms, number, keys). Invariant: every timer has one that is due no later than
        # it is; an entry without such a timer is stale.
        self._line: deque[Entry[K]] = deque()  # ascending by (due_ms, number)
        self._heap: list[Entry[K]] = []  # what came out of order
        self._entry_keys = 0  # in all entries, stale ones too
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
        """Let the timer of a key, if it has one, be due no earlier than this."""
        earlier_ms = self._due_ms.get(key)
        if earlier_ms is not None and earlier_ms < due_ms:
            self._due_ms[key] = due_ms

    def cancel(self, key: K) -> None:
        """Forget the timer of a key, if it has one."""
        self._due_ms.pop(key, None)

    def cancel_all(self, keys: Iterable[K]) -> None:
        """Forget the timers of several keys."""
        pop = self._due_ms.pop
        if self._due_ms:
            for key in keys:
                pop(key, None)

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
            keys = self._pop_first()[2]
            ripe = [key for key in keys if self._due_ms.get(key) == next_ms]
            late = [key for key in keys if self._due_ms.get(key, next_ms) > next_ms]
            rest = ripe[count_max - len(due) :]
            for key in ripe[: count_max - len(due)]:
                del self._due_ms[key]
                due.append(key)
            for key in late:
                self._push([key], self._due_ms[key])
            if rest:  # first of all next time
                self._entry_keys += len(rest)
                self._line.appendleft((next_ms, 0, rest))
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
        """Forget every timer."""
        self._due_ms.clear()
        self._line.clear()
        self._heap.clear()
        self._entry_keys = 0

    def _push(self, keys: list[K], due_ms: int) -> None:
        line, live = self._line, self._due_ms
        for _ in range(DROPS_PER_PUSH):
            if not line or not live.keys().isdisjoint(line[0][2]):
                break
            self._entry_keys -= len(line.popleft()[2])
        if self._entry_keys > 2 * len(live) + STALE_MIN:
            self._sweep()
        self._number += 1
        self._entry_keys += len(keys)
        if not line or line[-1][0] <= due_ms:
            line.append((due_ms, self._number, keys))
        else:
            heapq.heappush(self._heap, (due_ms, self._number, keys))

    def _first(self) -> Entry[K] | None:
        line, heap = self._line, self._heap
        if not line:
            return heap[0] if heap else None
        return line[0] if not heap or line[0][:2] < heap[0][:2] else heap[0]

    def _pop_first(self) -> Entry[K]:
        line, heap = self._line, self._heap
        is_next = line and (not heap or line[0][:2] < heap[0][:2])
        entry = line.popleft() if is_next else heapq.heappop(heap)
        self._entry_keys -= len(entry[2])
        return entry

    def _sweep(self) -> None:
        """Keep one entry a live timer. Paid for by the stale ones, which are the majority."""
        numbers: dict[K, int] = {}
        for entries in (self._line, self._heap):
            for _, number, keys in entries:
                for key in keys:
                    if number < numbers.get(key, number + 1):
                        numbers[key] = number
        # Out of the order of `_due_ms`: a sorted list is a line.
        live = [
            (due_ms, numbers[key], [key]) for key, due_ms in self._due_ms.items() if key in numbers
        ]
        live.sort(key=_place)
        self._line.clear()
        self._line.extend(live)
        self._heap.clear()
        self._entry_keys = len(live)


def _place(entry: tuple[int, int, object]) -> tuple[int, int]:
    return entry[:2]

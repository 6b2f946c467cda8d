"""Keys in insertion order, each removable, readable from any position on.

Positions are increasing sequence numbers. Adding, removing and taking the oldest are O(1)
amortised, a page is O(log n + page). A plain dict cannot do that: reading on from a key, or taking
the front again and again, walks over removed entries.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, TypeVar

Key = TypeVar("Key")

_SLACK = 64  # removed entries that even the smallest index may still hold


class SeqIndex(Generic[Key]):
    """Keys by increasing sequence number."""

    __slots__ = ("_head", "_items", "_order")

    def __init__(self) -> None:
        self._items: dict[int, Key] = {}  # the keys by number, in order
        # All numbers added since the last rebuild, ascending, including removed ones: at most twice
        # the number of keys, so that rebuilds are amortised by removals.
        self._order: list[int] = []
        self._head = 0  # index in `_order`: all before it are removed; only `first` moves it

    def add(self, seq: int, key: Key) -> None:
        """Append a key; `seq` must be higher than all before it."""
        self._items[seq] = key
        self._order.append(seq)

    def add_all(self, first: int, keys: Sequence[Key]) -> None:
        """Append keys with consecutive numbers from `first` on."""
        if len(keys) == 1:
            self.add(first, keys[0])
            return
        places = range(first, first + len(keys))
        self._items.update(zip(places, keys, strict=True))
        self._order.extend(places)

    def remove(self, seq: int) -> None:
        """Remove the key at this number; KeyError if there is none."""
        del self._items[seq]
        self._maybe_rebuild()

    def remove_all(self, seqs: Iterable[int]) -> None:
        """Remove the keys at these numbers, each given once; KeyError if there is none."""
        items = self._items
        for seq in seqs:
            del items[seq]
        self._maybe_rebuild()

    def oldest(self) -> Key | None:
        """The oldest key."""
        found = self.first(1)
        return found[0] if found else None

    def first(self, count: int) -> list[Key]:
        """Up to `count` of the oldest keys, in order."""
        items, order = self._items, self._order
        if not items:
            return []
        head = self._head
        while order[head] not in items:
            head += 1
        self._head = head
        if count == 1:
            return [items[order[head]]]
        found: list[Key] = []
        while head < len(order) and len(found) < count:
            seqs = order[head : head + count - len(found)]
            found += [items[seq] for seq in seqs if seq in items]
            head += len(seqs)
        return found

    def page(self, after: int, limit: int) -> list[tuple[int, Key]]:
        """Up to `limit` (seq, key) with seq > after, in order."""
        items, order = self._items, self._order
        found: list[tuple[int, Key]] = []
        place = bisect_right(order, after, lo=min(self._head, len(order)))
        while place < len(order) and len(found) < limit:
            seq = order[place]
            place += 1
            if seq in items:
                found.append((seq, items[seq]))
        return found

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._items.values())

    def items(self) -> Iterator[tuple[int, Key]]:
        """All (seq, key) in order."""
        return iter(self._items.items())

    def _maybe_rebuild(self) -> None:
        items = self._items
        if len(self._order) > 2 * len(items) + _SLACK:
            self._order = list(items)
            self._head = 0

"""Sorted keys, readable from any key on: for lists of named things.

A page costs only what it shows, also if the key it continues from was removed. Keys are in chunks,
so that a change moves at most one chunk.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final, Generic, TypeVar

Key = TypeVar("Key", str, bytes, tuple[str, str])

CHUNK_KEYS: Final = 1_024


class KeyIndex(Generic[Key]):
    """Keys in ascending order, each once."""

    __slots__ = ("_chunks", "_firsts")

    def __init__(self, keys: Iterable[Key] = ()) -> None:
        every = sorted(keys)
        starts = range(0, len(every), CHUNK_KEYS)
        self._chunks: list[list[Key]] = [
            every[start : start + CHUNK_KEYS] for start in starts
        ]  # none is empty
        self._firsts: list[Key] = [chunk[0] for chunk in self._chunks]

    def add(self, key: Key) -> None:
        """Add a key that is not present."""
        at = max(0, bisect_right(self._firsts, key) - 1)
        if not self._chunks:
            self._chunks.append([key])
            self._firsts.append(key)
            return
        chunk = self._chunks[at]
        insort(chunk, key)
        self._firsts[at] = chunk[0]
        if len(chunk) > 2 * CHUNK_KEYS:
            self._chunks[at : at + 1] = [chunk[:CHUNK_KEYS], chunk[CHUNK_KEYS:]]
            self._firsts[at : at + 1] = [chunk[0], chunk[CHUNK_KEYS]]

    def remove(self, key: Key) -> None:
        """Remove a key; KeyError if it is not present."""
        at = bisect_right(self._firsts, key) - 1
        chunk = self._chunks[at] if at >= 0 else []
        place = bisect_left(chunk, key)
        if place == len(chunk) or chunk[place] != key:
            raise KeyError(key)
        del chunk[place]
        if chunk:
            self._firsts[at] = chunk[0]
        else:
            del self._chunks[at], self._firsts[at]

    def after(self, key: Key, limit: int) -> list[Key]:
        """Up to `limit` keys after this one, ascending."""
        at = max(0, bisect_right(self._firsts, key) - 1)
        found: list[Key] = []
        while at < len(self._chunks) and len(found) < limit:
            chunk = self._chunks[at]
            place = bisect_right(chunk, key)
            found += chunk[place : place + limit - len(found)]
            at += 1
        return found

    def __iter__(self) -> Iterator[Key]:
        return chain.from_iterable(self._chunks)

    def __len__(self) -> int:
        return sum(map(len, self._chunks))

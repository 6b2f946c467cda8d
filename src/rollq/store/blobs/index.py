"""A table of a million blobs in some tens of bytes each, with those that may go in order of age.

Every operation takes the same time however many there are; only one of 256 small hash tables grows
at a time. Nothing here locks, or knows why a blob is kept.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Final

from rollq.base.digests import DIGEST_BYTES, Digest

NONE: Final = -1
HEADS_MIN: Final = 4


class Index:
    """Rows by digest. A row is a number, good until it is dropped."""

    def __init__(self) -> None:
        self.sizes = array("q")  # NONE: it is not stored
        self.used_ms = array("q")
        self.pins = array("Q")
        self._digests = bytearray()
        self._older = array("i")  # neighbours in the order of age; NONE at its ends
        self._newer = array("i")
        self._is_listed = bytearray()
        self._chain = array("i")  # the next row with the same head, or the next free row
        self._heads = [array("i", [NONE] * HEADS_MIN) for _ in range(256)]
        self._counts = array("i", [0] * 256)
        self._free = NONE
        self.oldest = NONE
        self._newest = NONE

    def __len__(self) -> int:
        return sum(self._counts)

    def find(self, digest: Digest) -> int:
        """Its row, or NONE."""
        heads = self._heads[digest[0]]
        row = heads[_spread(digest) & (len(heads) - 1)]
        while row != NONE and self.digest(row) != digest:
            row = self._chain[row]
        return row

    def add(self, digest: Digest) -> int:
        """A row for a digest that has none."""
        row = self._free
        if row != NONE:
            self._free = self._chain[row]
            self._digests[row * DIGEST_BYTES : (row + 1) * DIGEST_BYTES] = digest
        else:
            row = len(self.sizes)
            self._digests += digest
            for column in (self.sizes, self.used_ms, self._older, self._newer, self._chain):
                column.append(NONE)
            self.pins.append(0)
            self._is_listed.append(0)
        self._counts[digest[0]] += 1
        if self._counts[digest[0]] > len(self._heads[digest[0]]):
            self._grow(digest[0])
        self._hang(row, digest)
        return row

    def drop(self, row: int) -> None:
        """Forget a row."""
        self.unlist(row)
        digest = self.digest(row)
        heads = self._heads[digest[0]]
        place = _spread(digest) & (len(heads) - 1)
        if heads[place] == row:
            heads[place] = self._chain[row]
        else:
            before = heads[place]
            while self._chain[before] != row:
                before = self._chain[before]
            self._chain[before] = self._chain[row]
        self._counts[digest[0]] -= 1
        self.sizes[row] = self.used_ms[row] = NONE
        self.pins[row] = 0
        self._chain[row] = self._free
        self._free = row

    def digest(self, row: int) -> Digest:
        """The digest of a row."""
        return bytes(self._digests[row * DIGEST_BYTES : (row + 1) * DIGEST_BYTES])

    def rows(self) -> Iterator[int]:
        """All rows, in no order. Rows may be changed meanwhile, and none added or dropped."""
        for heads in self._heads:
            for head in heads:
                row = head
                while row != NONE:
                    yield row
                    row = self._chain[row]

    # --- the order of age: only of rows that are put there

    def list_newest(self, row: int, now_ms: int) -> None:
        """It may go, after all others that may. A clock that was set back changes no order."""
        self.unlist(row)
        newest = self._newest
        self._older[row] = newest
        self._newer[row] = NONE
        self._newest = row
        if newest == NONE:
            self.oldest = row
            self.used_ms[row] = now_ms
        else:
            self._newer[newest] = row
            self.used_ms[row] = max(now_ms, self.used_ms[newest])
        self._is_listed[row] = 1

    def unlist(self, row: int) -> None:
        """It may not go (or is gone). No error if it is not in the list."""
        if not self._is_listed[row]:
            return
        older, newer = self._older[row], self._newer[row]
        if older == NONE:
            self.oldest = newer
        else:
            self._newer[older] = newer
        if newer == NONE:
            self._newest = older
        else:
            self._older[newer] = older
        self._is_listed[row] = 0

    def listed(self) -> Iterator[int]:
        """Those that may go, oldest first."""
        row = self.oldest
        while row != NONE:
            yield row
            row = self._newer[row]

    def is_listed(self, row: int) -> bool:
        """Whether it may go."""
        return bool(self._is_listed[row])

    # --- helpers

    def _hang(self, row: int, digest: Digest) -> None:
        heads = self._heads[digest[0]]
        place = _spread(digest) & (len(heads) - 1)
        self._chain[row] = heads[place]
        heads[place] = row

    def _grow(self, number: int) -> None:
        old = self._heads[number]
        self._heads[number] = array("i", [NONE] * (2 * len(old)))
        for head in old:
            row = head
            while row != NONE:
                following = self._chain[row]
                self._hang(row, self.digest(row))
                row = following


def _spread(digest: Digest) -> int:
    """Bits beyond the first byte, which chose the table."""
    return int.from_bytes(digest[1:5], "big")

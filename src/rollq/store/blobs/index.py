"""A table of blobs in some tens of bytes each, with a list of evictable ones by age.

Every operation takes constant time; only one of 256 small hash tables grows at a time. The caller
locks, and decides which blobs are listed.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Final

from rollq.base.digests import DIGEST_BYTES, Digest

NONE: Final = -1
HEADS_MIN: Final = 4


class Index:
    """Rows by digest. A row is a number, valid until it is dropped.

    Attributes:
        sizes: By row; NONE if the blob is not stored.
        used_ms: By row: when it was last used; ascending along the list.
        pins: By row: references to the blob.
        oldest: The first listed row; NONE if there is none.
    """

    def __init__(self) -> None:
        self.sizes = array("q")
        self.used_ms = array("q")
        self.pins = array("Q")
        self._digests = bytearray()
        self._older = array("i")  # by row: its neighbours in the list; NONE at the ends
        self._newer = array("i")
        self._is_listed = bytearray()
        self._chain = array("i")  # the next row of the same hash slot, or the next free row
        self._heads = [array("i", [NONE] * HEADS_MIN) for _ in range(256)]
        self._counts = array("i", [0] * 256)
        self._free = NONE
        self.oldest = NONE
        self._newest = NONE

    def __len__(self) -> int:
        return sum(self._counts)

    def find(self, digest: Digest) -> int:
        """The row of a digest, or NONE."""
        heads = self._heads[digest[0]]
        row = heads[_spread(digest) & (len(heads) - 1)]
        while row != NONE and self.digest(row) != digest:
            row = self._chain[row]
        return row

    def add(self, digest: Digest) -> int:
        """Make a row for a digest that has none."""
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
        self._link(row, digest)
        return row

    def drop(self, row: int) -> None:
        """Remove a row, which may be reused."""
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
        """All rows, in no order. No row may be added or dropped meanwhile."""
        for heads in self._heads:
            for head in heads:
                row = head
                while row != NONE:
                    yield row
                    row = self._chain[row]

    # --- the list of evictable rows, oldest first

    def list_newest(self, row: int, now_ms: int) -> None:
        """Move a row to the end of the list. `used_ms` stays ascending, also if the clock was set
        back."""
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
        """Remove a row from the list; no error if it is not listed."""
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
        """The listed rows, oldest first."""
        row = self.oldest
        while row != NONE:
            yield row
            row = self._newer[row]

    def is_listed(self, row: int) -> bool:
        """Whether a row is in the list."""
        return bool(self._is_listed[row])

    # --- helpers

    def _link(self, row: int, digest: Digest) -> None:
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
                self._link(row, self.digest(row))
                row = following


def _spread(digest: Digest) -> int:
    """Hash bits of a digest behind its first byte, which chooses the table."""
    return int.from_bytes(digest[1:5], "big")

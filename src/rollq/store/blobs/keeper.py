"""What is kept and what may go. Blobs that something refers to are pinned, and those that something
is about to refer to are leased; of the rest, the ones that were not used for longest go first.

Quick under its lock, so that the loop of a member may call it; only `evict` and `stored` touch the
store, and no lock is held meanwhile. Pins are told before anything is evicted: by the constructor.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Iterable, Iterator

from rollq.base.digests import Digest
from rollq.base.errors import ErrorCode, LocalError
from rollq.store.blobs.index import NONE, Index
from rollq.store.blobs.protocol import BlobStore, StoredBlob


class Keeper:
    """Reference counts, leases and ages of the blobs of one store. Nothing else may evict from it.
    Used from any thread."""

    def __init__(self, store: BlobStore, pins: Iterable[tuple[Digest, int]]) -> None:
        """Looks through the store once. `pins`: how many references there are to each digest."""
        self._store = store
        self._index = Index()
        self._lock = threading.Condition()
        self._leases: dict[Digest, int] = {}  # until when, in ms
        self._ends: list[tuple[int, Digest]] = []  # one for each lease, perhaps too early
        self._wanted: dict[Digest, None] = {}
        self._leaving: dict[Digest, None] = {}
        self._removals = 0
        self._count = 0
        self._bytes = 0
        for blob in store.digests():
            self._keep(self._row(blob.digest), blob.size, blob.mtime_ms)
        self._pin_all(pins)
        index = self._index
        free = (row for row in index.rows() if not index.pins[row])
        for row in sorted(free, key=index.used_ms.__getitem__):
            index.list_newest(row, index.used_ms[row])

    # --- what is there

    @property
    def count(self) -> int:
        """Blobs that are stored."""
        return self._count

    @property
    def bytes_stored(self) -> int:
        """Their bytes."""
        return self._bytes

    def holds(self, digest: Digest) -> bool:
        """Whether it is stored, without a look at the disk."""
        with self._lock:
            row = self._index.find(digest)
            return row != NONE and self._index.sizes[row] != NONE

    def wanted(self) -> list[Digest]:
        """Those that are pinned and not here."""
        with self._lock:
            return list(self._wanted)

    def stored(self, digest: Digest, size: int, now_ms: int) -> bool:
        """A blob was committed. False if an eviction that was under way took it: store it again."""
        while True:
            with self._lock:
                while digest in self._leaving:
                    self._lock.wait()
                removals = self._removals
            is_there = self._store.size(digest) is not None
            with self._lock:
                if digest in self._leaving or removals != self._removals:
                    continue
                if is_there:
                    row = self._row(digest)
                    self._keep(row, size, now_ms)
                    self._settle(row, now_ms)
                return is_there

    def lost(self, digest: Digest) -> None:
        """It is not in the store any more: corrupt, or removed by somebody else."""
        with self._lock:
            row = self._index.find(digest)
            if row != NONE:
                self._lose(row)

    def touched(self, digest: Digest, now_ms: int) -> None:
        """It was used: it is evicted later."""
        with self._lock:
            row = self._index.find(digest)
            if row != NONE and self._index.is_listed(row):
                self._index.list_newest(row, now_ms)

    # --- what must stay

    def pin(self, digest: Digest, count: int = 1) -> None:
        """So many more references to it; it need not be here yet."""
        with self._lock:
            self._pin(digest, count)

    def unpin(self, digest: Digest, now_ms: int, count: int = 1) -> None:
        """So many references fewer."""
        with self._lock:
            row = self._index.find(digest)
            pins = 0 if row == NONE else self._index.pins[row]
            if pins < count:
                raise LocalError(
                    ErrorCode.BUG, f"{count} of {pins} pins taken from the blob {digest.hex()}"
                )
            self._index.pins[row] -= count
            self._settle(row, now_ms)

    def repin(self, pins: Iterable[tuple[Digest, int]], now_ms: int) -> None:
        """These are all references from now on: the state was replaced as a whole."""
        with self._lock:
            rows = [row for row in self._index.rows() if self._index.pins[row]]
            for row in rows:
                self._index.pins[row] = 0
            fresh = self._pin_all(pins)
            for row in (*rows, *fresh):
                self._settle(row, now_ms)

    def lease(self, digest: Digest, until_ms: int) -> bool:
        """Keep it so long at least, here or on its way; whether it is here."""
        with self._lock:
            known = self._leases.get(digest)
            if known is None:
                heapq.heappush(self._ends, (until_ms, digest))
            self._leases[digest] = max(until_ms, known or until_ms)
            row = self._row(digest)
            self._index.unlist(row)
            return self._index.sizes[row] != NONE

    # --- what may go

    def evict(
        self, now_ms: int, bytes_max: int | None, age_ms: int | None = None
    ) -> list[StoredBlob]:
        """Remove what is too old, and then as much as is too much; None: no such limit. Stays over
        `bytes_max` if all that is left must stay."""
        gone: list[StoredBlob] = []
        while True:
            with self._lock:
                self._end_leases(now_ms)
                row = self._index.oldest
                if row == NONE or not self._is_due(row, self._bytes, now_ms, bytes_max, age_ms):
                    return gone
                blob = self._blob(row)
                self._leaving[blob.digest] = None
                self._lose(row)
            try:
                self._store.remove(blob.digest)
            except BaseException:
                with self._lock:
                    row = self._row(blob.digest)
                    self._keep(row, blob.size, blob.mtime_ms)
                    self._settle(row, blob.mtime_ms)
                raise
            finally:
                with self._lock:
                    del self._leaving[blob.digest]
                    self._removals += 1
                    self._lock.notify_all()
            gone.append(blob)

    def victims(
        self, now_ms: int, bytes_max: int | None, age_ms: int | None = None
    ) -> Iterator[StoredBlob]:
        """What `evict` would remove; nothing else may happen meanwhile."""
        with self._lock:
            self._end_leases(now_ms)
            left = self._bytes
            for row in self._index.listed():
                if not self._is_due(row, left, now_ms, bytes_max, age_ms):
                    return
                left -= self._index.sizes[row]
                yield self._blob(row)

    # --- helpers: all of them under the lock

    def _is_due(
        self, row: int, left: int, now_ms: int, bytes_max: int | None, age_ms: int | None
    ) -> bool:
        if age_ms is not None and self._index.used_ms[row] < now_ms - age_ms:
            return True
        return bytes_max is not None and left > bytes_max

    def _blob(self, row: int) -> StoredBlob:
        index = self._index
        return StoredBlob(index.digest(row), index.sizes[row], index.used_ms[row])

    def _row(self, digest: Digest) -> int:
        row = self._index.find(digest)
        return self._index.add(digest) if row == NONE else row

    def _keep(self, row: int, size: int, now_ms: int) -> None:
        sizes = self._index.sizes
        if sizes[row] == NONE:
            self._count += 1
        else:
            self._bytes -= sizes[row]
        self._bytes += size
        sizes[row] = size
        self._index.used_ms[row] = now_ms

    def _lose(self, row: int) -> None:
        size = self._index.sizes[row]
        if size != NONE:
            self._count -= 1
            self._bytes -= size
            self._index.sizes[row] = NONE
        self._settle(row, 0)

    def _pin(self, digest: Digest, count: int) -> int:
        row = self._row(digest)
        self._index.pins[row] += count
        self._index.unlist(row)
        if self._index.sizes[row] == NONE:
            self._wanted[digest] = None
        return row

    def _pin_all(self, pins: Iterable[tuple[Digest, int]]) -> list[int]:
        return [self._pin(digest, count) for digest, count in pins]

    def _settle(self, row: int, now_ms: int) -> None:
        """Put a row where it belongs after a change: kept, free to go, or forgotten."""
        index = self._index
        digest = index.digest(row)
        is_stored = index.sizes[row] != NONE
        if index.pins[row] and not is_stored:
            self._wanted[digest] = None
        else:
            self._wanted.pop(digest, None)
        if index.pins[row] or digest in self._leases:
            index.unlist(row)
        elif is_stored:
            index.list_newest(row, now_ms)
        else:
            index.drop(row)

    def _end_leases(self, now_ms: int) -> None:
        while self._ends and self._ends[0][0] <= now_ms:
            _, digest = heapq.heappop(self._ends)
            until_ms = self._leases[digest]
            if until_ms > now_ms:  # it was made longer meanwhile
                heapq.heappush(self._ends, (until_ms, digest))
                continue
            del self._leases[digest]
            self._settle(self._index.find(digest), now_ms)

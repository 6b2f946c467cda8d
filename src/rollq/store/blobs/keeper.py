"""Eviction of blobs. Referenced blobs are pinned, and blobs that are about to be referenced are
leased; the rest are evicted, least recently used first.

All calls but `evict` and `stored` are quick, so a member's loop may make them; these two use the
store, without holding the lock. The constructor takes all pins, so that nothing is evicted before
they are known.
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
    """Reference counts, leases and ages of the blobs of one store, the only one that evicts from
    it. Used from any thread.

    Invariant: a row is listed for eviction exactly if its blob is stored, not pinned and not
    leased.
    """

    def __init__(self, store: BlobStore, pins: Iterable[tuple[Digest, int]]) -> None:
        """List the store once. `pins`: the number of references to each digest."""
        self._store = store
        self._index = Index()
        self._lock = threading.Condition()
        self._leases: dict[Digest, int] = {}  # when each lease ends
        self._ends: list[tuple[int, Digest]] = []  # heap, one entry a lease; may be too early
        self._wanted: dict[Digest, None] = {}  # pinned and not stored
        self._leaving: dict[Digest, None] = {}  # being removed from the store, outside the lock
        self._removals = 0  # removals so far; `stored` tells by it whether one came between
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
        """The number of stored blobs."""
        return self._count

    @property
    def bytes_stored(self) -> int:
        """The bytes of stored blobs."""
        return self._bytes

    def holds(self, digest: Digest) -> bool:
        """Whether a blob is stored, without access to the disk."""
        with self._lock:
            row = self._index.find(digest)
            return row != NONE and self._index.sizes[row] != NONE

    def wanted(self) -> list[Digest]:
        """Blobs that are pinned and not stored."""
        with self._lock:
            return list(self._wanted)

    def stored(self, digest: Digest, size: int, now_ms: int) -> bool:
        """Record a committed blob. False if an eviction under way removed it: store it again."""
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
        """Record that a blob is not in the store any more: it was corrupt, or was removed."""
        with self._lock:
            row = self._index.find(digest)
            if row != NONE:
                self._lose(row)

    def touched(self, digest: Digest, now_ms: int) -> None:
        """Record the use of a blob, which delays its eviction."""
        with self._lock:
            row = self._index.find(digest)
            if row != NONE and self._index.is_listed(row):
                self._index.list_newest(row, now_ms)

    # --- what must stay

    def pin(self, digest: Digest, count: int = 1) -> None:
        """Add references to a blob, which need not be stored yet."""
        with self._lock:
            self._pin(digest, count)

    def unpin(self, digest: Digest, now_ms: int, count: int = 1) -> None:
        """Remove references to a blob."""
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
        """Replace all references, when the state was replaced as a whole."""
        with self._lock:
            rows = [row for row in self._index.rows() if self._index.pins[row]]
            for row in rows:
                self._index.pins[row] = 0
            fresh = self._pin_all(pins)
            for row in (*rows, *fresh):
                self._settle(row, now_ms)

    def lease(self, digest: Digest, until_ms: int) -> bool:
        """Do not evict a blob before `until_ms`, stored or not. Returns whether it is stored."""
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
        """Remove unreferenced blobs older than `age_ms`, then the oldest until `bytes_max` is met;
        None: no such limit. Pinned and leased blobs stay, also above `bytes_max`."""
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
        """The blobs that `evict` would remove. No other call may be made meanwhile."""
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
        """Restore the invariant of a row after a change, and drop a row without a blob."""
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
            if until_ms > now_ms:  # it was extended
                heapq.heappush(self._ends, (until_ms, digest))
                continue
            del self._leases[digest]
            self._settle(self._index.find(digest), now_ms)

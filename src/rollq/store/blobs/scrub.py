"""Scrubbing: every blob is read again in time, a bounded number of bytes at each step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from rollq.base.digests import Digest
from rollq.base.errors import ErrorCode, StateError
from rollq.store.blobs.protocol import BlobStore, StoredBlob
from rollq.store.blobs.staged import Check

BLOB_COST_BYTES: Final = 4_096  # to open one costs as much as to read so much


class Scrub:
    """Looks through a store again and again. Used by one thread."""

    def __init__(
        self, store: BlobStore, on_corrupt: Callable[[Digest], None], start: int = 0
    ) -> None:
        """`start`: the first byte of a digest to begin with, drawn by chance, so that a process
        that is often restarted comes to all of them."""
        self.rounds = 0
        self._store = store
        self._on_corrupt = on_corrupt
        self._start = start
        self._round: Iterator[StoredBlob] | None = None
        self._check: Check | None = None

    def step(self, bytes_max: int) -> list[Digest]:
        """Read about so much. What is corrupt is set aside, reported and returned; a step ends
        where a round ends."""
        corrupt: list[Digest] = []
        left = bytes_max
        while left > 0:
            check = self._check or self._next()
            if check is None:
                break
            left -= check.step()
            if not check.is_done:
                continue
            self.close()
            left -= BLOB_COST_BYTES
            if not check.is_sound:
                self._store.set_aside(check.digest)
                self._on_corrupt(check.digest)
                corrupt.append(check.digest)
        return corrupt

    def close(self) -> None:
        """Close the blob that is being read. Twice is no error."""
        if self._check is not None:
            self._check.close()
            self._check = None

    def _next(self) -> Check | None:
        """The next blob; None at the end of a round."""
        if self._round is None:
            self._round = self._store.digests(self._start)
        for blob in self._round:
            try:
                self._check = Check(blob.digest, self._store.open(blob.digest))
            except StateError as error:
                if error.code is not ErrorCode.BLOB_MISSING:
                    raise
                continue  # it went meanwhile
            return self._check
        self._round = None
        self.rounds += 1
        return None

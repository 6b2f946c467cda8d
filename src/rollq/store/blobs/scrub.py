"""Scrubbing: all blobs are verified again and again, a bounded number of bytes a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from rollq.base.digests import Digest
from rollq.base.errors import ErrorCode, StateError
from rollq.store.blobs.protocol import BlobStore, StoredBlob
from rollq.store.blobs.staged import Check

BLOB_COST_BYTES: Final = 4_096  # the cost of opening a blob, in bytes read


class Scrub:
    """Verifies all blobs of a store in rounds. Used by one thread.

    Attributes:
        rounds: Completed so far.
    """

    def __init__(
        self, store: BlobStore, on_corrupt: Callable[[Digest], None], start: int = 0
    ) -> None:
        """`start`: the first byte of the digests to begin with. It is drawn at random, so that a
        process that is restarted often reaches all blobs."""
        self.rounds = 0
        self._store = store
        self._on_corrupt = on_corrupt
        self._start = start
        self._round: Iterator[StoredBlob] | None = None
        self._check: Check | None = None

    def step(self, bytes_max: int) -> list[Digest]:
        """Read about `bytes_max`, at most to the end of a round. Corrupt blobs are set aside,
        reported and returned."""
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
        """Close the blob that is being read. May be called again."""
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
                continue  # it was removed meanwhile
            return self._check
        self._round = None
        self.rounds += 1
        return None

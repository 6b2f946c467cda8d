"""A blob that comes from somebody who must prove to have it: every byte of it is wanted, also those
that are here. Called from threads, one at a time."""

from __future__ import annotations

import hashlib

from rollq.base.digests import Digest, digest_to_text
from rollq.base.errors import ErrorCode, RemoteError
from rollq.roles.blobs.carrier import Sink


class ProvingSink:
    """Takes all bytes, and writes those that are lacking.

    Args:
        digest: What the bytes must have.
        size: How many they must be.
        inner: Where they are written, from its offset on; None: the blob is here as a whole.
    """

    def __init__(self, digest: Digest, size: int, inner: Sink | None) -> None:
        self._digest = digest
        self._size = size
        self._inner = inner
        self._hash = hashlib.sha256()
        self.offset = 0

    def write(self, data: bytes) -> None:
        """Add bytes."""
        self._hash.update(data)
        begin, self.offset = self.offset, self.offset + len(data)
        if self._inner is not None and self.offset > self._inner.offset:
            self._inner.write(data[max(0, self._inner.offset - begin) :])

    def commit(self) -> None:
        """Verify and keep it. Raises RemoteError BLOB_CORRUPT."""
        if self.offset != self._size or self._hash.digest() != self._digest:
            raise RemoteError(
                ErrorCode.BLOB_CORRUPT,
                f"what came is not the blob {digest_to_text(self._digest)}",
                "send it again",
            )
        if self._inner is not None:
            self._inner.commit()

    def close(self) -> None:
        """Write no more; what is there is kept for another time."""
        if self._inner is not None:
            self._inner.close()

"""Uploads by a peer that must prove possession: it sends every byte, even of a blob that is stored
already. Called from threads, never concurrently."""

from __future__ import annotations

import hashlib

from rollq.base.digests import Digest, digest_to_text
from rollq.base.errors import ErrorCode, RemoteError
from rollq.roles.blobs.carrier import Sink


class ProvingSink:
    """Hashes all bytes, and writes the missing ones.

    Args:
        digest: The expected digest.
        size: The expected size in bytes.
        inner: The sink for the bytes from its offset on; None: the blob is stored already.
    """

    def __init__(self, digest: Digest, size: int, inner: Sink | None) -> None:
        self._digest = digest
        self._size = size
        self._inner = inner
        self._hash = hashlib.sha256()
        self.offset = 0

    def write(self, data: bytes) -> None:
        """Append bytes."""
        self._hash.update(data)
        begin, self.offset = self.offset, self.offset + len(data)
        if self._inner is not None and self.offset > self._inner.offset:
            self._inner.write(data[max(0, self._inner.offset - begin) :])

    def commit(self) -> None:
        """Verify all bytes, and commit the inner sink. Raises RemoteError BLOB_CORRUPT."""
        if self.offset != self._size or self._hash.digest() != self._digest:
            raise RemoteError(
                ErrorCode.BLOB_CORRUPT,
                f"what came is not the blob {digest_to_text(self._digest)}",
                "send it again",
            )
        if self._inner is not None:
            self._inner.commit()

    def close(self) -> None:
        """Release the inner sink; an incomplete blob is kept, to be resumed."""
        if self._inner is not None:
            self._inner.close()

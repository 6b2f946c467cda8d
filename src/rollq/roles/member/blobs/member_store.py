"""A member's blob store with its index (`Keeper`): every blob that is queried, stored or read gets
a lease.

Called from threads. A blob that is reported as stored stays for the time of its lease; a blob that
the state refers to stays as long as it does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial

from rollq.base.digests import Digest, digest_to_text
from rollq.base.errors import ErrorCode, StateError
from rollq.base.jobs import BlobRef
from rollq.store.blobs.incoming import Incoming
from rollq.store.blobs.keeper import Keeper
from rollq.store.blobs.protocol import BlobReader, BlobStore


class MemberBlobStore:
    """The store for server and fetchers, with a keeper beside it.

    Args:
        store: Of the blobs.
        keeper: Its index; None for a shared store, where this member evicts nothing.
        lease_ms: How long an unreferenced blob stays.
        now_ms: The time; monotonic.
    """

    def __init__(
        self, store: BlobStore, keeper: Keeper | None, lease_ms: int, now_ms: Callable[[], int]
    ) -> None:
        self.store = store
        self.keeper = keeper
        self._lease_ms = lease_ms
        self._now_ms = now_ms

    def size(self, digest: Digest) -> int | None:
        """Its size in bytes, with a lease; None if missing."""
        size = self.store.size(digest)
        if self.keeper is None:
            return size
        if size is None:
            if self.keeper.holds(digest):
                self.keeper.lost(digest)  # removed from outside
            return None
        return size if self._lease(digest, size) else None

    def begin(self, digest: Digest, size: int) -> TrackedSink:
        """Begin to write a blob. A stored one of another size is verified first."""
        if self.store.size(digest) not in (None, size):
            self.is_sound(digest)
        return TrackedSink(self.store.begin(digest, size), partial(self._stored, digest, size))

    def open(self, digest: Digest) -> BlobReader:
        """Open for reading. Raises StateError BLOB_MISSING."""
        try:
            reader = self.store.open(digest)
        except StateError:
            if self.keeper is not None:
                self.keeper.lost(digest)
            raise
        if self.keeper is not None:
            self.keeper.touched(digest, self._now_ms())
        return reader

    def store_bytes(self, digest: Digest, data: bytes) -> None:
        """Store these bytes, unless they are stored already."""
        if self.size(digest) == len(data):
            return
        sink = self.begin(digest, len(data))
        try:
            sink.write(data[sink.offset :])
            sink.commit()
        finally:
            sink.close()

    def read(self, ref: BlobRef) -> bytes:
        """All of its bytes, verified.

        Raises:
            StateError: BLOB_MISSING, or NOT_READY if it is damaged; it is quarantined then.
        """
        reader = self.open(ref.digest)
        try:
            data = reader.read(0, ref.size)
        finally:
            reader.close()
        if hashlib.sha256(data).digest() != ref.digest:
            self.is_sound(ref.digest)
            text = f"the copy of {digest_to_text(ref.digest)} here was rotten"
            raise StateError(ErrorCode.NOT_READY, text, "fetch it again")
        return data

    def is_sound(self, digest: Digest) -> bool:
        """Whether it is stored and verifies; a damaged one is quarantined."""
        try:
            if self.store.verify(digest):
                return True
        except StateError as error:
            if error.code is not ErrorCode.BLOB_MISSING:
                raise
        if self.keeper is not None:
            self.keeper.lost(digest)
        return False

    def _stored(self, digest: Digest, size: int) -> None:
        if self.keeper is not None and not self._lease(digest, size):
            raise StateError(
                ErrorCode.NOT_READY, f"the blob {digest.hex()} was just cleared away", "try again"
            )

    def _lease(self, digest: Digest, size: int) -> bool:
        """Lease a stored blob; false if it was removed meanwhile."""
        assert self.keeper is not None
        now_ms = self._now_ms()
        if not self.keeper.holds(digest) and not self.keeper.stored(digest, size, now_ms):
            return False
        return self.keeper.lease(digest, now_ms + self._lease_ms)


class TrackedSink:
    """An incoming blob, which is indexed once it is complete."""

    def __init__(self, incoming: Incoming, stored: Callable[[], None]) -> None:
        self._incoming = incoming
        self._stored = stored

    @property
    def offset(self) -> int:
        """How many bytes are written."""
        return self._incoming.offset

    def write(self, data: bytes) -> None:
        """Add bytes."""
        self._incoming.write(data)

    def commit(self) -> None:
        """Verify and publish the blob."""
        self._incoming.commit()
        self._stored()

    def close(self) -> None:
        """End writing; a partial blob is kept for a later upload."""
        self._incoming.close()

"""A member's own store with its index (`Keeper`): whatever is asked for, brought or read is leased.

Called from threads. What this says to be here stays here for the time of a lease, and whoever asks
may rely on that; what the state refers to stays as long as it does.
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
    """What a server and a fetcher need of a store, with a keeper beside it.

    Args:
        store: Where blobs are.
        keeper: Its index; None if this member does not decide what may go, as in a shared store.
        lease_ms: How long what is asked for or brought stays, if nothing refers to it.
        now_ms: The time; never set back.
    """

    def __init__(
        self, store: BlobStore, keeper: Keeper | None, lease_ms: int, now_ms: Callable[[], int]
    ) -> None:
        self.store = store
        self.keeper = keeper
        self._lease_ms = lease_ms
        self._now_ms = now_ms

    def size(self, digest: Digest) -> int | None:
        """Its bytes, and it stays for the time of a lease."""
        size = self.store.size(digest)
        if self.keeper is None:
            return size
        if size is None:
            if self.keeper.holds(digest):
                self.keeper.lost(digest)  # somebody else took it away
            return None
        return size if self._lease(digest, size) else None

    def begin(self, digest: Digest, size: int) -> TrackedSink:
        """Take a blob. What has its name and another size is looked at first."""
        if self.store.size(digest) not in (None, size):
            self.is_sound(digest)
        return TrackedSink(self.store.begin(digest, size), partial(self._stored, digest, size))

    def open(self, digest: Digest) -> BlobReader:
        """To read from it. Raises StateError BLOB_MISSING."""
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
        """Keep these bytes, unless they are here."""
        if self.size(digest) == len(data):
            return
        sink = self.begin(digest, len(data))
        try:
            sink.write(data[sink.offset :])
            sink.commit()
        finally:
            sink.close()

    def read(self, ref: BlobRef) -> bytes:
        """All of it, verified.

        Raises:
            StateError: BLOB_MISSING, or NOT_READY if what is here is rotten; it is set aside then.
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
        """Whether it is here and whole; a rotten one is set aside."""
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
        """Keep what was seen in the store; False if it went meanwhile."""
        assert self.keeper is not None
        now_ms = self._now_ms()
        if not self.keeper.holds(digest) and not self.keeper.stored(digest, size, now_ms):
            return False
        return self.keeper.lease(digest, now_ms + self._lease_ms)


class TrackedSink:
    """A blob that comes in, and is indexed when it is whole."""

    def __init__(self, incoming: Incoming, stored: Callable[[], None]) -> None:
        self._incoming = incoming
        self._stored = stored

    @property
    def offset(self) -> int:
        """How much of it is there."""
        return self._incoming.offset

    def write(self, data: bytes) -> None:
        """Add bytes."""
        self._incoming.write(data)

    def commit(self) -> None:
        """Verify and keep it."""
        self._incoming.commit()
        self._stored()

    def close(self) -> None:
        """Write no more; what is there is kept for another time."""
        self._incoming.close()

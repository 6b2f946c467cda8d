"""A blob that is being received: its bytes in order, then one commit that verifies them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from rollq.base.digests import Digest
from rollq.base.errors import DiskError, RemoteError
from rollq.store.blobs.failures import blob_corrupt
from rollq.store.blobs.partial import Part


class Incoming:
    """A blob that is being received. Used by one thread at a time. `close` must be called; the
    received bytes stay for the next upload."""

    def __init__(
        self, digest: Digest, size: int, part: Part | None, publish: Callable[[Digest, Part], None]
    ) -> None:
        """`part` is None if the blob is stored already: then no bytes are needed."""
        self.digest = digest
        self.size = size
        self._part = part
        self._publish = publish
        self._is_resumed = part is not None and part.size > 0

    @property
    def offset(self) -> int:
        """The offset of the first byte that is still needed."""
        return self.size if self._part is None else self._part.size

    def write(self, data: bytes | memoryview) -> None:
        """Append the bytes from `offset` on. Raises RemoteError BLOB_CORRUPT if they are too many,
        and DiskError; both discard the upload."""
        part = self._part
        if len(data) > self.size - self.offset:
            self._discard()
            raise blob_corrupt(
                self.digest,
                f"is longer than the {self.size} bytes that were announced",
                is_resumed=self._is_resumed,
            )
        if part is None:
            return
        try:
            part.write(data)
        except DiskError:
            self._discard()
            raise

    def commit(self) -> None:
        """Verify the bytes and publish the blob, durably. May take as long as reading all bytes.

        Raises:
            RemoteError: BLOB_CORRUPT; the upload is discarded, unless only its end is missing.
            DiskError: The blob could not be stored; the upload is discarded.
            DialError: A store on the network was not reached; the upload can be committed again.
        """
        part = self._part
        if part is None:
            return
        if part.size != self.size:
            raise blob_corrupt(
                self.digest, f"ended at byte {part.size} of the {self.size} that were announced"
            )
        try:
            found = part.digest()
            if found != self.digest:
                raise blob_corrupt(
                    self.digest,
                    f"came as {self.size} bytes with the digest {found.hex()}",
                    is_resumed=self._is_resumed,
                )
            self._publish(self.digest, part)
        except (RemoteError, DiskError):
            self._discard()
            raise
        self._part = None

    def close(self) -> None:
        """Close the upload; it can be resumed if it was not committed. May be called again."""
        if self._part is not None:
            self._part.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _discard(self) -> None:
        if self._part is not None:
            self._part.discard()

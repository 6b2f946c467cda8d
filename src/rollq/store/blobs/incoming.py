"""A blob that comes in: bytes in order, then one commit that checks all of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from rollq.base.digests import Digest
from rollq.base.errors import DiskError, RemoteError
from rollq.store.blobs.failures import blob_corrupt
from rollq.store.blobs.partial import Part


class Incoming:
    """Used by one thread at a time. `close` must be called; what came stays for the next upload."""

    def __init__(
        self, digest: Digest, size: int, part: Part | None, publish: Callable[[Digest, Part], None]
    ) -> None:
        """`part` is None if the blob is there already: then nothing needs to come."""
        self.digest = digest
        self.size = size
        self._part = part
        self._publish = publish
        self._is_resumed = part is not None and part.size > 0

    @property
    def offset(self) -> int:
        """Where the bytes that are still wanted begin."""
        return self.size if self._part is None else self._part.size

    def write(self, data: bytes | memoryview) -> None:
        """Take the bytes from `offset` on. Raises RemoteError BLOB_CORRUPT if they are too many,
        and DiskError; both discard what came."""
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
        """Make a blob of it, which is durable then. May take as long as reading all of it.

        Raises:
            RemoteError: BLOB_CORRUPT; what came is discarded, unless only the end is wanting.
            DiskError: it could not be stored; what came is discarded.
            DialError: a store on the network was not reached; what came stays for the next time.
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
        """Close it; an upload that was cut can be resumed. Twice is no error."""
        if self._part is not None:
            self._part.let_go()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _discard(self) -> None:
        if self._part is not None:
            self._part.discard()

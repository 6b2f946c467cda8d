"""The interface of every blob store. All calls block, so they are made from threads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

from rollq.base.digests import Digest
from rollq.store.blobs.incoming import Incoming


class StoredBlob(NamedTuple):
    """One blob of a listing."""

    digest: Digest
    size: int
    mtime_ms: int


class Leftover(NamedTuple):
    """A file in the store that is not a blob: a partial upload, or a corrupt blob set aside."""

    name: str
    size: int
    mtime_ms: int


class BlobReader(Protocol):
    """An open blob. Used by one thread at a time."""

    size: int

    def read(self, offset: int, length: int) -> bytes:
        """Read bytes from `offset` on; fewer than `length` only at the end."""

    def close(self) -> None:
        """Close the blob. May be called again."""


class BlobStore(Protocol):
    """Blobs by digest. Disk errors are raised as DiskError, network errors as DialError."""

    def size(self, digest: Digest) -> int | None:
        """The size of a blob in bytes; None if it is missing. A blob with a size is durable."""

    def missing(self, digests: Iterable[Digest]) -> list[Digest]:
        """The digests of which the store has no blob, in the same order."""

    def begin(self, digest: Digest, size: int) -> Incoming:
        """Receive a blob, resuming an earlier upload. Several uploads of one blob may run."""

    def put_file(self, path: Path) -> tuple[Digest, int]:
        """Store a copy of a file; returns its digest and size."""

    def open(self, digest: Digest) -> BlobReader:
        """Open a blob for reading. Raises StateError BLOB_MISSING."""

    def open_part(self, digest: Digest, size: int) -> BlobReader:
        """Open an upload of a blob of this size that is under way, to read the bytes received so
        far; or the blob if it is complete. Raises StateError BLOB_MISSING."""

    def path(self, digest: Digest) -> Path | None:
        """The file of a blob in a local store, to link to; None otherwise. Never write to it."""

    def remove(self, digest: Digest) -> None:
        """Remove a blob; no error if it is missing. Open readers may or may not reach its end."""

    def digests(self, start: int = 0) -> Iterator[StoredBlob]:
        """All blobs, in the order of digests from the first byte `start` on and around. Blobs added
        or removed meanwhile may be missing or included."""

    def set_aside(self, digest: Digest) -> None:
        """Move a corrupt blob away from its name, and keep it for analysis."""

    def verify(self, digest: Digest) -> bool:
        """Read a whole blob. If it is corrupt, set it aside and return False. Raises StateError
        BLOB_MISSING."""

    def check(self, digest: Digest) -> bool:
        """As `verify`, without setting a corrupt blob aside."""

    def leftovers(self) -> Iterator[Leftover]:
        """Files that take room and are not blobs."""

    def sweep(self, before_ms: int) -> list[Leftover]:
        """Remove leftovers last written before `before_ms` that have no writer; returns them."""

    def close(self) -> None:
        """Close the store. May be called again."""

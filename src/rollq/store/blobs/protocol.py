"""What every store of blobs can do. All of it blocks, and is called from threads."""

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
    """A file that is no blob: part of an upload, or set aside because it is corrupt."""

    name: str
    size: int
    mtime_ms: int


class BlobReader(Protocol):
    """A blob that is open. Used by one thread at a time."""

    size: int

    def read(self, offset: int, length: int) -> bytes:
        """Bytes from `offset` on; fewer than `length` only at the end."""

    def close(self) -> None:
        """Twice is no error."""


class BlobStore(Protocol):
    """Blobs by digest. Errors of disk and network are DiskError and DialError."""

    def size(self, digest: Digest) -> int | None:
        """Its bytes; None if it is not there. What is there is durable."""

    def missing(self, digests: Iterable[Digest]) -> list[Digest]:
        """Those that are not there, in the same order."""

    def begin(self, digest: Digest, size: int) -> Incoming:
        """Take a blob, from where an earlier attempt was cut. Several may take the same one."""

    def put_file(self, path: Path) -> tuple[Digest, int]:
        """Store a copy of a file: its digest and size."""

    def open(self, digest: Digest) -> BlobReader:
        """Raises StateError BLOB_MISSING."""

    def open_part(self, digest: Digest, size: int) -> BlobReader:
        """A blob of this size that somebody takes now, to read what came; or the blob itself, if
        it is there. Raises StateError BLOB_MISSING."""

    def path(self, digest: Digest) -> Path | None:
        """The file to link to, of a local store that has the blob. Never write to it."""

    def remove(self, digest: Digest) -> None:
        """Forget it. No error if it is not there; who reads it may or may not come to the end."""

    def digests(self, start: int = 0) -> Iterator[StoredBlob]:
        """All of them, from the first byte `start` on and around. What comes or goes meanwhile may
        be among them or not."""

    def set_aside(self, digest: Digest) -> None:
        """It is corrupt: keep it for analysis, where it is not taken for the blob."""

    def verify(self, digest: Digest) -> bool:
        """Read all of it; False if it is corrupt, and set aside by now. Raises StateError
        BLOB_MISSING."""

    def check(self, digest: Digest) -> bool:
        """The same, and changes nothing."""

    def leftovers(self) -> Iterator[Leftover]:
        """What takes room and is no blob."""

    def sweep(self, before_ms: int) -> list[Leftover]:
        """Remove leftovers that nobody wrote to since, and that nobody writes now."""

    def close(self) -> None:
        """Close the store. Twice is no error."""

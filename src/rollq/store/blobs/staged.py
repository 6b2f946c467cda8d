"""The common half of all stores: a blob is received on a local disk, verified, and published."""

from __future__ import annotations

import errno
import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from rollq.base.digests import DIGEST_BYTES, Digest
from rollq.base.errors import DiskError, ErrorCode, RemoteError
from rollq.base.limits import BLOB_PIECE_BYTES
from rollq.store.blobs.failures import blob_corrupt
from rollq.store.blobs.files import open_plain, pieces_of
from rollq.store.blobs.incoming import Incoming
from rollq.store.blobs.partial import Part, Staging
from rollq.store.blobs.protocol import BlobReader

FOLDERS: Final = tuple(f"{number:02x}" for number in range(256))  # by the first byte of a digest
PARTIAL: Final = "partial"
ROTTEN: Final = "rotten"


class Staged(ABC):
    """A store without its storage: how blobs are received and verified."""

    def __init__(self, staging: Staging) -> None:
        self._staging = staging

    @abstractmethod
    def size(self, digest: Digest) -> int | None:
        """See `BlobStore`."""

    @abstractmethod
    def open(self, digest: Digest) -> BlobReader:
        """See `BlobStore`."""

    @abstractmethod
    def set_aside(self, digest: Digest) -> None:
        """See `BlobStore`."""

    @abstractmethod
    def _publish(self, digest: Digest, part: Part) -> None:
        """Make a verified part a blob, and remove the part. Another writer may have published the
        same blob."""

    def begin(self, digest: Digest, size: int) -> Incoming:
        """Receive a blob, resuming an earlier upload."""
        if size < 0:
            raise RemoteError(ErrorCode.BAD_PAYLOAD, f"a blob cannot have {size} bytes")
        there = self.size(digest)
        if there == size:
            return Incoming(digest, size, None, self._publish)
        if there is not None and self.verify(digest):
            raise blob_corrupt(digest, f"has {there} bytes, not the {size} that were announced")
        part = self._staging.take(digest)
        try:
            if part.size > size:
                part.clear()
            self._staging.check_room(size - part.size)
        except BaseException:
            part.discard()
            raise
        return Incoming(digest, size, part, self._publish)

    def open_part(self, digest: Digest, size: int) -> BlobReader:
        """Open the bytes of a blob that were received so far, or the blob."""
        reader = self._staging.open_part(digest, size)
        return self.open(digest) if reader is None else reader

    def put_file(self, path: Path) -> tuple[Digest, int]:
        """Store a copy of a file, which is read once; returns its digest and size."""
        with open_plain(path) as fd:
            self._staging.check_room(os.fstat(fd).st_size)
            part = self._staging.take_private()
            try:
                for piece in pieces_of(fd, path):
                    part.write(piece)
                digest, size = part.digest(), part.size
                self._publish(digest, part)
            finally:
                part.discard()
        return digest, size

    def missing(self, digests: Iterable[Digest]) -> list[Digest]:
        """The digests of which the store has no blob."""
        return [digest for digest in digests if self.size(digest) is None]

    def verify(self, digest: Digest) -> bool:
        """Read a whole blob; set it aside and return False if it is corrupt."""
        if self.check(digest):
            return True
        self.set_aside(digest)
        return False

    def check(self, digest: Digest) -> bool:
        """Read a whole blob; returns whether it is sound."""
        check = Check(digest, self.open(digest))
        try:
            while not check.is_done:
                check.step()
        finally:
            check.close()
        return check.is_sound


class Check:
    """Verifies a blob, a piece at a time. `is_sound` is set once `is_done`."""

    def __init__(self, digest: Digest, reader: BlobReader) -> None:
        self.digest = digest
        self.is_done = False
        self.is_sound = False
        self._reader = reader
        self._hash = hashlib.sha256()
        self._at = 0

    def step(self) -> int:
        """Read one piece; returns its size."""
        try:
            piece = self._reader.read(self._at, BLOB_PIECE_BYTES)
        except DiskError as error:
            if not _is_bad_place(error):
                raise
            piece = b""
        self._hash.update(piece)
        self._at += len(piece)
        if self._at >= self._reader.size or not piece:
            self.is_done = True
            self.is_sound = self._hash.digest() == self.digest
        return len(piece)

    def close(self) -> None:
        """Close the blob. May be called again."""
        self._reader.close()


def _is_bad_place(error: DiskError) -> bool:
    """Whether the disk cannot read a sector, which makes the blob corrupt."""
    return isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.EIO


def place_of(digest: Digest) -> str:
    """The path of a blob below the root of its store."""
    if len(digest) != DIGEST_BYTES:
        raise ValueError(f"a digest has {DIGEST_BYTES} bytes, not {len(digest)}")
    text = digest.hex()
    return f"{text[:2]}/{text[2:]}"


def digest_at(folder: str, name: str) -> Digest | None:
    """The inverse of `place_of`; None for a name that is not of a blob."""
    text = folder + name
    if len(text) != 2 * DIGEST_BYTES or text.strip("0123456789abcdef"):
        return None
    return bytes.fromhex(text)

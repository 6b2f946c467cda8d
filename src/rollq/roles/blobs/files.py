"""Sources and sinks outside a store: a file of the user, or bytes in memory.

Called from threads. A file that is fetched is written beside its place under another name, which
the digest is part of: a later try goes on where an earlier one ended, and no reader ever sees half
a file under its own name.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from rollq.base.digests import Digest, digest_to_text
from rollq.base.errors import ErrorCode, RemoteError

HASH_BYTES = 1024 * 1024


class BytesSource:
    """A blob in memory."""

    name = "the bytes given"

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size = len(data)

    def digest(self) -> Digest:
        """Of all of it."""
        return hashlib.sha256(self._data).digest()

    def read(self, offset: int, length: int) -> bytes:
        """Bytes from there on."""
        return self._data[offset : offset + length]

    def close(self) -> None:
        """Nothing to let go of."""


class FileSource:
    """A file. It is opened once, so that one that is replaced meanwhile stays the same."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.size = os.fstat(self._fd).st_size

    def digest(self) -> Digest:
        """Of all of it."""
        digest = hashlib.sha256()
        offset = 0
        while data := os.pread(self._fd, HASH_BYTES, offset):
            digest.update(data)
            offset += len(data)
        self.size = offset
        return digest.digest()

    def read(self, offset: int, length: int) -> bytes:
        """Bytes from there on."""
        return os.pread(self._fd, length, offset)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._fd)


def part_of(path: Path, digest: Digest) -> Path:
    """Where a file that is fetched grows."""
    return path.with_name(f".{path.name[:128]}.{digest_to_text(digest)[:16]}.part")


class FileSink:
    """A file that a blob is fetched into. One writer at a time."""

    def __init__(self, path: Path, digest: Digest, size: int) -> None:
        self._path = path
        self._digest = digest
        self._size = size
        self._part = part_of(path, digest)
        self._hash = hashlib.sha256()
        self.offset = 0
        self._file = open(self._part, "a+b", buffering=0)  # noqa: SIM115
        try:
            self._look_back()
        except BaseException:
            self._file.close()
            raise

    def write(self, data: bytes) -> None:
        """Add bytes."""
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) :]
        self._hash.update(data)
        self.offset += len(data)

    def commit(self) -> None:
        """Verify it and give it its name."""
        if self._hash.digest() != self._digest or self.offset != self._size:
            self._part.unlink()
            name = digest_to_text(self._digest)
            raise RemoteError(
                ErrorCode.BLOB_CORRUPT,
                f"{self._path}: what came is not blob {name}",
                "fetch it again",
            )
        os.fsync(self._file.fileno())
        self._part.replace(self._path)

    def close(self) -> None:
        """Write no more."""
        self._file.close()

    def _look_back(self) -> None:
        """What is there of an earlier try."""
        self._file.seek(0)
        while data := self._file.read(HASH_BYTES):
            self._hash.update(data)
            self.offset += len(data)
        if self.offset > self._size:  # nothing that we wrote
            self._file.truncate(0)
            self._hash = hashlib.sha256()
            self.offset = 0

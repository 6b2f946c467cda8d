"""Sources and sinks outside a store: user files, and bytes in memory.

Called from threads. A download is written to a temporary file beside its target, with the digest in
its name: a later attempt resumes it, and no reader sees a partial file under the final name.
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
        """The SHA-256 digest."""
        return hashlib.sha256(self._data).digest()

    def read(self, offset: int, length: int) -> bytes:
        """Read at an offset."""
        return self._data[offset : offset + length]

    def close(self) -> None:
        """Nothing to release."""


class FileSource:
    """A file. It is opened once, so that replacing it meanwhile has no effect."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.size = os.fstat(self._fd).st_size

    def digest(self) -> Digest:
        """The SHA-256 digest; also updates `size`."""
        digest = hashlib.sha256()
        offset = 0
        while data := os.pread(self._fd, HASH_BYTES, offset):
            digest.update(data)
            offset += len(data)
        self.size = offset
        return digest.digest()

    def read(self, offset: int, length: int) -> bytes:
        """Read at an offset."""
        return os.pread(self._fd, length, offset)

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


def part_of(path: Path, digest: Digest) -> Path:
    """The temporary file of a download."""
    return path.with_name(f".{path.name[:128]}.{digest_to_text(digest)[:16]}.part")


class FileSink:
    """A file that a blob is downloaded into. One writer at a time."""

    def __init__(self, path: Path, digest: Digest, size: int) -> None:
        self._path = path
        self._digest = digest
        self._size = size
        self._part = part_of(path, digest)
        self._hash = hashlib.sha256()
        self.offset = 0
        self._file = open(self._part, "a+b", buffering=0)  # noqa: SIM115
        try:
            self._hash_existing()
        except BaseException:
            self._file.close()
            raise

    def write(self, data: bytes) -> None:
        """Append bytes."""
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) :]
        self._hash.update(data)
        self.offset += len(data)

    def commit(self) -> None:
        """Verify the digest and rename the file to its target."""
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
        """Close the file."""
        self._file.close()

    def _hash_existing(self) -> None:
        """Hash what an earlier attempt has left."""
        self._file.seek(0)
        while data := self._file.read(HASH_BYTES):
            self._hash.update(data)
            self.offset += len(data)
        if self.offset > self._size:  # not a prefix of this blob
            self._file.truncate(0)
            self._hash = hashlib.sha256()
            self.offset = 0

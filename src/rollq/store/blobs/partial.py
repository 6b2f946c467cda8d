"""Files on their way to become blobs, in one folder on a local disk.

The part of a digest has that digest as its name, so that the next upload goes on where one was
cut, also after a crash. It is locked while somebody writes; a second writer of the same digest
gets a part of its own, which nobody resumes. What an earlier process left is not trusted: all of
it is read for the digest before it becomes a blob.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rollq.base.digests import Digest, digest_to_text
from rollq.base.limits import BLOB_PIECE_BYTES, WRITEBACK_BYTES
from rollq.store.blobs.failures import disk_full, explained
from rollq.store.descriptors import read_all
from rollq.store.real_disk import FILE_MODE, FOLDER_MODE
from rollq.store.writeback import write_out

CATCH_UP: Final = 4  # bytes of an old part that are read for the digest, for each that comes
PRIVATE: Final = "-"  # in the name of a part that only its writer knows


class Staging:
    """The folder."""

    def __init__(self, folder: Path, room_bytes: int, out_bytes: int = WRITEBACK_BYTES) -> None:
        """`room_bytes` stay free on the disk: the log and other programs need some. A part goes
        to the disk each time that `out_bytes` more came."""
        self.folder = folder
        self.out_bytes = out_bytes
        self._room_bytes = room_bytes

    def take(self, digest: Digest) -> Part:
        """The part of a digest, with what is there of it; a new one if somebody writes it now."""
        name = digest_to_text(digest)
        while True:
            with explained(f"open {self.folder / name}"):
                fd = self._open(name)
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    os.close(fd)
                    return self.take_private(name)
                status = os.fstat(fd)
                if status.st_nlink and _inode_at(self.folder / name) == status.st_ino:
                    return Part(self, name, fd, status.st_size)
                os.close(fd)  # it became a blob, or was discarded, before we had the lock

    def take_private(self, stem: str = "new") -> Part:
        """A new part that nobody else will find."""
        name = f"{stem}{PRIVATE}{secrets.token_hex(8)}"
        with explained(f"make {self.folder / name}"):
            fd = self._open(name, os.O_EXCL)
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return Part(self, name, fd, 0)

    def open_part(self, digest: Digest, size: int) -> FileReader | None:
        """The part of a digest, to read what somebody else writes; None if there is none."""
        path = self.folder / digest_to_text(digest)
        with explained(f"open {path}"), contextlib.suppress(FileNotFoundError):
            return FileReader(path, os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), size)
        return None

    def check_room(self, more_bytes: int) -> None:
        """Raises DiskError DISK_FULL if so many more bytes would leave too little."""
        with explained(f"look at the disk of {self.folder}"):
            self.folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            disk = os.statvfs(self.folder)
        free = disk.f_bavail * disk.f_frsize
        if free - self._room_bytes < more_bytes:
            raise disk_full(
                f"no room for {more_bytes} more bytes in {self.folder}: {free} are free, and "
                f"{self._room_bytes} of them stay so"
            )

    def files(self) -> Iterator[tuple[str, os.stat_result]]:
        """The parts that are there."""
        with explained(f"list {self.folder}"), contextlib.suppress(FileNotFoundError):
            for name in sorted(os.listdir(self.folder)):
                with contextlib.suppress(FileNotFoundError):
                    status = os.lstat(self.folder / name)
                    if stat.S_ISREG(status.st_mode):
                        yield name, status

    def sweep(self, before_ms: int) -> list[tuple[str, os.stat_result]]:
        """Remove the old parts that nobody writes."""
        return [
            (name, status)
            for name, status in list(self.files())
            if status.st_mtime_ns // 1_000_000 < before_ms and self._remove_if_idle(name)
        ]

    def _open(self, name: str, flags: int = 0) -> int:
        flags |= os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            return os.open(self.folder / name, flags, FILE_MODE)
        except FileNotFoundError:
            self.folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            return os.open(self.folder / name, flags, FILE_MODE)

    def _remove_if_idle(self, name: str) -> bool:
        path = self.folder / name
        with explained(f"remove {path}"):
            try:
                fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            except FileNotFoundError:
                return False
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(path)
            except (BlockingIOError, FileNotFoundError):
                return False
            finally:
                os.close(fd)
        return True


class Part:
    """One file of the folder, written by one thread at a time."""

    def __init__(self, staging: Staging, name: str, fd: int, size: int) -> None:
        self.size = size
        self.path = staging.folder / name
        self._staging = staging
        self._is_private = PRIVATE in name
        self._fd = fd
        self._hash = hashlib.sha256()
        self._hashed = 0  # so many of the bytes are in `_hash`
        self._unsent = 0

    def write(self, data: bytes | memoryview) -> None:
        """Add to its end. It goes to the disk as it comes: no sync of the log waits behind it."""
        with explained(f"write {self.path}"):
            view = memoryview(data)
            at = self.size
            while view:
                count = os.pwrite(self._fd, view, at)
                view = view[count:]
                at += count
            if self._hashed == self.size:
                self._hash.update(data)
                self._hashed = at
            self.size = at
            self._catch_up(CATCH_UP * len(data))
            self._unsent += len(data)
            if self._unsent >= self._staging.out_bytes:
                write_out(self._fd, at - self._unsent, at)
                self._unsent = 0
                self._staging.check_room(0)

    def clear(self) -> None:
        """Begin anew."""
        with explained(f"empty {self.path}"):
            os.ftruncate(self._fd, 0)
        self.size = self._hashed = self._unsent = 0
        self._hash = hashlib.sha256()

    def digest(self) -> Digest:
        """Of all its bytes."""
        with explained(f"read {self.path}"):
            self._catch_up(self.size)
        return self._hash.digest()

    def pieces(self) -> Iterator[bytes]:
        """All its bytes, in turn."""
        at = 0
        while at < self.size:
            with explained(f"read {self.path}"):
                piece = self._read(at, self.size - at)
            yield piece
            at += len(piece)

    def seal(self, mode: int) -> None:
        """Every byte is on the disk, and nobody writes to it by mistake."""
        with explained(f"sync {self.path}"):
            os.fchmod(self._fd, mode)
            os.fsync(self._fd)

    def let_go(self) -> None:
        """Close it; kept if it can be resumed. Twice is no error."""
        if self._fd < 0:
            return
        if self._is_private or not self.size:
            self.discard()
            return
        os.close(self._fd)
        self._fd = -1

    def discard(self) -> None:
        """Close and remove it. Twice is no error."""
        if self._fd < 0:
            return
        with contextlib.suppress(OSError):  # whoever comes next finds it, and does not trust it
            if _inode_at(self.path) == os.fstat(self._fd).st_ino:
                os.unlink(self.path)
        os.close(self._fd)
        self._fd = -1

    def moved(self) -> None:
        """Its file is a blob now, under another name."""
        os.close(self._fd)
        self._fd = -1

    def _catch_up(self, bytes_max: int) -> None:
        """Read for the digest what an earlier process wrote."""
        end = min(self.size, self._hashed + bytes_max)
        while self._hashed < end:
            piece = self._read(self._hashed, end - self._hashed)
            self._hash.update(piece)
            self._hashed += len(piece)

    def _read(self, at: int, length: int) -> bytes:
        piece = os.pread(self._fd, min(length, BLOB_PIECE_BYTES), at)
        if not piece:
            raise OSError(f"it ends at byte {at}, before its {self.size} bytes")
        return piece


class FileReader:
    """Reads a blob, or what is there of a part; also when that has become a blob, or was removed.

    Attributes:
        size: Of the whole.
    """

    def __init__(self, path: Path, fd: int, size: int) -> None:
        self.size = size
        self._path = path
        self._fd = fd

    def read(self, offset: int, length: int) -> bytes:
        """Bytes from `offset` on; fewer at the end of what is there."""
        with explained(f"read {self._path}"):
            return read_all(self._fd, offset, length)

    def close(self) -> None:
        """Twice is no error."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _inode_at(path: Path) -> int:
    try:
        return os.lstat(path).st_ino
    except FileNotFoundError:
        return -1


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)

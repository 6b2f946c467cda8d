"""Partial uploads: files that will become blobs, in one folder on a local disk.

The part of a digest has that digest as its name, so that the next upload resumes where the last one
was cut, also after a crash. A writer holds a lock on it; a second writer of the same digest gets a
private part, which is never resumed. Bytes that an earlier process wrote are not trusted: they are
read for the digest before the part becomes a blob.
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
from rollq.store.real_disk import FOLDER_MODE
from rollq.store.state_lock import FILE_MODE
from rollq.store.writeback import write_out

CATCH_UP: Final = 4  # bytes of a resumed part to hash for each new byte
PRIVATE: Final = "-"  # in the name of a private part


class Staging:
    """The folder of partial uploads.

    Args:
        folder: Made when it is first needed.
        room_bytes: Bytes to leave free on the disk, for the log and other programs.
        out_bytes: Bytes after which a part is written back to the disk.
    """

    def __init__(self, folder: Path, room_bytes: int, out_bytes: int = WRITEBACK_BYTES) -> None:
        self.folder = folder
        self.out_bytes = out_bytes
        self._room_bytes = room_bytes

    def take(self, digest: Digest) -> Part:
        """Lock the part of a digest, with the bytes it already has; a private part if another
        writer holds it."""
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
                os.close(fd)  # it became a blob or was discarded before we had the lock

    def take_private(self, stem: str = "new") -> Part:
        """Make an empty part with a random name, which no other writer opens."""
        name = f"{stem}{PRIVATE}{secrets.token_hex(8)}"
        with explained(f"make {self.folder / name}"):
            fd = self._open(name, os.O_EXCL)
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return Part(self, name, fd, 0)

    def open_part(self, digest: Digest, size: int) -> FileReader | None:
        """Open the part of a digest for reading while it is written; None if there is none."""
        path = self.folder / digest_to_text(digest)
        with explained(f"open {path}"), contextlib.suppress(FileNotFoundError):
            return FileReader(path, os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), size)
        return None

    def check_room(self, more_bytes: int) -> None:
        """Raises DiskError DISK_FULL if `more_bytes` would leave less than `room_bytes` free."""
        with explained(f"look at the disk of {self.folder}"):
            self.folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            disk = os.statvfs(self.folder)
        free = disk.f_bavail * disk.f_frsize
        if free - self._room_bytes < more_bytes:
            raise disk_full(
                f"no room for {more_bytes} more bytes in {self.folder}: {free} are free, and "
                f"{self._room_bytes} of them are reserved"
            )

    def files(self) -> Iterator[tuple[str, os.stat_result]]:
        """All parts, by name."""
        with explained(f"list {self.folder}"), contextlib.suppress(FileNotFoundError):
            for name in sorted(os.listdir(self.folder)):
                with contextlib.suppress(FileNotFoundError):
                    status = os.lstat(self.folder / name)
                    if stat.S_ISREG(status.st_mode):
                        yield name, status

    def sweep(self, before_ms: int) -> list[tuple[str, os.stat_result]]:
        """Remove parts that were last written before `before_ms` and have no writer; returns
        them."""
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
    """A partial upload, locked by its writer. Used by one thread at a time.

    Attributes:
        size: Bytes it has.
        path: Its file, until `moved`.
    """

    def __init__(self, staging: Staging, name: str, fd: int, size: int) -> None:
        self.size = size
        self.path = staging.folder / name
        self._staging = staging
        self._is_private = PRIVATE in name
        self._fd = fd
        self._hash = hashlib.sha256()
        self._hashed = 0  # leading bytes that are in `_hash`; at most `size`
        self._unsent = 0  # last bytes that are not written back yet

    def write(self, data: bytes | memoryview) -> None:
        """Append bytes. They are written back as they come, so that a sync of the log does not wait
        for them."""
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
        """Remove all bytes."""
        with explained(f"empty {self.path}"):
            os.ftruncate(self._fd, 0)
        self.size = self._hashed = self._unsent = 0
        self._hash = hashlib.sha256()

    def digest(self) -> Digest:
        """The SHA-256 of all bytes."""
        with explained(f"read {self.path}"):
            self._catch_up(self.size)
        return self._hash.digest()

    def pieces(self) -> Iterator[bytes]:
        """All bytes, in order."""
        at = 0
        while at < self.size:
            with explained(f"read {self.path}"):
                piece = self._read(at, self.size - at)
            yield piece
            at += len(piece)

    def seal(self, mode: int) -> None:
        """Sync all bytes to the disk, and set the mode of the file."""
        with explained(f"sync {self.path}"):
            os.fchmod(self._fd, mode)
            os.fsync(self._fd)

    def release(self) -> None:
        """Close the part; an empty or private one is removed. May be called again."""
        if self._fd < 0:
            return
        if self._is_private or not self.size:
            self.discard()
            return
        os.close(self._fd)
        self._fd = -1

    def discard(self) -> None:
        """Close and remove the part. May be called again."""
        if self._fd < 0:
            return
        with contextlib.suppress(OSError):  # a part that stays is verified before it is used
            if _inode_at(self.path) == os.fstat(self._fd).st_ino:
                os.unlink(self.path)
        os.close(self._fd)
        self._fd = -1

    def moved(self) -> None:
        """Close the part after its file was renamed to a blob."""
        os.close(self._fd)
        self._fd = -1

    def _catch_up(self, bytes_max: int) -> None:
        """Hash up to `bytes_max` of the bytes that an earlier process wrote."""
        end = min(self.size, self._hashed + bytes_max)
        while self._hashed < end:
            piece = self._read(self._hashed, end - self._hashed)
            self._hash.update(piece)
            self._hashed += len(piece)

    def _read(self, at: int, length: int) -> bytes:
        piece = os.pread(self._fd, min(length, BLOB_PIECE_BYTES), at)
        if not piece:
            raise OSError(f"the file ends at byte {at} of {self.size}")
        return piece


class FileReader:
    """An open blob or part. Stays readable after its file was renamed or removed.

    Attributes:
        size: Bytes of the complete blob.
    """

    def __init__(self, path: Path, fd: int, size: int) -> None:
        self.size = size
        self._path = path
        self._fd = fd

    def read(self, offset: int, length: int) -> bytes:
        """Read bytes from `offset` on; fewer at the end of the file."""
        with explained(f"read {self._path}"):
            return read_all(self._fd, offset, length)

    def close(self) -> None:
        """Close the file. May be called again."""
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

"""The disk of a real machine: one state directory, locked against a second member.

Failures keep their meaning: a full disk, a broken one and a forbidden one are told apart, and
none of them is retried here.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from rollq.base.errors import DiskError, ErrorCode

LOCK_NAME = "LOCK"
FILE_MODE = 0o600
FOLDER_MODE = 0o700


class RealDisk:
    """A `Disk` below one directory. Used by one process at a time, from any of its threads."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._fds: dict[str, int] = {}
        with _explained(f"open the state directory {root}"):
            root.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            self._lock_fd = os.open(root / LOCK_NAME, os.O_RDWR | os.O_CREAT, FILE_MODE)
        self._lock()

    def names(self, folder: str) -> list[str]:
        """Sorted file names in a folder."""
        try:
            return sorted(
                entry.name for entry in os.scandir(self._root / folder) if entry.is_file()
            )
        except FileNotFoundError:
            return []

    def size(self, name: str) -> int:
        """Length in bytes; -1 if there is no such file."""
        try:
            return os.stat(self._root / name).st_size
        except FileNotFoundError:
            return -1

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Up to `length` bytes."""
        with _explained(f"read {name}"):
            pieces = []
            fd = self._fd(name)
            while length > 0:
                piece = os.pread(fd, length, offset)
                if not piece:
                    break
                pieces.append(piece)
                offset += len(piece)
                length -= len(piece)
            return b"".join(pieces)

    def write(self, name: str, offset: int, data: bytes) -> None:
        """Write all of it."""
        with _explained(f"write {name}"):
            fd = self._fd(name, create=True)
            view = memoryview(data)
            while view:
                count = os.pwrite(fd, view, offset)
                view = view[count:]
                offset += count

    def truncate(self, name: str, length: int) -> None:
        """Cut or zero-extend."""
        with _explained(f"truncate {name}"):
            os.ftruncate(self._fd(name, create=True), length)

    def sync(self, name: str) -> None:
        """fdatasync."""
        with _explained(f"sync {name}"):
            os.fdatasync(self._fd(name))

    def rename(self, old: str, new: str) -> None:
        """Atomic replace."""
        with _explained(f"rename {old} to {new}"):
            self._forget(new)
            self._make_folder(new)
            os.replace(self._root / old, self._root / new)
            fd = self._fds.pop(old, None)
            if fd is not None:
                self._fds[new] = fd

    def remove(self, name: str) -> None:
        """Delete if it is there."""
        with _explained(f"remove {name}"):
            self._forget(name)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._root / name)

    def sync_dir(self, folder: str) -> None:
        """fsync of the folder, and of the root that holds its name."""
        with _explained(f"sync the folder {folder}"):
            path = self._root / folder
            path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            for each in (path, self._root):
                fd = os.open(each, os.O_RDONLY | os.O_DIRECTORY)
                try:
                    os.fsync(fd)
                finally:
                    os.close(fd)

    def close(self) -> None:
        """Close every file and give the directory free."""
        for fd in self._fds.values():
            os.close(fd)
        self._fds.clear()
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1

    def _lock(self) -> None:
        try:
            fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(self._lock_fd, 32, 0).decode(errors="replace").strip() or "another"
            os.close(self._lock_fd)
            self._lock_fd = -1
            raise DiskError(
                ErrorCode.DISK_BUSY,
                f"process {holder} uses the state directory {self._root}",
                "stop it, or give this member a directory of its own",
            ) from None
        os.ftruncate(self._lock_fd, 0)
        os.pwrite(self._lock_fd, f"{os.getpid()}\n".encode(), 0)

    def _fd(self, name: str, *, create: bool = False) -> int:
        fd = self._fds.get(name)
        if fd is None:
            if create:
                self._make_folder(name)
            flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
            fd = self._fds[name] = os.open(self._root / name, flags, FILE_MODE)
        return fd

    def _forget(self, name: str) -> None:
        fd = self._fds.pop(name, None)
        if fd is not None:
            os.close(fd)

    def _make_folder(self, name: str) -> None:
        folder = (self._root / name).parent
        if not folder.is_dir():
            folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)


@contextlib.contextmanager
def _explained(what: str) -> Iterator[None]:
    """Turn the system's errors into ours."""
    try:
        yield
    except OSError as error:
        reason = f"cannot {what}: {error.strerror or error}"
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise DiskError(
                ErrorCode.DISK_FULL, reason, "make room and start the member again"
            ) from None
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            hint = "give the user that runs rollq the right to write there"
            raise DiskError(ErrorCode.DISK_FAILED, reason, hint) from None
        raise DiskError(
            ErrorCode.DISK_FAILED, reason, "check the disk; the member reads it anew at its start"
        ) from None

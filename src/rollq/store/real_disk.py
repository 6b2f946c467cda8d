"""The disk of a real machine: one state directory, locked against others (`state_lock`).

Errors distinguish a full disk, a failed one and missing permission, and none of them is retried
here. A bounded number of files stays open; one with unsynced writes is never closed, because a new
descriptor may not report their failure.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Final

from rollq.base.errors import DiskError, ErrorCode
from rollq.base.limits import OPEN_FILES_MAX
from rollq.store.descriptors import read_all
from rollq.store.restoring import check_restored
from rollq.store.state_lock import FILE_MODE, StateOwner, lock_state, unlock_state

FOLDER_MODE: Final = 0o700
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FORBIDDEN: Final = (errno.EACCES, errno.EPERM, errno.EROFS)


class RealDisk:
    """A `Disk` below one directory. Used by one process at a time, from any of its threads."""

    def __init__(self, root: Path, *, unsafe_no_fsync: bool = False) -> None:
        """Open and lock the directory, which is made if it is not there.

        Args:
            root: the state directory.
            unsafe_no_fsync: leave it to the system when bytes reach the disk. A power cut may then
                take what was acknowledged, and a member that comes back may break its promises.

        Raises:
            LocalError: BAD_SETUP if it is that of a worker.
            DiskError: DISK_BUSY if another process uses it, DISK_FAILED if it cannot be written,
                DISK_CORRUPT if it is half of what a backup held.
        """
        self._root = root
        self._syncs = not unsafe_no_fsync
        self._is_child = False
        self._files: OrderedDict[str, _File] = OrderedDict()  # least recently used first
        self._mutex = threading.Lock()  # guards `_files` and the `users` of each
        self._folders: dict[str, bool] = {}  # folders known to exist; True: the name is durable
        with _Explained("open the state directory", root):
            check_restored(root)
            if not root.is_dir():
                root.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
                self._sync_folder(root.parent)
            self._lock_fd = lock_state(root, StateOwner.MEMBER)
            try:
                # Folders of a killed process may be in the page cache only.
                self._sync_folder(root)
            except BaseException:
                unlock_state(self._lock_fd)
                raise

    # --- the Disk protocol

    def names(self, folder: str) -> list[str]:
        """Sorted file names in a folder."""
        with _Explained("list", folder):
            try:
                with os.scandir(self._path(folder)) as entries:
                    return sorted(entry.name for entry in entries if entry.is_file())
            except FileNotFoundError:
                return []

    def size(self, name: str) -> int:
        """Length in bytes; -1 if there is no such file."""
        with _Explained("look at", name):
            try:
                return os.stat(self._path(name)).st_size
            except FileNotFoundError:
                return -1

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Up to `length` bytes."""
        with _Explained("read", name), _Held(self, name) as file:
            return read_all(file.fd, offset, length)

    def write(self, name: str, offset: int, *pieces: bytes) -> None:
        """Write all of it."""
        with _Explained("write", name), _Held(self, name, create=True) as file:
            file.dirty = True
            count = os.pwritev(file.fd, pieces, offset)
            if count == sum(map(len, pieces)):
                return
            view = memoryview(b"".join(pieces))  # the disk is nearly full, or a signal came
            while count < len(view):
                count += os.pwrite(file.fd, view[count:], offset + count)

    def truncate(self, name: str, length: int) -> None:
        """Cut or zero-extend."""
        with _Explained("truncate", name), _Held(self, name, create=True) as file:
            file.dirty = True
            os.ftruncate(file.fd, length)

    def sync(self, name: str) -> None:
        """fdatasync."""
        with _Explained("sync", name), _Held(self, name) as file:
            if self._syncs:
                os.fdatasync(file.fd)
            file.dirty = False

    def rename(self, old: str, new: str) -> None:
        """Atomic replace."""
        if old == new:
            return
        with _Explained(f"rename {old} to", new):
            self._make_folder(new)
            with self._mutex:
                os.replace(self._path(old), self._path(new))
                self._forget(new)
                file = self._files.pop(old, None)
                if file is not None:
                    self._files[new] = file

    def remove(self, name: str) -> None:
        """Delete if it is there."""
        with _Explained("remove", name), self._mutex:
            self._forget(name)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path(name))

    def sync_dir(self, folder: str) -> None:
        """fsync of the folder, and of the root if the folder is new there."""
        with _Explained("sync the folder", folder):
            try:
                self._sync_folder(self._path(folder))
            except FileNotFoundError:
                return  # it does not exist
            if not self._folders.get(folder):
                self._sync_folder(self._root)
                self._folders[folder] = True

    # --- beyond it

    def open_fds(self) -> list[int]:
        """Descriptors of the open files: those that a forked child may write to."""
        return [file.fd for file in self._files.values()]

    def forked(self) -> None:
        """In a child: used by one thread, to write to files that were open at the fork and to read
        others. The parent may have exited, and its successor may write files of these names."""
        self._mutex = threading.Lock()  # another thread may have held it at the fork
        self._is_child = True

    def close(self) -> None:
        """Close every file and unlock the directory. Idempotent."""
        with self._mutex:
            for name in list(self._files):
                self._forget(name)
        if self._lock_fd >= 0:
            if self._is_child:
                os.close(self._lock_fd)
            else:
                unlock_state(self._lock_fd)
            self._lock_fd = -1

    # --- helpers

    def _open(self, name: str, *, create: bool) -> _File:
        if create:
            if self._is_child:
                raise OSError(errno.EPERM, "a forked child must not create files")
            self._make_folder(name)
        flags = (os.O_RDONLY if self._is_child else os.O_RDWR) | (os.O_CREAT if create else 0)
        file = self._files[name] = _File(os.open(self._path(name), flags, FILE_MODE))
        if len(self._files) > OPEN_FILES_MAX:
            idle = [
                known
                for known, other in self._files.items()
                if other is not file and not other.users and not other.dirty
            ]
            if idle:
                self._forget(idle[0])
        return file

    def _forget(self, name: str) -> None:
        file = self._files.pop(name, None)
        if file is not None:
            file.gone = True
            if not file.users:
                os.close(file.fd)

    def _make_folder(self, name: str) -> None:
        folder = name.rpartition("/")[0]
        if folder and folder not in self._folders:
            self._path(folder).mkdir(mode=FOLDER_MODE, exist_ok=True)
            self._folders[folder] = False

    def _path(self, name: str) -> Path:
        return self._root / name

    def _sync_folder(self, path: Path) -> None:
        if self._syncs:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)


class _File:
    """One open file."""

    __slots__ = ("dirty", "fd", "gone", "users")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.users = 0  # calls in progress
        self.dirty = False  # written since the last sync
        self.gone = False  # to be closed by its last user


class _Held:
    """An open file that is not closed meanwhile. Not a generator: every turn of a member uses
    several."""

    __slots__ = ("_disk", "_file")

    def __init__(self, disk: RealDisk, name: str, *, create: bool = False) -> None:
        with disk._mutex:
            file = disk._files.get(name)
            if file is None:
                file = disk._open(name, create=create)
            else:
                disk._files.move_to_end(name)
            file.users += 1
        self._disk = disk
        self._file = file

    def __enter__(self) -> _File:
        return self._file

    def __exit__(self, *raised: object) -> None:
        file = self._file
        with self._disk._mutex:
            file.users -= 1
            if file.gone and not file.users:
                os.close(file.fd)


class _Explained:
    """Maps errors of the system to ours."""

    __slots__ = ("_name", "_verb")

    def __init__(self, verb: str, name: object) -> None:
        self._verb = verb
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, OSError):
            return
        reason = f"cannot {self._verb} {self._name}: {error.strerror or error}"
        if error.errno in _FULL:
            code, hint = ErrorCode.DISK_FULL, "make room and start the member again"
        elif error.errno in _FORBIDDEN:
            code = ErrorCode.DISK_FAILED
            hint = "give the user that runs rollq the right to write there"
        else:
            code = ErrorCode.DISK_FAILED
            hint = "check the disk; the member reads it anew at its start"
        raise DiskError(code, reason, hint) from error

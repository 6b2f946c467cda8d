"""Removal of untrusted directory trees: any depth, any permissions, never through a link.

Few descriptors are used: beyond a bound of depth a folder is moved up and removed there. A folder
is opened only after it could not be removed as an empty one; mounted file systems, which the kernel
reports differently, are not touched.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import Final

from rollq.base.limits import REMOVAL_DEPTH_MAX

FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
NOT_EMPTY: Final = frozenset((errno.ENOTEMPTY, errno.EEXIST))
# How often a folder may have new entries: another removal of it moves deep folders up.
REFILLS_MAX: Final = 100


def remove_entry(fd: int, name: str) -> None:
    """Remove the entry of this name in an open folder, recursively.

    Raises:
        OSError: something is left; the first reason.
    """
    try:
        os.unlink(name, dir_fd=fd)
        return
    except FileNotFoundError:
        return
    except OSError as error:
        if not _is_folder(fd, name):
            raise error from None
    if _remove_empty(fd, name):
        return
    removal = _Removal(_open_unlocked(fd, name))
    try:
        for _ in range(REFILLS_MAX):
            removal.run()
            if _remove_empty(fd, name):
                return
            if removal.error is not None:
                break
    except FileNotFoundError:
        return  # another removal was faster
    except OSError as error:
        raise removal.error or error from None
    finally:
        os.close(removal.top)
    raise removal.error or OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), name)


def open_folder(fd: int, name: str) -> int:
    """Open a folder that lies directly in an open one; raises OSError, also if it is a link."""
    return os.open(name, FOLDER, dir_fd=fd)


class _Removal:
    """Empties one folder."""

    __slots__ = ("_moved_count", "_prefix", "error", "top")

    def __init__(self, top: int) -> None:
        self.top = top
        self.error: OSError | None = None  # the first error
        self._prefix = f".rollq-{os.urandom(8).hex()}"
        self._moved_count = 0

    def run(self) -> None:
        """Repeat until it is empty, or nothing that is left can be removed."""
        while self._sweep(self.top, 1):
            pass

    def _sweep(self, fd: int, depth: int) -> bool:
        """One pass over a folder; whether anything was removed."""
        progress = False
        with os.scandir(fd) as entries:
            for entry in entries:
                try:
                    if not entry.is_dir(follow_symlinks=False):
                        os.unlink(entry.name, dir_fd=fd)
                        progress = True
                    elif self._remove_folder(fd, entry.name, depth):
                        progress = True
                except FileNotFoundError:
                    continue  # removed meanwhile
                except OSError as error:
                    self.error = self.error or error
        return progress

    def _remove_folder(self, fd: int, name: str, depth: int) -> bool:
        if _remove_empty(fd, name):
            return True
        below = _open_unlocked(fd, name)
        try:
            if depth >= REMOVAL_DEPTH_MAX:
                self._moved_count += 1
                moved = f"{self._prefix}-{self._moved_count}"
                os.rename(name, moved, src_dir_fd=fd, dst_dir_fd=self.top)
                return True
            progress = self._sweep(below, depth + 1)
        finally:
            os.close(below)
        return _remove_empty(fd, name) or progress


def _remove_empty(fd: int, name: str) -> bool:
    """Remove a folder if it is empty; raises OSError if it never can be, as one that is mounted."""
    try:
        os.rmdir(name, dir_fd=fd)
    except OSError as error:
        if error.errno in NOT_EMPTY:
            return False
        raise
    return True


def _open_unlocked(fd: int, name: str) -> int:
    """Open a folder with permission to empty it: programs may have removed the permission, but not
    the ownership."""
    try:
        below = open_folder(fd, name)
    except PermissionError:
        _unlock(fd, name)
        below = open_folder(fd, name)
    with contextlib.suppress(OSError):
        if os.fstat(below).st_mode & stat.S_IRWXU != stat.S_IRWXU:
            os.fchmod(below, 0o700)
    return below


def _unlock(fd: int, name: str) -> None:
    """Grant ourselves access to a folder; only the inode that was checked is changed."""
    if not hasattr(os, "O_PATH"):
        os.chmod(name, 0o700, dir_fd=fd, follow_symlinks=False)
        return
    handle = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
    try:
        os.chmod(f"/proc/self/fd/{handle}", 0o700)
    finally:
        os.close(handle)


def _is_folder(fd: int, name: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode)
    except OSError:
        return False

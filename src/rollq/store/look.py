"""A state directory opened read-only, also while a member uses it.

Code that moves damaged files may run on it: a moved or removed file disappears from this view only.
Nothing is written.
"""

from __future__ import annotations

import os
from pathlib import Path

from rollq.base.errors import DiskError, ErrorCode
from rollq.store.state_lock import LOCK_NAME, StateOwner, holder_of, owner_of


class LookDisk:
    """A `Disk` for reading."""

    def __init__(self, root: Path) -> None:
        """Raises DiskError if there is no such directory, it is not one of a member, or it may not
        be read."""
        self._root = root
        self._hidden: dict[str, None] = {}
        if not root.is_dir():
            raise DiskError(
                ErrorCode.DISK_FAILED,
                f"there is no state directory {root}",
                "name the one that a member was started with: --state, or state/PORT",
            )
        self.names("wal")
        parts = (LOCK_NAME, "wal", "snapshots", "history")
        is_known = any((root / name).exists() for name in parts)
        if owner_of(root) is StateOwner.WORKER or (any(root.iterdir()) and not is_known):
            raise DiskError(
                ErrorCode.DISK_FAILED,
                f"{root} holds other things, and is no state directory of a member",
                "name the one that a member was started with: --state, or state/PORT",
            )

    def holder(self) -> str:
        """The process that uses the directory; empty if none does."""
        return holder_of(self._root)

    def names(self, folder: str) -> list[str]:
        """Sorted file names in a folder."""
        try:
            with os.scandir(self._root / folder) as entries:
                found = [entry.name for entry in entries if entry.is_file()]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _unreadable(self._root / folder, error) from error
        return sorted(name for name in found if f"{folder}/{name}" not in self._hidden)

    def size(self, name: str) -> int:
        """Length in bytes; -1 if there is no such file."""
        try:
            return -1 if name in self._hidden else (self._root / name).stat().st_size
        except FileNotFoundError:
            return -1
        except OSError as error:
            raise _unreadable(self._root / name, error) from error

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Up to `length` bytes."""
        try:
            with (self._root / name).open("rb") as file:
                file.seek(offset)
                return file.read(length)
        except OSError as error:
            raise _unreadable(self._root / name, error) from error

    def write(self, name: str, offset: int, *pieces: bytes) -> None:
        """Refused."""
        raise _only_looking(name)

    def truncate(self, name: str, length: int) -> None:
        """Refused."""
        raise _only_looking(name)

    def sync(self, name: str) -> None:
        """Nothing was written."""

    def rename(self, old: str, new: str) -> None:
        """The old name disappears from this view."""
        self._hidden[old] = None

    def remove(self, name: str) -> None:
        """The name disappears from this view."""
        self._hidden[name] = None

    def sync_dir(self, folder: str) -> None:
        """Nothing was changed."""


def _only_looking(name: str) -> DiskError:
    return DiskError(ErrorCode.BUG, f"{name} was opened for reading only")


def _unreadable(path: Path, error: OSError) -> DiskError:
    return DiskError(
        ErrorCode.DISK_FAILED,
        f"cannot read {path}: {error.strerror or error}",
        "look as the user that runs the member; if that is so, check the disk",
    )

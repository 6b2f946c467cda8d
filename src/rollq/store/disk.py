"""The disk as the store sees it: a flat directory of named files.

Calls are blocking and run on the persist thread. A write is durable only after `sync(name)`; a
new, renamed or removed name only after `sync_dir()`. Every method may raise `DiskError`
(DISK_FAILED, DISK_FULL). A failed sync is final: the caller must stop, never retry.
Names are relative, may hold `/` for one level of folders (`wal/000001.log`), never `..`.
"""

from __future__ import annotations

from typing import Final, Protocol

from rollq.base.limits import BROKEN_COPIES_MAX

BROKEN: Final = "broken"  # the folder of damaged files, kept for inspection


class Disk(Protocol):
    """The file system operations of the store; `rollq.testing.disk` has a virtual one."""

    def names(self, folder: str) -> list[str]:
        """Sorted file names (without the folder) in a folder; empty if there is none."""

    def size(self, name: str) -> int:
        """Length in bytes; -1 if there is no such file."""

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Up to `length` bytes; fewer at the end of the file."""

    def write(self, name: str, offset: int, *pieces: bytes) -> None:
        """Write pieces, concatenated, from offset on, creating or extending the file (a gap reads
        as zeros)."""

    def truncate(self, name: str, length: int) -> None:
        """Cut or zero-extend the file."""

    def sync(self, name: str) -> None:
        """fdatasync: every earlier write to this file is durable when it returns."""

    def rename(self, old: str, new: str) -> None:
        """Atomic replace; durable after `sync_dir`."""

    def remove(self, name: str) -> None:
        """Delete; durable after `sync_dir`. A missing file is no error."""

    def sync_dir(self, folder: str) -> None:
        """fsync of the folder: creations, renames and removals in it are durable."""


def prune_broken(disk: Disk, suffix: str) -> None:
    """Bound the number of damaged files kept of one kind; the first by name are deleted."""
    kept = [name for name in disk.names(BROKEN) if name.endswith(suffix)]
    for name in kept[:-BROKEN_COPIES_MAX]:
        disk.remove(f"{BROKEN}/{name}")

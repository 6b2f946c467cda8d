"""Blobs in a directory: `ab/cdef…` by digest, read-only, so that they can be linked to.

    LOCK              shared by processes that use the directory; exclusive for `rollq blobs gc`
    00/ … ff/         blobs
    partial/          uploads under way or cut
    rotten/           corrupt blobs, kept for analysis; the oldest are removed

A blob gets its name after all its bytes are verified and synced. It is durable, and may be
acknowledged, once its folder is synced too.
"""

from __future__ import annotations

import contextlib
import enum
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rollq.base.digests import Digest
from rollq.base.errors import DiskError, ErrorCode
from rollq.base.limits import BLOB_ROOM_BYTES, BROKEN_COPIES_MAX, WRITEBACK_BYTES
from rollq.store.blobs.failures import blob_missing, explained
from rollq.store.blobs.partial import FileReader, Part, Staging, sync_folder
from rollq.store.blobs.protocol import Leftover, StoredBlob
from rollq.store.blobs.staged import FOLDERS, PARTIAL, ROTTEN, Staged, digest_at, place_of
from rollq.store.real_disk import FOLDER_MODE
from rollq.store.state_lock import FILE_MODE, LOCK_NAME

FOLDER: Final = "blobs"  # of a state directory, of a member or of a worker
BLOB_MODE: Final = 0o444


class Use(enum.Enum):
    """How a process uses a directory, and with whom it shares it."""

    LOOK = "look"  # reads only; takes no lock
    SHARED = "shared"  # reads and writes beside other processes
    ALONE = "alone"  # the only writer


class LocalBlobs(Staged):
    """A `BlobStore` in one directory. Used from any thread of several processes."""

    def __init__(
        self,
        folder: Path,
        use: Use = Use.SHARED,
        *,
        room_bytes: int = BLOB_ROOM_BYTES,
        out_bytes: int = WRITEBACK_BYTES,
    ) -> None:
        """Open and lock the directory; make it unless `use` is LOOK.

        Args:
            folder: The directory.
            use: How it is used.
            room_bytes: Bytes to leave free on the disk.
            out_bytes: Bytes of an upload after which they are written back; small values do not
                delay a log on the same disk.

        Raises:
            DiskError: DISK_BUSY if another process has a lock that excludes `use`; DISK_FAILED.
        """
        super().__init__(Staging(folder / PARTIAL, room_bytes, out_bytes))
        self._folder = folder
        # By folder; 1: its names were synced since this process began, so they are durable.
        self._settled = bytearray(len(FOLDERS))
        self._lock_fd = -1
        self._looks = use is Use.LOOK
        if use is not Use.LOOK:
            with explained(f"open {folder}"):
                self._lock(alone=use is Use.ALONE)
        elif not folder.is_dir():
            raise DiskError(
                ErrorCode.DISK_FAILED,
                f"there are no blobs in {folder}",
                "name the state directory of a member or worker that has had files",
            )

    # --- the BlobStore protocol

    def size(self, digest: Digest) -> int | None:
        """The size of a blob in bytes; None if it is missing."""
        path = self._folder / place_of(digest)
        with explained(f"look at {path}"):
            try:
                status = os.lstat(path)
            except FileNotFoundError:
                return None
            if not stat.S_ISREG(status.st_mode):
                return None
            self._settle(digest[0])
        return status.st_size

    def open(self, digest: Digest) -> FileReader:
        """Open a blob for reading."""
        path = self._folder / place_of(digest)
        with explained(f"open {path}"):
            try:
                fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            except FileNotFoundError:
                raise blob_missing(digest) from None
        return FileReader(path, fd, os.fstat(fd).st_size)

    def path(self, digest: Digest) -> Path | None:
        """The file of a blob, to link to; None if it is missing."""
        return None if self.size(digest) is None else self._folder / place_of(digest)

    def remove(self, digest: Digest) -> None:
        """Remove a blob. The removal is not synced: a blob that reappears after a power cut is
        found by the scan at the next start."""
        path = self._folder / place_of(digest)
        with explained(f"remove {path}"), contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def digests(self, start: int = 0) -> Iterator[StoredBlob]:
        """All blobs, one folder after the other."""
        for folder in (*FOLDERS[start:], *FOLDERS[:start]):
            yield from self._list(folder)

    def set_aside(self, digest: Digest) -> None:
        """Move a corrupt blob to `rotten/`."""
        path = self._folder / place_of(digest)
        rotten = self._folder / ROTTEN
        with explained(f"set {path} aside"):
            rotten.mkdir(mode=FOLDER_MODE, exist_ok=True)
            try:
                os.replace(path, rotten / digest.hex())
            except FileNotFoundError:
                return
            os.utime(rotten / digest.hex())  # its age in `rotten/` counts from now
            sync_folder(path.parent)
            copies = sorted(self._corrupt(), key=lambda one: one.mtime_ms)
            for one in copies[:-BROKEN_COPIES_MAX]:
                (self._folder / one.name).unlink(missing_ok=True)

    def leftovers(self) -> Iterator[Leftover]:
        """Parts of uploads, and corrupt blobs."""
        for name, status in self._staging.files():
            yield _leftover(PARTIAL, name, status)
        yield from self._corrupt()

    def sweep(self, before_ms: int) -> list[Leftover]:
        """Remove old leftovers."""
        gone = [_leftover(PARTIAL, *one) for one in self._staging.sweep(before_ms)]
        for one in list(self._corrupt()):
            if one.mtime_ms < before_ms:
                with explained(f"remove {one.name}"):
                    (self._folder / one.name).unlink(missing_ok=True)
                gone.append(one)
        return gone

    def close(self) -> None:
        """Unlock the directory."""
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1

    # --- helpers

    def _publish(self, digest: Digest, part: Part) -> None:
        path = self._folder / place_of(digest)
        part.seal(BLOB_MODE)
        with explained(f"store {path}"):
            if _is_there(path):
                sync_folder(path.parent)  # the writer that was first may not have synced it yet
                part.discard()
                return
            self._make_folder(path.parent)
            os.rename(part.path, path)
            part.moved()
            try:
                sync_folder(path.parent)
            except OSError:
                path.unlink(missing_ok=True)  # a name that may be lost must not be visible
                raise

    def _make_folder(self, folder: Path) -> None:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=FOLDER_MODE)
            sync_folder(self._folder)

    def _settle(self, number: int) -> None:
        """Sync a folder once: names that a killed process made may be in the page cache only."""
        if not self._settled[number] and not self._looks:
            sync_folder(self._folder)
            sync_folder(self._folder / FOLDERS[number])
            self._settled[number] = 1

    def _list(self, folder: str) -> Iterator[StoredBlob]:
        with explained(f"list {self._folder / folder}"):
            try:
                names = sorted(os.listdir(self._folder / folder))
            except FileNotFoundError:
                return
            for name in names:
                digest = digest_at(folder, name)
                if digest is None:
                    continue
                try:
                    status = os.lstat(self._folder / folder / name)
                except FileNotFoundError:
                    continue
                if stat.S_ISREG(status.st_mode):
                    yield StoredBlob(digest, status.st_size, status.st_mtime_ns // 1_000_000)

    def _corrupt(self) -> Iterator[Leftover]:
        folder = self._folder / ROTTEN
        with explained(f"list {folder}"), contextlib.suppress(FileNotFoundError):
            for name in sorted(os.listdir(folder)):
                with contextlib.suppress(FileNotFoundError):
                    yield _leftover(ROTTEN, name, os.lstat(folder / name))

    def _lock(self, *, alone: bool) -> None:
        if not self._folder.is_dir():
            self._folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            sync_folder(self._folder.parent)
        fd = os.open(self._folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            fcntl.flock(fd, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            raise DiskError(
                ErrorCode.DISK_BUSY,
                f"another process uses the blobs in {self._folder}",
                "stop it first; a running member or worker collects garbage by itself"
                if alone
                else "wait until `rollq blobs gc` has ended",
            ) from None
        self._lock_fd = fd


def _is_there(path: Path) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except FileNotFoundError:
        return False


def _leftover(folder: str, name: str, status: os.stat_result) -> Leftover:
    return Leftover(f"{folder}/{name}", status.st_size, status.st_mtime_ns // 1_000_000)

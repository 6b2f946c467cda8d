"""Blobs in a directory: `ab/cdef…` by digest, read-only, so that they can be linked to.

    LOCK              held by whoever uses the directory; `gc` by hand wants it alone
    00/ … ff/         blobs
    partial/          uploads under way or cut
    rotten/           what was found to be damaged, for analysis; the oldest are removed

A blob gets its name when all its bytes are checked and synced, and it is promised when its folder
is synced too.
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
from rollq.store.real_disk import FILE_MODE, FOLDER_MODE, LOCK_NAME

FOLDER: Final = "blobs"  # of a state directory, of a member or of a worker
BLOB_MODE: Final = 0o444


class Use(enum.Enum):
    """Who else may use a directory."""

    LOOK = "look"  # anybody: nothing is changed
    SHARED = "shared"  # others that change it too
    ALONE = "alone"  # nobody but those who look


class LocalBlobs(Staged):
    """A `BlobStore` below one directory. Used from any thread, also of several processes."""

    def __init__(
        self,
        folder: Path,
        use: Use = Use.SHARED,
        *,
        room_bytes: int = BLOB_ROOM_BYTES,
        out_bytes: int = WRITEBACK_BYTES,
    ) -> None:
        """Open and lock the directory, which is made unless it is only looked at.

        Args:
            folder: the directory.
            use: who else may use it.
            room_bytes: so much of the disk stays free.
            out_bytes: what comes goes to the disk at these distances; near ones
                delay no log that is on the same disk.

        Raises:
            DiskError: DISK_BUSY if somebody uses it who does not go with `use`; DISK_FAILED.
        """
        super().__init__(Staging(folder / PARTIAL, room_bytes, out_bytes))
        self._folder = folder
        self._settled = bytearray(len(FOLDERS))  # 1: all names in it are known to be durable
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
        """Its bytes."""
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
        """To read from it."""
        path = self._folder / place_of(digest)
        with explained(f"open {path}"):
            try:
                fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            except FileNotFoundError:
                raise blob_missing(digest) from None
        return FileReader(path, fd, os.fstat(fd).st_size)

    def path(self, digest: Digest) -> Path | None:
        """The file to link to."""
        return None if self.size(digest) is None else self._folder / place_of(digest)

    def remove(self, digest: Digest) -> None:
        """Not synced: what comes back after a power cut is found by the scan at the next start."""
        path = self._folder / place_of(digest)
        with explained(f"remove {path}"), contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def digests(self, start: int = 0) -> Iterator[StoredBlob]:
        """All of them, one folder after the other."""
        for folder in (*FOLDERS[start:], *FOLDERS[:start]):
            yield from self._list(folder)

    def set_aside(self, digest: Digest) -> None:
        """Into `rotten/`."""
        path = self._folder / place_of(digest)
        rotten = self._folder / ROTTEN
        with explained(f"set {path} aside"):
            rotten.mkdir(mode=FOLDER_MODE, exist_ok=True)
            try:
                os.replace(path, rotten / digest.hex())
            except FileNotFoundError:
                return
            os.utime(rotten / digest.hex())  # its age there counts from now
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
                sync_folder(path.parent)  # whoever was first may not have come so far
                part.discard()
                return
            self._make_folder(path.parent)
            os.rename(part.path, path)
            part.moved()
            try:
                sync_folder(path.parent)
            except OSError:
                path.unlink(missing_ok=True)  # what the disk may forget, nobody may see
                raise

    def _make_folder(self, folder: Path) -> None:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=FOLDER_MODE)
            sync_folder(self._folder)

    def _settle(self, number: int) -> None:
        """Names that a killed process had made may be in the page cache only."""
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
                "stop it first; a member or worker that runs clears away by itself"
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

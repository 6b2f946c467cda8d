"""Caches as files `<CacheId>/<name>` in a shared directory, as legacy workers keep them.

Folders that were put there by hand become caches at a start, until a later start finds them gone. A
cache that came by a put is written there, too. Jobs use blobs and never these files. An existing
file is not replaced, and only files written by this worker are removed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Final, Protocol

import msgspec

from rollq.base.digests import Digest
from rollq.base.errors import ErrorCode, RemoteError, RollqError
from rollq.base.jobs import BlobRef, CacheEntry
from rollq.base.limits import CACHE_ENTRIES_MAX, CACHE_ID_BYTES_MAX
from rollq.base.names import NameTree, Parts, checked_name, checked_tree
from rollq.roles.worker.cache_index import Cache
from rollq.roles.worker.inputs import EXECUTABLE
from rollq.roles.worker.preparations import LINKS_ARE_SAFE
from rollq.store.safe_dir import Found, SafeDir

log = logging.getLogger("rollq.worker")

RECORD: Final = "cache_files"  # of the worker's state directory
COPYING: Final = ".rollq-"  # prefix of incomplete copies
FILE_MODE: Final = 0o644
PROGRAM_MODE: Final = 0o755

Modes = dict[str, int]  # of the files of a folder, by name
Look = tuple[int, int]  # inode and mtime of a file as we wrote it


class FolderRecord(msgspec.Struct):
    """What earlier processes of this worker did here. Append fields only with a default."""

    written: dict[str, dict[str, Look]] = {}  # files written by us, by cache id and name
    taken: dict[str, None] = {}  # caches made from folders; removed with their folder


class FileStore(Protocol):
    """The part of the worker's blob store that is used here."""

    def path(self, digest: Digest) -> Path:
        """The file of a stored blob; blocks."""

    async def keep_open(self, fd: int) -> BlobRef:
        """Store a copy of an open file and pin it; closes the descriptor."""

    def unpin(self, blobs: Sequence[BlobRef]) -> None:
        """Undo one pin of each."""


class CacheFiles:
    """The directory, and a record of the files written by us. All methods but `take` block.

    The record is written after files and caches: files of a crash in between stay.

    Args:
        folder: The directory, which exists.
        state_dir: The worker's, for the record.
        blobs: Stores the contents.
    """

    def __init__(self, folder: Path, state_dir: Path, blobs: FileStore) -> None:
        self._folder = folder
        self._path = state_dir / RECORD
        self._blobs = blobs
        self._lock = threading.Lock()  # held while files and record change
        self._record = FolderRecord()

    def find(self) -> dict[str, Modes]:
        """The folders that can be caches, by cache id. Refused ones are logged, one line each."""
        self._record = _read_record(self._path)
        try:
            with SafeDir(str(self._folder)) as folder:
                return dict(self._find(folder))
        except OSError as error:
            log.warning("cannot read the cache directory: %s", error)
            return {}

    def gone(self, found: Collection[str]) -> list[str]:
        """Caches made from folders that are not among the found ones."""
        return [cache_id for cache_id in self._record.taken if cache_id not in found]

    async def take(self, known: Cache, modes: Modes, save: Callable[[Cache], None]) -> Cache:
        """The cache extended by the new files of its folder. They are stored and pinned, and
        `save`, which blocks, was called if there are any.

        Raises:
            RollqError: a name conflicts with the others; the worker's disk cannot store a file.
            OSError: a file cannot be read.
        """
        loop = asyncio.get_running_loop()
        added: list[CacheEntry] = []
        names = modes.keys() - {entry.name for entry in known.entries}
        if not names:
            return known
        try:
            checked_tree([*(entry.name for entry in known.entries), *sorted(names)])
            for name in names:
                fd = await loop.run_in_executor(None, self._open, known.cache_id, name)
                added.append(CacheEntry(name, await self._blobs.keep_open(fd), modes[name]))
            entries = sorted((*known.entries, *added), key=attrgetter("name"))
            cache = Cache(known.cache_id, tuple(entries), is_kept=False)
            await loop.run_in_executor(None, save, cache)
        except BaseException:
            self._blobs.unpin([entry.blob for entry in added])
            raise
        if not known.entries:
            await loop.run_in_executor(None, self._note_taken, cache.cache_id)
        log.info("cache %s: %d files taken from its folder", cache.cache_id, len(added))
        return cache

    def write(self, cache: Cache) -> None:
        """Write the missing files of a cache. Failures are only logged: jobs do not need the
        files."""
        with self._lock:
            try:
                try:
                    self._write_all(cache)
                finally:
                    self._write_record()
            except (RollqError, OSError) as error:
                log.warning("cannot write the files of cache %a: %s", cache.cache_id, error)

    def remove(self, cache_id: str) -> None:
        """Remove the files of a removed cache that we wrote. Failures are only logged."""
        with self._lock:
            try:
                self._record.taken.pop(cache_id, None)
                for name, look in self._record.written.pop(cache_id, {}).items():
                    self._remove(self._folder / cache_id / name, look)
                self._write_record()
            except OSError as error:
                log.warning("cannot remove the files of cache %a: %s", cache_id, error)

    # --- files of others

    def _find(self, folder: SafeDir) -> Iterator[tuple[str, Modes]]:
        for cache_id in sorted(os.listdir(folder.fd)):
            path = self._folder / cache_id
            if not path.is_dir():
                continue
            try:
                _check_id(cache_id)
                with SafeDir(cache_id, folder) as files:
                    modes, refused = _checked(files.walk())
            except (RollqError, OSError) as error:
                log.warning("the folder %a is not taken as a cache: %s", str(path), error)
                continue
            if refused:
                count, first = len(refused), refused[0]
                log.warning("the cache folder %a: %d names refused: %s", str(path), count, first)
            if modes:
                yield cache_id, modes

    def _open(self, cache_id: str, name: str) -> int:
        with SafeDir(str(self._folder)) as folder:
            return folder.open_read((cache_id, *checked_name(name)))

    def _note_taken(self, cache_id: str) -> None:
        with self._lock:
            self._record.taken[cache_id] = None
            self._write_record()

    # --- our files

    def _write_all(self, cache: Cache) -> None:
        _check_id(cache.cache_id)
        with SafeDir(str(self._folder)) as folder:
            for entry in cache.entries:
                path = self._folder / cache.cache_id / entry.name
                if os.path.lexists(path):
                    continue
                try:
                    self._write(folder, (cache.cache_id, *checked_name(entry.name)), entry)
                except RemoteError:
                    if os.path.lexists(path):
                        continue  # another worker of this host was first
                    raise
                self._record.written.setdefault(cache.cache_id, {})[entry.name] = _look(path)

    def _write(self, folder: SafeDir, parts: Parts, entry: CacheEntry) -> None:
        source = self._blobs.path(entry.blob.digest)
        is_program = bool(entry.mode & EXECUTABLE)
        if LINKS_ARE_SAFE and not is_program and folder.link(parts, str(source)):
            return
        # A copy is linked to its name when it is complete; a rename could replace a file.
        copy = COPYING + secrets.token_hex(8)
        fd = os.open(source, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            folder.copy((copy,), fd, PROGRAM_MODE if is_program else FILE_MODE)
            if not folder.link(parts, str(self._folder / copy)):
                raise OSError("its file system has no hard links")
        finally:
            os.close(fd)
            with contextlib.suppress(FileNotFoundError):
                folder.unlink(copy)

    def _remove(self, path: Path, look: Look) -> None:
        with contextlib.suppress(FileNotFoundError):
            if _look(path) == look:
                path.unlink()
        with contextlib.suppress(OSError):  # stops at the first folder that is not empty
            while (path := path.parent) != self._folder:
                path.rmdir()

    def _write_record(self) -> None:
        temporary = self._path.with_suffix(".new")
        temporary.write_bytes(msgspec.msgpack.encode(self._record))
        temporary.replace(self._path)


def _check_id(cache_id: str) -> None:
    parts = checked_name(cache_id)
    if len(parts) != 1 or len(cache_id.encode()) > CACHE_ID_BYTES_MAX:
        raise RemoteError(
            ErrorCode.BAD_PAYLOAD,
            f"the cache id {cache_id[:64]!a} is no folder name of up to {CACHE_ID_BYTES_MAX} bytes",
        )


def _checked(found: Iterator[Found]) -> tuple[Modes, list[str]]:
    """The files that can be in one cache, and the problems of the others."""
    tree = NameTree()
    modes: Modes = {}
    refused = []
    for one in sorted(found):
        if one.problem:
            refused.append(f"{one.name!a} {one.problem}")
        elif one.is_file:
            try:
                tree.add(one.name)
            except RemoteError as error:
                refused.append(error.message)
            else:
                is_program = bool(one.status.st_mode & EXECUTABLE)
                modes[one.name] = PROGRAM_MODE if is_program else FILE_MODE
    if len(modes) > CACHE_ENTRIES_MAX:
        raise RemoteError(
            ErrorCode.BAD_PAYLOAD, f"{len(modes)} files, the maximum is {CACHE_ENTRIES_MAX}"
        )
    return modes, refused


def _look(path: Path) -> Look:
    status = os.lstat(path)
    return status.st_ino, status.st_mtime_ns


def _read_record(path: Path) -> FolderRecord:
    try:
        return msgspec.msgpack.decode(path.read_bytes(), type=FolderRecord)
    except FileNotFoundError:
        return FolderRecord()
    except (OSError, msgspec.MsgspecError) as error:
        log.warning("cannot read %s, the files it names stay: %s", path, error)
        return FolderRecord()

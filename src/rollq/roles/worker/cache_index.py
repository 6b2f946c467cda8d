"""The index of a worker's caches on disk: one file for each cache, read at a start.

Contents are blobs; the index has names and digests. A file that cannot be read is dropped: its
cache is put again."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
from pathlib import Path
from typing import Final

import msgspec

from rollq.base.errors import RemoteError
from rollq.base.jobs import BlobRef, CacheEntry
from rollq.store.blobs.failures import explained
from rollq.store.blobs.partial import sync_folder

log = logging.getLogger("rollq.worker")

FOLDER: Final = "caches"  # of the worker's state directory
SUFFIX: Final = ".cache"


class Cache(msgspec.Struct, array_like=True, frozen=True):
    """One cache. Fields may be appended with a default; nothing else may change."""

    cache_id: str
    entries: tuple[CacheEntry, ...]  # by name
    is_kept: bool  # by the group, which also removes it

    @property
    def blobs(self) -> tuple[BlobRef, ...]:
        """The blobs of its files."""
        return tuple(entry.blob for entry in self.entries)


class CacheIndex:
    """The index files in one folder. All methods block."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self) -> list[Cache]:
        """Read all caches.

        Raises:
            DiskError: the folder cannot be read.
        """
        caches = []
        with explained(f"read {self._folder}"):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for path in sorted(self._folder.iterdir()):
                if path.suffix == SUFFIX:
                    cache = _read(path)
                    if cache is not None and self._path(cache.cache_id) == path:
                        caches.append(cache)
                        continue
                path.unlink(missing_ok=True)  # damaged or incomplete
        return caches

    def write(self, cache: Cache) -> None:
        """Write a cache durably.

        Raises:
            DiskError: DISK_FULL or DISK_FAILED.
        """
        path = self._path(cache.cache_id)
        temporary = path.with_suffix(".new")
        with explained(f"write {path}"):
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with open(fd, "wb") as file:
                file.write(msgspec.msgpack.encode(cache))
                file.flush()
                os.fsync(fd)
            temporary.replace(path)
            sync_folder(self._folder)

    def remove(self, cache_id: str) -> None:
        """Remove a cache; if a power cut undoes that, it is removed again."""
        with contextlib.suppress(FileNotFoundError), explained("remove the page of a cache"):
            self._path(cache_id).unlink()

    def incoming(self, number: int) -> Path:
        """A path for content that becomes a blob next."""
        return self._folder / f"{number}.new"

    def _path(self, cache_id: str) -> Path:
        return self._folder / (hashlib.sha256(cache_id.encode()).hexdigest() + SUFFIX)


def _read(path: Path) -> Cache | None:
    try:
        return msgspec.msgpack.decode(path.read_bytes(), type=Cache)
    except (OSError, msgspec.MsgspecError, RemoteError) as error:
        log.warning("cannot read the cache index file %s: %s", path, error)
        return None

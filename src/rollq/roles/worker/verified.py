"""Whether a blob of the worker's own store may be given to a job without reading it again.

It was compared with its digest when it was stored. It is compared again after a restart of the
worker, when the status of its file has changed, and after an hour.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, NamedTuple

from rollq.base.digests import Digest
from rollq.base.errors import ErrorCode, StateError
from rollq.store.blobs.local import LocalBlobs

TRUSTED_MS: Final = 3_600_000
LOOKS_MAX: Final = 16_384  # remembered blobs; the oldest are verified again


class FileStamp(NamedTuple):
    """The status of a file when it was verified."""

    inode: int
    size: int
    mtime_ns: int
    read_ms: int


class VerifiedBlobs:
    """When blobs were verified. Called from threads; verifying twice at once does no harm."""

    def __init__(self, store: LocalBlobs) -> None:
        self._store = store
        self._verified: dict[Digest, FileStamp] = {}

    def note(self, digest: Digest, now_ms: int) -> None:
        """A blob was just compared with its digest."""
        look = _look_at(self._store.path(digest), now_ms)
        self._verified.pop(digest, None)
        if look is not None:
            self._verified[digest] = look
        while len(self._verified) > LOOKS_MAX:
            self._verified.pop(next(iter(self._verified)), None)

    def is_sound(self, digest: Digest, now_ms: int) -> bool:
        """Whether a blob is stored and valid, as far as known; a damaged one is quarantined.

        Raises:
            DiskError: of the disk.
        """
        known = self._verified.get(digest)
        look = _look_at(self._store.path(digest), now_ms)
        if look is None:
            return False
        if known is not None and known[:3] == look[:3] and now_ms - known.read_ms < TRUSTED_MS:
            return True
        try:
            if not self._store.verify(digest):
                return False
        except StateError as error:
            if error.code is not ErrorCode.BLOB_MISSING:
                raise
            return False
        self.note(digest, now_ms)
        return True


def _look_at(path: Path | None, now_ms: int) -> FileStamp | None:
    if path is None:
        return None
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    return FileStamp(status.st_ino, status.st_size, status.st_mtime_ns, now_ms)

"""Whether a blob of the worker's own store may be handed to a job without being read.

All of it was compared with its digest when it came. It is again when the worker has started anew,
when its file does not look as it did then, and when that is an hour ago.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, NamedTuple

from rollq.base.digests import Digest
from rollq.base.errors import ErrorCode, StateError
from rollq.store.blobs.local import LocalBlobs

TRUSTED_MS: Final = 3_600_000
LOOKS_MAX: Final = 16_384  # of more, those that were read longest ago are read again


class FileStamp(NamedTuple):
    """Of a file whose bytes were right."""

    inode: int
    size: int
    mtime_ns: int
    read_ms: int


class VerifiedBlobs:
    """What was read when. Called from threads; two that read the same blob do no harm."""

    def __init__(self, store: LocalBlobs) -> None:
        self._store = store
        self._verified: dict[Digest, FileStamp] = {}

    def note(self, digest: Digest, now_ms: int) -> None:
        """All of it was just compared with its digest."""
        look = _look_at(self._store.path(digest), now_ms)
        self._verified.pop(digest, None)
        if look is not None:
            self._verified[digest] = look
        while len(self._verified) > LOOKS_MAX:
            self._verified.pop(next(iter(self._verified)), None)

    def is_sound(self, digest: Digest, now_ms: int) -> bool:
        """Whether it is here and whole, as far as is known; if not it is set aside.

        Raises:
            DiskError: the disk's own reasons.
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

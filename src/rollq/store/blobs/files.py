"""Plain files as sources of blobs: opened once, read in pieces."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from rollq.base.digests import Digest
from rollq.base.errors import ErrorCode, LocalError
from rollq.base.limits import BLOB_PIECE_BYTES
from rollq.store.blobs.failures import explained


def hash_file(path: Path) -> tuple[Digest, int]:
    """The digest and size of a file. Raises LocalError if it is not a plain file, and DiskError."""
    found = hashlib.sha256()
    size = 0
    with open_plain(path) as fd:
        for piece in pieces_of(fd, path):
            found.update(piece)
            size += len(piece)
    return found.digest(), size


@contextlib.contextmanager
def open_plain(path: Path) -> Iterator[int]:
    """Open a plain file for reading; does not block on a pipe or a device."""
    with explained(f"open {path}"):
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise LocalError(ErrorCode.BAD_OPTIONS, f"{path} is not a plain file", "name a file")
        yield fd
    finally:
        os.close(fd)


def pieces_of(fd: int, path: Path) -> Iterator[bytes]:
    """All bytes of an open file."""
    while True:
        with explained(f"read {path}"):
            piece = os.read(fd, BLOB_PIECE_BYTES)
        if not piece:
            return
        yield piece

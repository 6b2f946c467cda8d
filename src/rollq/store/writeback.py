"""Lets what was written to a large file go to the disk while more of it comes.

A sync at each distance would stop the writer for as long as the disk takes. Here the disk is told
to begin, and the writer waits for what it wrote some time before, which is there by then. So
little of the file is ever dirty in memory, and no sync of a log waits behind more. Nothing is
durable by this: that takes a sync at the end.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from typing import Final

from rollq.base.limits import SYNC_BYTES, WRITEBACK_BEHIND_BYTES

WAIT_BEFORE: Final = 1
WRITE: Final = 2
WAIT_AFTER: Final = 4


def write_out(fd: int, start: int, end: int) -> None:
    """These bytes begin to go to the disk, and those before them, but for a few, are there.

    Raises:
        OSError: the disk's.
    """
    length = end - start
    before = start - WRITEBACK_BEHIND_BYTES
    if not _call(fd, start, length, WRITE):
        if start // SYNC_BYTES != end // SYNC_BYTES:
            os.fdatasync(fd)
    elif before >= 0:
        _call(fd, before, length, WAIT_BEFORE | WRITE | WAIT_AFTER)


def _call(fd: int, offset: int, length: int, flags: int) -> bool:
    """False: there is no such call here, in the C library or in the kernel behind it."""
    if _sync_file_range is None:
        return False
    if _sync_file_range(fd, offset, length, flags) == 0:
        return True
    number = ctypes.get_errno()
    if number == errno.ENOSYS:
        return False
    raise OSError(number, os.strerror(number))


def _found() -> ctypes._NamedFuncPointer | None:
    """The call of the C library; only Linux has it."""
    if sys.platform != "linux":
        return None
    function = getattr(ctypes.CDLL(None, use_errno=True), "sync_file_range", None)
    if function is not None:
        function.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
        function.restype = ctypes.c_int
    return function


_sync_file_range: Final = _found()

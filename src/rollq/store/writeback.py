"""Writes a large file back to disk while it is being written.

Periodic syncs would block the writer. Instead, write-back is started asynchronously, and the writer
waits for earlier ranges, which are usually done by then. So little of the file is dirty at any
time, and syncs of the log are not delayed by it. Nothing is durable before a sync at the end.
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
    """Start the write-back of these bytes, and wait for that of earlier ones.

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
    """Call it; False: not available, in the C library or in the kernel."""
    if _sync_file_range is None:
        return False
    if _sync_file_range(fd, offset, length, flags) == 0:
        return True
    number = ctypes.get_errno()
    if number == errno.ENOSYS:
        return False
    raise OSError(number, os.strerror(number))


def _found() -> ctypes._NamedFuncPointer | None:
    """The function of the C library; Linux only."""
    if sys.platform != "linux":
        return None
    function = getattr(ctypes.CDLL(None, use_errno=True), "sync_file_range", None)
    if function is not None:
        function.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
        function.restype = ctypes.c_int
    return function


_sync_file_range: Final = _found()

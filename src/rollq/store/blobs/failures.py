"""Errors of blob stores."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from typing import Final

from rollq.base.digests import Digest, digest_to_text
from rollq.base.errors import DiskError, ErrorCode, RemoteError, StateError

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FORBIDDEN: Final = (errno.EACCES, errno.EPERM, errno.EROFS)


def blob_missing(digest: Digest) -> StateError:
    """BLOB_MISSING: the store does not have this blob."""
    return StateError(
        ErrorCode.BLOB_MISSING,
        f"the blob {digest_to_text(digest)} is not here",
        "upload it again, or fetch it from a member that holds it",
    )


def blob_corrupt(digest: Digest, what: str, *, is_resumed: bool = False) -> RemoteError:
    """BLOB_CORRUPT: received bytes do not match the digest or size that was announced."""
    hint = "the file changed while it was read, or was damaged on its way: upload it again"
    if is_resumed:
        hint = "a part was left from an earlier upload and is gone now: upload it from its start"
    return RemoteError(ErrorCode.BLOB_CORRUPT, f"the blob {digest_to_text(digest)} {what}", hint)


def disk_full(reason: str) -> DiskError:
    """DISK_FULL, with the commands that make room."""
    return DiskError(
        ErrorCode.DISK_FULL, reason, "make room: `rollq blobs gc`, or a larger disk; then try again"
    )


@contextlib.contextmanager
def explained(what: str) -> Iterator[None]:
    """Raise OSError as DiskError. `what` completes "cannot …" in its text."""
    try:
        yield
    except OSError as error:
        reason = f"cannot {what}: {error.strerror or error}"
        if error.errno in _FULL:
            raise disk_full(reason) from error
        hint = "check the disk"
        if error.errno in _FORBIDDEN:
            hint = "give the user that runs rollq the right to do so"
        raise DiskError(ErrorCode.DISK_FAILED, reason, hint) from error

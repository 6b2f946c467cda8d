"""Names that came from outside, turned into paths inside a job's directory. The only place.

A name is relative, of plain parts by `/`. Nothing else gets near the file system: no absolute
path, no `..`, no NUL, no backslash, no drive. Files are created anew and never through a link.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Callable
from typing import Any

from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.limits import INPUT_PATH_BYTES_MAX, INPUT_PATH_PARTS_MAX

PART_BYTES_MAX = 255


def checked_parts(name: str) -> list[str]:
    """The parts of an input's name.

    Raises:
        RemoteError: BAD_PAYLOAD, if it could lead anywhere but into the job's directory.
    """
    parts = name.split("/")
    try:
        name_bytes = len(name.encode())
        longest = max(len(part.encode()) for part in parts)
    except UnicodeEncodeError:
        raise _refused(name, "is not text") from None
    if "\0" in name or "\\" in name or ":" in parts[0]:
        raise _refused(name, "holds a NUL, a backslash or a drive")
    if any(part in ("", ".", "..") for part in parts):
        raise _refused(name, "is absolute, or has an empty part, . or ..")
    if name_bytes > INPUT_PATH_BYTES_MAX or longest > PART_BYTES_MAX:
        raise _refused(name, "is too long")
    if len(parts) > INPUT_PATH_PARTS_MAX:
        raise _refused(name, f"has more than {INPUT_PATH_PARTS_MAX} parts")
    return parts


def write_input(directory: str, name: str, content: bytes) -> str:
    """Create an input below a directory that only we write to; returns its path.

    Raises:
        RemoteError: BAD_PAYLOAD, if the name is refused or taken.
        OSError: the disk's own reasons.
    """
    parts = checked_parts(name)
    path = "/".join((directory, *parts))
    try:
        if len(parts) > 1:
            os.makedirs("/".join((directory, *parts[:-1])), exist_ok=True)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    except (FileExistsError, NotADirectoryError):
        raise _refused(name, "is there twice, or is both a file and a directory") from None
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(fd, view) :]
    finally:
        os.close(fd)
    return path


def remove_tree(directory: str) -> None:
    """Remove a job's directory, whatever its program left there; links are never followed."""

    def unlock(function: Callable[..., Any], path: str, error: Any) -> None:
        # A program may take its own directories' permissions away; they are still ours.
        parent = os.path.dirname(path)
        with contextlib.suppress(OSError):
            for one in (parent, path):
                if stat.S_ISDIR(os.lstat(one).st_mode):
                    os.chmod(one, 0o700)
            if stat.S_ISDIR(os.lstat(path).st_mode):
                shutil.rmtree(path, ignore_errors=True)
            else:
                os.unlink(path)

    shutil.rmtree(directory, onerror=unlock)
    if os.path.lexists(directory):
        shutil.rmtree(directory, ignore_errors=True)


def _refused(name: str, why: str) -> RemoteError:
    return RemoteError(
        ErrorCode.BAD_PAYLOAD,
        f"the file name {name[:128]!a} {why}",
        "use a relative path with / between plain names",
    )

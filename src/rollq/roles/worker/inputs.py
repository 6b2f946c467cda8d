"""The files that a program finds in its directory: checked as a whole, then put in place."""

from __future__ import annotations

import os
import time
from typing import Final

from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.names import Parts, checked_name, checked_tree
from rollq.store.beneath import Beneath, write_all
from rollq.wire.models import InputFile

PAYLOAD: Final[Parts] = ("payload",)

Stamps = dict[str, tuple[int, int]]  # name → (size, mtime) of an input as we wrote it


def checked_inputs(files: tuple[InputFile, ...]) -> list[tuple[Parts, bytes]]:
    """Where the inputs of a job go, and what is in them; before anything of it is written.

    Raises:
        RemoteError: BAD_PAYLOAD, if a name is refused, or a file is not here.
    """
    if len(files) == 1:
        places = [checked_name(files[0].name)]
    else:
        places = checked_tree([file.name for file in files])
    inputs = []
    for parts, file in zip(places, files, strict=True):
        if file.content is None:
            raise RemoteError(
                ErrorCode.BAD_PAYLOAD,
                f"the input {file.name[:64]!a} is in a cache, which this worker has not",
            )
        inputs.append((parts, file.content))
    return inputs


def place_input(directory: Beneath, parts: Parts, content: bytes, stamps: Stamps) -> None:
    """Create an input, and note how it looks: one that still does was not written to.

    Raises:
        RemoteError: BAD_PAYLOAD, if something has its name.
        OSError: the disk's own reasons.
    """
    fd = directory.open_new(parts)
    try:
        write_all(fd, content)
        # Set back, because a tick of the clock is long enough to write a file twice.
        long_ago_ns = time.time_ns() - 1_000_000_000
        os.utime(fd, ns=(long_ago_ns, long_ago_ns))
    finally:
        os.close(fd)
    stamps["/".join(parts)] = (len(content), long_ago_ns)

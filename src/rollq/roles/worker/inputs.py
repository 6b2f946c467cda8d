"""The files that a program finds in its directory: checked as a whole, then put in place.

An input is inline, or a blob of the worker's store. A blob gets one more name in the directory
(a hard link, which costs nothing) where permissions keep the program from writing to it; else it
is copied, so that no job can change what the next one reads.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import UNSET

from rollq.base.digests import Digest, digest_from_text
from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.jobs import BlobRef
from rollq.base.names import Parts, checked_name, checked_tree
from rollq.store.descriptors import write_all
from rollq.store.safe_dir import SafeDir
from rollq.wire.models import InputFile

PAYLOAD: Final[Parts] = ("payload",)
EXECUTABLE: Final = 0o100  # the bit that makes a program of a file
READ_ONLY: Final = 0o444
READ_ONLY_PROGRAM: Final = 0o555

Stamps = dict[str, tuple[int, int]]  # name → (size, mtime) of an input as we wrote it


class Input(NamedTuple):
    """Where an input goes, and what is in it: `content`, or the blob of this digest."""

    parts: Parts
    content: bytes | None
    digest: Digest = b""
    is_program: bool = False


class Linked(NamedTuple):
    """A blob that a job has a link to, and how it looked then."""

    digest: Digest
    inode: int
    look: tuple[int, int, int]  # size, mtime, mode


def checked_inputs(files: tuple[InputFile, ...]) -> list[Input]:
    """Where the inputs of a job go, and what is in them; before anything of it is written.

    Raises:
        RemoteError: BAD_PAYLOAD or BAD_ID, if a name or digest is refused, or a file is not here.
    """
    if len(files) == 1:
        places = [checked_name(files[0].name)]
    else:
        places = checked_tree([file.name for file in files])
    inputs = []
    for parts, file in zip(places, files, strict=True):
        is_program = file.mode is not UNSET and bool(file.mode & EXECUTABLE)
        if file.content is not None:
            inputs.append(Input(parts, file.content, b"", is_program))
        elif file.digest is not UNSET:
            inputs.append(Input(parts, None, digest_from_text(file.digest), is_program))
        else:
            raise RemoteError(
                ErrorCode.BAD_PAYLOAD,
                f"the input {file.name[:64]!a} is in a cache that this worker does not have",
            )
    return inputs


def check_named(inputs: Sequence[Input], blobs: Sequence[BlobRef]) -> None:
    """Refuse an input that is a blob which the job does not refer to: only of those that it does
    somebody has seen that its client may read them, and this worker holds those of others too.

    Raises:
        RemoteError: BAD_PAYLOAD.
    """
    named = {blob.digest for blob in blobs}
    for one in inputs:
        if one.content is None and one.digest not in named:
            raise RemoteError(
                ErrorCode.BAD_PAYLOAD,
                f"the input {'/'.join(one.parts)[:64]!a} is a blob that the job does not refer to",
                "name it among the blobs of the job",
            )


def place_input(
    directory: SafeDir, parts: Parts, content: bytes, stamps: Stamps, mode: int = 0o644
) -> None:
    """Create an input, and note how it looks: one that still does was not written to.

    Raises:
        RemoteError: BAD_PAYLOAD, if something has its name.
        OSError: the disk's own reasons.
    """
    fd = directory.open_new(parts, mode)
    try:
        write_all(fd, content)
        long_ago_ns = _long_ago_ns()
        os.utime(fd, ns=(long_ago_ns, long_ago_ns))
    finally:
        os.close(fd)
    stamps["/".join(parts)] = (len(content), long_ago_ns)


def place_all(
    directory: SafeDir,
    inputs: Sequence[Input],
    stamps: Stamps,
    path_of: Callable[[Digest], Path],
    *,
    links: bool,
) -> list[Linked]:
    """Put all inputs of a job in place; those that became links are returned. Blocks.

    Raises:
        RemoteError: BAD_PAYLOAD, if something is in the way.
        RollqError: what `path_of` raises if it has not got a blob.
        OSError: the disk's own reasons.
    """
    linked = []
    for one in inputs:
        if one.content is not None:
            mode = 0o755 if one.is_program else 0o644
            place_input(directory, one.parts, one.content, stamps, mode)
            continue
        source = path_of(one.digest)
        if links and not one.is_program and directory.link(one.parts, str(source)):
            link = linked_to(source, one.digest)
            linked.append(link)
            stamps["/".join(one.parts)] = link.look[:2]
        else:
            _place_copy(directory, one, source, stamps)
    return linked


def linked_to(source: Path, digest: Digest) -> Linked:
    """How a blob that is linked to looks now; raises OSError."""
    status = os.lstat(source)
    return Linked(digest, status.st_ino, (status.st_size, status.st_mtime_ns, status.st_mode))


def _place_copy(directory: SafeDir, one: Input, source: Path, stamps: Stamps) -> None:
    fd = os.open(source, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        mode = READ_ONLY_PROGRAM if one.is_program else READ_ONLY
        long_ago_ns = _long_ago_ns()
        directory.copy(one.parts, fd, mode, long_ago_ns)
        stamps["/".join(one.parts)] = (os.fstat(fd).st_size, long_ago_ns)
    finally:
        os.close(fd)


def _long_ago_ns() -> int:
    """Set back, because a tick of the clock is long enough to write a file twice."""
    return time.time_ns() - 1_000_000_000

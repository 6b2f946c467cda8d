"""Input files of programs: all are checked, then put into the directory.

An input is inline, or a blob of the worker's store. A blob is hard-linked into the directory, which
costs nothing, if permissions keep the program from writing to it; else it is copied, so that no job
can change the input of another.
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
EXECUTABLE: Final = 0o100  # the mode bit of a program
READ_ONLY: Final = 0o444
READ_ONLY_PROGRAM: Final = 0o555

Stamps = dict[str, tuple[int, int]]  # name → (size, mtime) of an input as written


class Input(NamedTuple):
    """An input file: its path, and its `content` or the digest of its blob."""

    parts: Parts
    content: bytes | None
    digest: Digest = b""
    is_program: bool = False


class Linked(NamedTuple):
    """A blob that is linked into a job's directory, with its status at that time."""

    digest: Digest
    inode: int
    look: tuple[int, int, int]  # size, mtime, mode


def checked_inputs(files: tuple[InputFile, ...]) -> list[Input]:
    """Check all inputs of a job, before anything is written.

    Raises:
        RemoteError: BAD_PAYLOAD or BAD_ID if a name or digest is invalid, or a file is missing.
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
    """Refuse a blob that the job does not refer to: its client was checked only for those, and this
    worker also has the blobs of others.

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
    """Create an input, and note its stamp, to detect later changes.

    Raises:
        RemoteError: BAD_PAYLOAD if the name is taken.
        OSError: of the disk.
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
    """Create all inputs of a job; returns those that are links. Blocks.

    Raises:
        RemoteError: BAD_PAYLOAD if a name is taken.
        RollqError: raised by `path_of` for a missing blob.
        OSError: of the disk.
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
    """The present status of a linked blob; raises OSError."""
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
    """A time in the past, because a file may be written twice within one clock tick."""
    return time.time_ns() - 1_000_000_000

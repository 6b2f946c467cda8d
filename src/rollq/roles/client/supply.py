"""What the files of a job are on their way to the grid: pieces with a name, a size and a source.
No network; a disk only to look whether a file is still the same."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from rollq.base.digests import Digest
from rollq.base.errors import ErrorCode, LocalError
from rollq.base.jobs import BlobRef
from rollq.roles.client.specs import JobSpec
from rollq.wire.staging_messages import StageJobs

BytesMoved: TypeAlias = Callable[[int, int], None]  # so many bytes of so many
Stamp: TypeAlias = tuple[int, ...]


class InputBlob(msgspec.Struct, frozen=True):
    """One file of a job that goes up as a blob.

    Attributes:
        name: Its name in the job's directory.
        source: Where its bytes are.
        stamp: What tells that a file is still the one that was read.
    """

    name: str
    source: Path | bytes
    ref: BlobRef
    stamp: Stamp = ()


class Supply(msgspec.Struct, frozen=True):
    """Where the blobs of a request can be had from, and who is told how they get on. A request
    that refers to none comes with `NOTHING`."""

    pieces: dict[Digest, InputBlob] = {}
    progress: BytesMoved | None = None


NOTHING: Final = Supply()


class SettledSpec(JobSpec, frozen=True):
    """A job whose files have been read: small ones are in the body, others have digests."""

    blobs: tuple[BlobRef, ...] = ()
    pieces: dict[Digest, InputBlob] = {}  # noqa: RUF012
    caches: tuple[str, ...] = ()


def caches_of(spec: JobSpec) -> tuple[str, ...]:
    """The caches that a job names."""
    return spec.caches if type(spec) is SettledSpec else ()


def blobs_of(spec: JobSpec) -> tuple[BlobRef, ...]:
    """What a job refers to."""
    return spec.blobs if type(spec) is SettledSpec else ()


def supply_of(spec: JobSpec, progress: BytesMoved | None = None) -> Supply:
    """Where that can be had from."""
    if type(spec) is not SettledSpec or not spec.blobs:
        return NOTHING
    return Supply(spec.pieces, progress)


def refs_of(request: Any) -> Sequence[BlobRef]:
    """The blobs that a request refers to, each once."""
    if type(request) is StageJobs:
        lists = [refs for group in request.groups for refs in group.blobs]
        return list(dict.fromkeys(ref for refs in lists for ref in refs))
    refs: tuple[BlobRef, ...] = getattr(request, "blobs", ())
    return refs


def stamp_of(status: os.stat_result) -> Stamp:
    """What changes when somebody writes to a file, or puts another in its place."""
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def check_same(piece: InputBlob) -> None:
    """Before a file is sent: it must be the one whose digest is known.

    Raises:
        LocalError: BLOB_CORRUPT if it has changed, BAD_OPTIONS if it is gone.
    """
    if isinstance(piece.source, bytes):
        return
    try:
        status = piece.source.stat()
    except OSError as error:
        raise unreadable(piece.source, error) from None
    if stamp_of(status) != piece.stamp:
        raise changed(piece.name, piece.source)


def changed(name: str, path: Path) -> LocalError:
    """A file is not the same any more."""
    return LocalError(
        ErrorCode.BLOB_CORRUPT,
        f"{name}: {path} changed while it was read or sent",
        "submit again when the file no longer changes; write to a temporary name and rename it",
    )


def unreadable(path: Path, error: OSError) -> LocalError:
    """A file cannot be read."""
    return LocalError(
        ErrorCode.BAD_OPTIONS,
        f"{path}: {error.strerror or error}",
        "check that it is there, and that you may read it",
    )

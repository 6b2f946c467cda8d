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
from rollq.base.ids import ClientId, JobId
from rollq.base.jobs import BlobRef, JobOptions
from rollq.base.limits import PAYLOAD_BYTES_MAX
from rollq.roles.client.answers import must_be_within_bounds
from rollq.roles.client.specs import JobSpec, body_of, id_for, job_options, subject_of
from rollq.wire import messages as wire
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


class SubmitMaker:
    """Makes the messages that submit jobs of a client, once their files are read."""

    __slots__ = ("_client_id", "_last")

    def __init__(self, client_id: ClientId) -> None:
        self._client_id = client_id
        # What the last job asked for and what that means, because neighbours are often alike.
        self._last: tuple[str, dict[str, Any], str, JobOptions | None] = ("", {}, "", None)

    def make(
        self, spec: JobSpec, job_id: JobId = b"", bytes_max: int = PAYLOAD_BYTES_MAX
    ) -> wire.SubmitJob:
        """The message that submits a job: under a new id that was drawn for it, or its own.

        Raises:
            LocalError: BAD_OPTIONS or BAD_PAYLOAD, naming what cannot be meant so.
        """
        client_id, exec_name = self._client_id, spec.exec_name
        job_id = job_id or id_for(spec, client_id)
        body = body_of(spec, job_id, client_id, bytes_max)
        last_exec, asked, subject, options = self._last
        is_like_last = last_exec == exec_name and asked == spec.options
        if not is_like_last:
            subject, options = subject_of(exec_name, spec.options), job_options(spec.options)
        shared = (job_id, client_id, subject, exec_name, body, options)
        if type(spec) is SettledSpec:
            request = wire.SubmitJob(*shared, spec.blobs, spec.caches, spec.key)
        else:
            request = wire.SubmitJob(*shared, job_key=spec.key)
        if not is_like_last or type(spec) is SettledSpec:
            must_be_within_bounds(request)
            # A list may be changed and be the same one, so it is no key.
            kept = {name: (*x,) if type(x) is list else x for name, x in spec.options.items()}
            self._last = (exec_name, kept, subject, options)
        return request


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

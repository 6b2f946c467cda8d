"""The files of a job on their way to the group, and the encoding of submits. No network; it uses
the disk only to check that a file has not changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from rollq.base.digests import Digest
from rollq.base.errors import ErrorCode, LocalError
from rollq.base.ids import ClientId, JobId
from rollq.base.jobs import BlobRef, JobOptions
from rollq.base.limits import PAYLOAD_BYTES_MAX
from rollq.roles.client.answers import check_bounds
from rollq.roles.client.jobs.options import job_options, subject_of
from rollq.roles.client.jobs.specs import JobSpec, body_of, id_for
from rollq.wire import messages as wire
from rollq.wire.staging_messages import StageJobs

BytesMoved: TypeAlias = Callable[[int, int], None]  # bytes done, total
Stamp: TypeAlias = tuple[int, ...]


class InputBlob(msgspec.Struct, frozen=True):
    """An input file of a job that is uploaded as a blob.

    Attributes:
        name: Its name in the job's directory.
        source: Its path or content.
        stamp: Detects that the file has changed since it was read.
    """

    name: str
    source: Path | bytes
    ref: BlobRef
    stamp: Stamp = ()


class Supply(msgspec.Struct, frozen=True):
    """The sources of the blobs of a request, and the progress callback. A request without blobs has
    `NOTHING`."""

    pieces: dict[Digest, InputBlob] = {}
    progress: BytesMoved | None = None


NOTHING: Final = Supply()


class SettledSpec(JobSpec, frozen=True):
    """A job whose files have been read: small ones are embedded, others have digests."""

    blobs: tuple[BlobRef, ...] = ()
    pieces: dict[Digest, InputBlob] = {}  # noqa: RUF012
    caches: tuple[str, ...] = ()


class SubmitMaker:
    """Encodes the submit messages of a client, for jobs whose files have been read."""

    __slots__ = ("_client_id", "_last")

    def __init__(self, client_id: ClientId) -> None:
        self._client_id = client_id
        # Options of the last job and their encoding, because consecutive jobs often have the same.
        self._last: tuple[str, dict[str, Any], str, JobOptions | None] = ("", {}, "", None)

    def make(
        self, spec: JobSpec, job_id: JobId = b"", bytes_max: int = PAYLOAD_BYTES_MAX
    ) -> wire.SubmitJob:
        """Encode the submit message of a job, with the given id or its own.

        Raises:
            LocalError: BAD_OPTIONS or BAD_PAYLOAD, naming the invalid part.
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
            check_bounds(request)
            self._last = (exec_name, _copied(spec.options), subject, options)
        return request


def _copied(given: Any) -> Any:
    """An equal value that does not change when the caller changes what it gave."""
    if isinstance(given, Mapping):
        return {name: _copied(value) for name, value in given.items()}
    if type(given) in (list, tuple, set):
        return type(given)(map(_copied, given))
    return given


def supply_of(spec: JobSpec, progress: BytesMoved | None = None) -> Supply:
    """The sources of the blobs of a job."""
    if type(spec) is not SettledSpec or not spec.blobs:
        return NOTHING
    return Supply(spec.pieces, progress)


def refs_of(request: Any) -> Sequence[BlobRef]:
    """The blobs that a request refers to, without duplicates."""
    if type(request) is StageJobs:
        lists = [refs for group in request.groups for refs in group.blobs]
        return list(dict.fromkeys(ref for refs in lists for ref in refs))
    refs: tuple[BlobRef, ...] = getattr(request, "blobs", ())
    return refs


def stamp_of(status: os.stat_result) -> Stamp:
    """A value that changes when the file is written to or replaced."""
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def check_same(piece: InputBlob) -> None:
    """Check that a file has not changed since its digest was computed.

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
    """The error for a file that has changed."""
    return LocalError(
        ErrorCode.BLOB_CORRUPT,
        f"{name}: {path} changed while it was read or sent",
        "submit again when the file no longer changes; write to a temporary name and rename it",
    )


def unreadable(path: Path, error: OSError) -> LocalError:
    """The error for a file that cannot be read."""
    return LocalError(
        ErrorCode.BAD_OPTIONS,
        f"{path}: {error.strerror or error}",
        "check that it is there, and that you may read it",
    )

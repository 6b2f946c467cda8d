"""Results of parent jobs as inputs: files of a job that refer to results of parents are replaced by
files with content, or blobs, as in any other job. The rest of the worker knows no parents.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from rollq.base.digests import digest_from_text
from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.ids import JobId, guid_from_text, guid_to_text
from rollq.base.jobs import BlobRef, ParentResult
from rollq.base.limits import OUTPUT_BYTES_MAX
from rollq.base.names import STDOUT_FILE
from rollq.base.outcomes import VALUE_DATA
from rollq.roles.worker.blobs import WorkerBlobs
from rollq.store.archive import unpack
from rollq.values.codec import pack
from rollq.wire.kept import result_kept
from rollq.wire.messages import AssignJob
from rollq.wire.models import InputFile, JobRequest, JobResult, decode_if_marked, encode_model

NAMES_TOLD: Final = 5  # outputs shown in the error for a missing one


class ParentOutput(NamedTuple):
    """The result of a parent: as bytes, and decoded if it is a report."""

    job_id: JobId
    raw: bytes
    report: JobResult | None


async def with_results(
    job: AssignJob, request: JobRequest, blobs: WorkerBlobs
) -> tuple[AssignJob, JobRequest]:
    """The job with the results of its parents in its files, and its request.

    Raises:
        RemoteError: a parent has no such output, or its result has expired.
        RollqError: a blob of a parent cannot be fetched.
    """
    given = {one.job_id: one for one in job.parents}
    left: dict[JobId, ParentOutput] = {}
    named = dict.fromkeys(job.blobs)
    files = []
    for file in request.files or ():
        if file.parent is not UNSET:
            parent_id = guid_from_text(file.parent)
            if parent_id not in left:
                left[parent_id] = await _left_by(parent_id, given, blobs)
            file = await _filled(file, left[parent_id], blobs)  # noqa: PLW2901
            if file.digest is not UNSET:
                named[_ref(file.digest, file.size or 0)] = None
        files.append(file)
    request = replace(request, files=tuple(files))
    made = replace(job, body=encode_model(request), blobs=tuple(named), parents=())
    return made, request


async def _left_by(
    parent_id: JobId, given: Mapping[JobId, ParentResult], blobs: WorkerBlobs
) -> ParentOutput:
    parent = given.get(parent_id)
    if parent is None:
        raise RemoteError(
            ErrorCode.UNKNOWN_JOB,
            f"the result of job {guid_to_text(parent_id)}, which it uses, did not come with it: it "
            "is forgotten, or the results of its parents are too large together",
            "give that job a longer result_ttl; have large results returned by fewer parents",
        )
    raw = parent.result
    whole = result_kept(raw, parent.blobs)
    if whole is not None:
        raw = await _read(whole, blobs)
    return ParentOutput(parent_id, raw, decode_if_marked(raw, JobResult, "Status"))


async def _filled(file: InputFile, left: ParentOutput, blobs: WorkerBlobs) -> InputFile:
    """The file with the content that it refers to."""
    name = file.output
    if name is UNSET:
        found: bytes | BlobRef = await _value(left, blobs)
    elif name == STDOUT_FILE:
        found = _stdout(left)
    else:
        return _output(file, left, name)
    if isinstance(found, bytes):
        return InputFile(file.name, content=found)
    return InputFile(file.name, digest=found.digest.hex(), size=found.size)


async def _value(left: ParentOutput, blobs: WorkerBlobs) -> bytes | BlobRef:
    """The returned value of a job, packed; of a function called with values, its data."""
    report = left.report
    if report is None:
        return b"".join(pack(left.raw))
    if report.data_kind is not UNSET and report.data_kind == VALUE_DATA:
        if report.data_blob is not UNSET:
            return _ref(report.data_blob.digest, report.data_blob.size)
        return b"" if report.data is UNSET else report.data
    if report.data is not UNSET or report.data_blob is not UNSET:
        found = _stdout(left)
        return b"".join(pack(found if isinstance(found, bytes) else await _read(found, blobs)))
    written = _stdout(left)
    raw = written if isinstance(written, bytes) else await _read(written, blobs)
    try:
        return b"".join(pack(raw.decode()))
    except UnicodeDecodeError:
        return b"".join(pack(raw))


def _stdout(left: ParentOutput) -> bytes | BlobRef:
    """The output of a program, or the bytes that a function returned."""
    report = left.report
    if report is None:
        return left.raw
    if report.data_kind is UNSET and report.data is not UNSET:
        return report.data
    blob = report.data_blob if report.data_kind is UNSET else UNSET
    if blob is UNSET:
        blob = report.stdout_blob
    if blob is not UNSET:
        return _ref(blob.digest, blob.size)
    if report.stdout_size is not UNSET:
        raise _missing(left, "all of its stdout: it was cut", "write to a file")
    if report.stdout_bytes is not UNSET:
        return report.stdout_bytes
    return (report.stdout or "").encode("utf-8", "surrogateescape")


def _output(file: InputFile, left: ParentOutput, name: str) -> InputFile:
    report = left.report
    outputs = () if report is None or report.outputs is UNSET else report.outputs
    for one in outputs:
        if one.name == name:
            return InputFile(file.name, digest=one.digest, size=one.size, mode=one.mode)
    archive = None if report is None else report.output_archive
    packed = unpack(archive, OUTPUT_BYTES_MAX) if archive else {}
    if name in packed:
        return InputFile(file.name, content=packed[name])
    names = [*(one.name for one in outputs), *packed]
    some = ", ".join(ascii(one[:64]) for one in names[:NAMES_TOLD])
    raise _missing(left, f"a file {name[:64]!a}", f"it left {some}" if some else "it left none")


def _missing(left: ParentOutput, what: str, hint: str) -> RemoteError:
    why = f"job {guid_to_text(left.job_id)}, which it uses, did not leave {what}"
    return RemoteError(ErrorCode.BAD_PAYLOAD, why, hint)


async def _read(blob: BlobRef, blobs: WorkerBlobs) -> bytes:
    blobs.pin((blob,))
    try:
        await blobs.bring((blob,))
        return await blobs.on_thread(blobs.path(blob.digest).read_bytes)
    finally:
        blobs.unpin((blob,))


def _ref(digest: str, size: int) -> BlobRef:
    return BlobRef(digest_from_text(digest), size)

"""Stand-ins in the log for bodies and results that are too large for it.

A payload larger than INLINE_BYTES_MAX is stored as a blob by the members; the log and the state
hold a stand-in: a small JSON object with the blob in its first field. The receiver of the job or
the result gets the bytes of the blob in place of the stand-in.

A stand-in is only valid if the job (or result) refers to its blob: peers without blobs refer to
none, so their payloads are never mistaken for stand-ins.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET

from rollq.base.digests import digest_to_text
from rollq.base.errors import RemoteError
from rollq.base.ids import JobId, guid_to_text
from rollq.base.jobs import BlobRef
from rollq.wire.models import (
    STATUS_OK,
    Int64,
    JobResultHead,
    OptionalInt,
    StreamBlob,
    decode_if_marked,
    encode_model,
)

# The ends of stdout and of stderr in a stand-in. JSON may write a character as six bytes, and both
# must fit INLINE_BYTES_MAX.
TEXT_CHARS_KEPT: Final = 4 * 1024
NAME_CHARS_KEPT: Final = 256
BODY_MARK: Final = b'{"BodyBlob":{'
RESULT_MARK: Final = b'{"WholeBlob":{'


class KeptBody(msgspec.Struct, frozen=True, rename="pascal"):
    """The stand-in for a body."""

    body_blob: StreamBlob
    job_id: str
    client_id: str
    exec_name: str
    note: str


class KeptResult(msgspec.Struct, frozen=True, rename="pascal"):
    """The stand-in for a result; read as a JobResult it is one without the outputs."""

    whole_blob: StreamBlob
    job_id: str
    client_id: str | None
    exec_name: str | None
    status: str
    stdout: str
    stderr: str
    output_archive: None
    exit_code: Int64
    note: str
    signal: OptionalInt = UNSET
    run_ms: OptionalInt = UNSET
    peak_bytes: OptionalInt = UNSET


class ResultText(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    """The texts of a JobResult; its archive is not decoded."""

    status: str
    stdout: str | None = ""
    stderr: str | None = ""


_BODY: Final = msgspec.json.Decoder(KeptBody)
_RESULT: Final = msgspec.json.Decoder(KeptResult)
_TEXT: Final = msgspec.json.Decoder(ResultText)


def stand_in_for_body(ref: BlobRef, job_id: JobId, client_id: str, exec_name: str) -> bytes:
    """The stand-in for a body that is stored as this blob."""
    note = f"the body, {ref.size} bytes, is kept as a blob"
    ident = guid_to_text(job_id)
    return encode_model(
        KeptBody(_named(ref), ident, client_id=client_id, exec_name=exec_name, note=note)
    )


def stand_in_for_result(ref: BlobRef, job_id: JobId, result: bytes) -> bytes:
    """The stand-in for a result that is stored as this blob."""
    note = f"the whole result, {ref.size} bytes, is kept as a blob"
    ident = guid_to_text(job_id)
    head = report_head(result)
    if head is None:
        stdout = _tail(_as_text(result))
        made = KeptResult(
            _named(ref),
            ident,
            client_id=None,
            exec_name=None,
            status=STATUS_OK,
            stdout=stdout,
            stderr="",
            output_archive=None,
            exit_code=0,
            note=note,
        )
        return encode_model(made)
    text = _TEXT.decode(result)
    return encode_model(
        KeptResult(
            _named(ref),
            ident,
            client_id=_name(head.client_id),
            exec_name=_name(head.exec_name),
            status=head.status[:NAME_CHARS_KEPT],
            stdout=_tail(text.stdout or ""),
            stderr=_tail(text.stderr or ""),
            output_archive=None,
            exit_code=head.exit_code,
            note=note,
            signal=head.signal or UNSET,
            run_ms=head.run_ms or UNSET,
            peak_bytes=head.peak_bytes or UNSET,
        )
    )


def body_kept(body: bytes, blobs: tuple[BlobRef, ...]) -> BlobRef | None:
    """The blob of a stand-in; None if the body is no stand-in."""
    if not blobs or not body.startswith(BODY_MARK):
        return None
    try:
        return _referred(_BODY.decode(body).body_blob, blobs)
    except msgspec.DecodeError:
        return None


def result_kept(result: bytes, blobs: tuple[BlobRef, ...]) -> BlobRef | None:
    """The blob of a stand-in; None if the result is no stand-in."""
    if not blobs or not result.startswith(RESULT_MARK):
        return None
    try:
        return _referred(_RESULT.decode(result).whole_blob, blobs)
    except msgspec.DecodeError:
        return None


def report_head(result: bytes) -> JobResultHead | None:
    """The head of a JobResult; None if the bytes are something else."""
    try:
        return decode_if_marked(result, JobResultHead, "Status")
    except RemoteError:
        return None


def without(blobs: tuple[BlobRef, ...], ref: BlobRef) -> tuple[BlobRef, ...]:
    """The references except this one."""
    return tuple(blob for blob in blobs if blob.digest != ref.digest)


def _referred(named: StreamBlob, blobs: tuple[BlobRef, ...]) -> BlobRef | None:
    for blob in blobs:
        if blob.digest.hex() == named.digest and blob.size == named.size:
            return blob
    return None


def _named(ref: BlobRef) -> StreamBlob:
    return StreamBlob(digest_to_text(ref.digest), ref.size)


def _as_text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return ""


def _tail(text: str) -> str:
    return text[-TEXT_CHARS_KEPT:]


def _name(text: str | None) -> str | None:
    return None if text is None else text[:NAME_CHARS_KEPT]

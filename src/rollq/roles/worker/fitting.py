"""Fits a result into the log. No process and no file here.

A result in the log has at most INLINE_BYTES_MAX. A stream or a returned value that fits is
included: as text if it is UTF-8, else as exact bytes beside the text. A larger one is uploaded as a
blob, and the result has its end. Only for a legacy grid, which has no blobs, a stream is cut, with
its full size in `stdout_size`, and a value that would be cut fails its job.
"""

from __future__ import annotations

from typing import Final

from msgspec import UNSET, UnsetType

from rollq.base.jobs import AttemptRef, Status
from rollq.base.limits import INLINE_BYTES_MAX
from rollq.roles.worker.capture import end_of
from rollq.roles.worker.outputs import ExecutionEnd, SeparatePart, encode_result
from rollq.roles.worker.signals import StoredResult
from rollq.wire.messages import AssignJob
from rollq.wire.models import encode_model

STREAMS: Final = ("stdout", "stderr")
END_BYTES: Final = 2 * 1024  # of a stream that is uploaded, kept in the result


def fitted_result(job: AssignJob, ref: AttemptRef, ending: ExecutionEnd) -> StoredResult | None:
    """The result of an attempt, whose status is that of its report: neither changes later. None:
    parts of the ending do not fit, and must be uploaded before."""
    encoded = encode_result(job, ending)
    if len(encoded) > INLINE_BYTES_MAX or ending.separate:
        # A legacy grid accepts inline results only; its attempts have no fence.
        encoded = fit(job, ending, as_blobs=job.fence > 0)
    if ending.separate:
        return None
    return StoredResult(
        ref,
        job.lease_ms,
        ending.status,
        encoded,
        ending.exit_code,
        ending.signal,
        ending.run_ms,
        ending.peak_bytes,
        ending.blobs,
        ending.fetched_bytes,
        ending.held_bytes,
    )


def fit(job: AssignJob, ending: ExecutionEnd, *, as_blobs: bool) -> bytes:
    """The result as JSON, at most INLINE_BYTES_MAX. Parts to upload as blobs are added to
    `ending.separate`; the status of `ending` is final after this."""
    if ending.separate and not as_blobs:
        _refuse_separate(ending)
    encoded = encode_result(job, ending)
    if as_blobs:
        while len(encoded) > INLINE_BYTES_MAX and (name := _largest(ending)):
            _separate(ending, name)
            encoded = encode_result(job, ending)
    elif len(encoded) > INLINE_BYTES_MAX:
        _give_up_outputs(ending)
        encoded = encode_result(job, ending)
    while len(encoded) > INLINE_BYTES_MAX:
        if not ending.stdout and not ending.stderr:
            _give_up_outputs(ending)
        _shorten(ending, "stdout" if len(ending.stdout) >= len(ending.stderr) else "stderr")
        encoded = encode_result(job, ending)
    return encoded


def set_stream(ending: ExecutionEnd, name: str, data: bytes, total: int) -> None:
    """Set a stream of a result to its end, or to all of it."""
    text, exact = end_of(data, total)
    setattr(ending, name, text)
    setattr(ending, f"{name}_bytes", UNSET if exact is None else exact)
    setattr(ending, f"{name}_size", UNSET if len(data) == total else total)


def stream_bytes(ending: ExecutionEnd, name: str) -> bytes:
    """The bytes of a stream in a result."""
    exact: bytes | UnsetType = getattr(ending, f"{name}_bytes")
    text: str = getattr(ending, name)
    return text.encode() if exact is UNSET else exact


def _largest(ending: ExecutionEnd) -> str:
    """The name of the largest part that is included as a whole; empty if there is none."""
    sizes = {
        name: len(encode_model(getattr(ending, name)))
        for name in STREAMS
        if getattr(ending, name) and getattr(ending, f"{name}_size") is UNSET
    }
    if ending.data is not UNSET:
        sizes["data"] = len(ending.data)
    return max(sizes, key=sizes.__getitem__) if sizes else ""


def _separate(ending: ExecutionEnd, name: str) -> None:
    if name == "data":
        assert ending.data is not UNSET, "chosen"
        ending.separate += (SeparatePart(name, ending.data),)
        ending.data = UNSET
        return
    whole = stream_bytes(ending, name)
    ending.separate += (SeparatePart(name, whole),)
    set_stream(ending, name, whole[-END_BYTES:], len(whole))


def _refuse_separate(ending: ExecutionEnd) -> None:
    """Without blobs, a large value cannot be delivered: fail the job."""
    for _, content in ending.separate:
        if not isinstance(content, bytes):
            content.close()
    ending.separate = ()
    _fail_value(ending)


def _give_up_outputs(ending: ExecutionEnd) -> None:
    """Without blobs, drop what is too large."""
    if ending.archive is not None:
        ending.notes.append(
            f"the outputs, {len(ending.archive)} bytes zipped, are too large inline"
        )
        ending.archive = None
    if ending.data is not UNSET and len(ending.data) > INLINE_BYTES_MAX // 2:
        _fail_value(ending)
        ending.data = UNSET


def _shorten(ending: ExecutionEnd, name: str) -> None:
    """Drop half of a stream. JSON may encode one character as six bytes, so the fitting length is
    found by halving."""
    data = stream_bytes(ending, name)
    known = getattr(ending, f"{name}_size")
    if ending.is_value and name == "stdout" and known is UNSET:
        _fail_value(ending)
    total = len(data) if known is UNSET else known
    set_stream(ending, name, data[len(data) // 2 + 1 :], total)
    is_kept = getattr(ending, f"{name}_blob") is not UNSET or name in dict(ending.separate)
    note = f"{name} is cut to fit"
    if not is_kept and note not in ending.notes:
        ending.notes.append(note)


def _fail_value(ending: ExecutionEnd) -> None:
    ending.notes.append("the returned value is too large for this grid, which keeps no blobs")
    ending.status = Status.FAILED
    ending.exit_code = ending.exit_code or 1

"""Making a result fit. No process and no file in here.

A result goes through the log, so it holds INLINE_BYTES_MAX at most. A stream or a returned value
that fits goes with it: as text if it is UTF-8, else as exact bytes beside the text. What does not
fit is uploaded as a blob, and the result has the end of it. Only where there are no blobs, at a
legacy grid, a stream is cut, which `stdout_size` tells, and a value that must be cut fails
its job: half a value is none.
"""

from __future__ import annotations

from typing import Final

from msgspec import UNSET, UnsetType

from rollq.base.jobs import Status
from rollq.base.limits import INLINE_BYTES_MAX
from rollq.roles.worker.capture import end_of
from rollq.roles.worker.outputs import Apart, Ending, encode_result
from rollq.wire.messages import AssignJob
from rollq.wire.models import encode_model

STREAMS: Final = ("stdout", "stderr")
END_BYTES: Final = 2 * 1024  # that the result keeps of a stream that goes apart


def fit(job: AssignJob, ending: Ending, *, as_blobs: bool) -> bytes:
    """The result as JSON, never over INLINE_BYTES_MAX. What goes as a blob is added to
    `ending.apart`; the status of `ending` is final when this returns."""
    if ending.apart and not as_blobs:
        _refuse_apart(ending)
    encoded = encode_result(job, ending)
    if as_blobs:
        while len(encoded) > INLINE_BYTES_MAX and (name := _largest(ending)):
            _set_apart(ending, name)
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


def set_stream(ending: Ending, name: str, data: bytes, total: int) -> None:
    """Let a result have the end of a stream, or all of it."""
    text, exact = end_of(data, total)
    setattr(ending, name, text)
    setattr(ending, f"{name}_bytes", UNSET if exact is None else exact)
    setattr(ending, f"{name}_size", UNSET if len(data) == total else total)


def stream_bytes(ending: Ending, name: str) -> bytes:
    """What a result has of a stream, as it was written."""
    exact: bytes | UnsetType = getattr(ending, f"{name}_bytes")
    text: str = getattr(ending, name)
    return text.encode() if exact is UNSET else exact


def _largest(ending: Ending) -> str:
    """What takes the most room of all that is here as a whole; empty if nothing is."""
    sizes = {
        name: len(encode_model(getattr(ending, name)))
        for name in STREAMS
        if getattr(ending, name) and getattr(ending, f"{name}_size") is UNSET
    }
    if ending.data is not UNSET:
        sizes["data"] = len(ending.data)
    return max(sizes, key=sizes.__getitem__) if sizes else ""


def _set_apart(ending: Ending, name: str) -> None:
    if name == "data":
        assert ending.data is not UNSET, "chosen"
        ending.apart += (Apart(name, ending.data),)
        ending.data = UNSET
        return
    whole = stream_bytes(ending, name)
    ending.apart += (Apart(name, whole),)
    set_stream(ending, name, whole[-END_BYTES:], len(whole))


def _refuse_apart(ending: Ending) -> None:
    """A value that is large already has nowhere to go."""
    for _, content in ending.apart:
        if not isinstance(content, bytes):
            content.close()
    ending.apart = ()
    _fail_value(ending)


def _give_up_outputs(ending: Ending) -> None:
    """Without blobs there is no other way for what is too large."""
    if ending.archive is not None:
        ending.notes.append(
            f"the outputs, {len(ending.archive)} bytes zipped, are too large inline"
        )
        ending.archive = None
    if ending.data is not UNSET and len(ending.data) > INLINE_BYTES_MAX // 2:
        _fail_value(ending)
        ending.data = UNSET


def _shorten(ending: Ending, name: str) -> None:
    """Keep half of a stream. JSON may write one character as six bytes, so what fits is found by
    halving."""
    data = stream_bytes(ending, name)
    known = getattr(ending, f"{name}_size")
    if ending.is_value and name == "stdout" and known is UNSET:
        _fail_value(ending)
    total = len(data) if known is UNSET else known
    set_stream(ending, name, data[len(data) // 2 + 1 :], total)
    is_kept = getattr(ending, f"{name}_blob") is not UNSET or name in dict(ending.apart)
    note = f"{name} is cut to fit"
    if not is_kept and note not in ending.notes:
        ending.notes.append(note)


def _fail_value(ending: Ending) -> None:
    ending.notes.append("the returned value is too large for this grid, which keeps no blobs")
    ending.status = Status.FAILED
    ending.exit_code = ending.exit_code or 1

"""Bodies and results put into one frame: blob contents in place of blob references.

The caller reads the blobs; nothing here touches a disk. For clients without blob support the files
and streams of a result are put back into it, as far as a frame has room. What does not fit is named
in Stderr and Note, with the command that fetches it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Final, TypeAlias

from msgspec import UNSET
from msgspec.structs import replace

from rollq.base.digests import digest_from_text
from rollq.base.errors import RemoteError
from rollq.base.jobs import BlobRef
from rollq.base.limits import FRAME_BYTES_MAX, NOTE_BYTES_MAX, WHOLE_RAW_BYTES_MAX
from rollq.store.archive import pack
from rollq.wire.frame import LEN_MIN
from rollq.wire.kept import body_kept, result_kept, without
from rollq.wire.legacy_codec import encode_legacy
from rollq.wire.messages import AssignJob, Result
from rollq.wire.models import JobResult, OutputFile, StreamBlob, decode_if_marked, encode_model

Read: TypeAlias = Callable[[BlobRef], bytes]  # reads a blob; raises RollqError

PLAIN: Final = 0o644
ENTRY_BYTES: Final = 128  # overhead of a file in an archive, apart from its name and content
NAMES_SHOWN: Final = 5
SPARE_BYTES: Final = 4 * 1024  # of a frame, for the remark on what is left out
ROOM_BYTES: Final = FRAME_BYTES_MAX - LEN_MIN - SPARE_BYTES


def completed(message: AssignJob | Result, read: Read, *, knows_blobs: bool) -> AssignJob | Result:
    """The message with the contents of its blobs. Raises what `read` raises."""
    if isinstance(message, AssignJob):
        ref = body_kept(message.body, message.blobs)
        if ref is None:
            return message
        return replace(message, body=read(ref), blobs=without(message.blobs, ref))
    ref = result_kept(message.result, message.blobs)
    if ref is not None:
        whole = replace(message, result=read(ref), blobs=without(message.blobs, ref))
        if knows_blobs or _frame_bytes(whole) <= FRAME_BYTES_MAX:
            return whole
        text = f"the result, {ref.size} bytes, does not fit a frame as text"
        return _with_remark(message, text)
    return message if knows_blobs else _with_files(message, read)


def _with_files(message: Result, read: Read) -> Result:
    """The files and streams that a worker uploaded as blobs, put into the result itself."""
    report = _report(message.result)
    if report is None:
        return message
    outputs = () if report.outputs is UNSET else report.outputs
    room = ROOM_BYTES - len(encode_model(replace(report, outputs=UNSET)))
    chosen, room = _chosen(outputs, read, room)
    left = [one for one in outputs if one.name not in chosen]
    if chosen:
        files = [(one.name, chosen[one.name], _mode(one)) for one in outputs if one.name in chosen]
        archive = pack(files, report.output_archive or b"")
        report = replace(report, output_archive=archive, outputs=tuple(left) or UNSET)
    remarks = []
    if left:
        names = ", ".join(f"{one.name[:64]} ({one.size})" for one in left[:NAMES_SHOWN])
        more = f" and {len(left) - NAMES_SHOWN} more" if len(left) > NAMES_SHOWN else ""
        remarks.append(f"files that do not fit a frame, with their bytes: {names}{more}")
    for name in ("stdout", "stderr"):
        stream: StreamBlob | None = getattr(report, f"{name}_blob") or None
        if stream is None:
            continue
        text = _text(stream, read, room)
        if text is None:
            remarks.append(f"{name} has {stream.size} bytes, this is its end")
        else:
            room -= len(encode_model(text)) - len(encode_model(getattr(report, name) or ""))
            gone = {f"{name}_{part}": UNSET for part in ("blob", "bytes", "size")}
            report = replace(report, **gone, **{name: text})
    if report.data_blob is not UNSET:
        value = report.data_blob
        if 4 * (value.size // 3 + 1) > room:
            remarks.append(f"the value that was returned has {value.size} bytes")
        else:
            data = read(BlobRef(digest_from_text(value.digest), value.size))
            report = replace(report, data=data, data_blob=UNSET)
    message = replace(message, result=encode_model(report), blobs=())
    return _with_remark(message, "; ".join(remarks)) if remarks else message


def _chosen(outputs: tuple[OutputFile, ...], read: Read, room: int) -> tuple[dict[str, bytes], int]:
    """The files that fit into the archive, smallest first, and the bytes left."""
    chosen: dict[str, bytes] = {}
    raw_bytes = 0
    for one in sorted(outputs, key=lambda output: output.size):
        raw_bytes += one.size
        if raw_bytes > WHOLE_RAW_BYTES_MAX:
            break
        content = read(BlobRef(digest_from_text(one.digest), one.size))
        packed_bytes = len(zlib.compress(content)) + 2 * len(one.name.encode()) + ENTRY_BYTES
        encoded_bytes = 4 * (packed_bytes // 3 + 1)
        if encoded_bytes > room:
            break
        room -= encoded_bytes
        chosen[one.name] = content
    return chosen, room


def _text(stream: StreamBlob, read: Read, room: int) -> str | None:
    if stream.size > room:
        return None
    text = read(BlobRef(digest_from_text(stream.digest), stream.size)).decode(errors="replace")
    return text if len(encode_model(text)) <= room else None


def _with_remark(message: Result, text: str) -> Result:
    """The result with a remark on what is left out, for people (Stderr) and programs (Note)."""
    report = _report(message.result)
    if report is None:
        return message
    text = f"{text}; `rollq fetch {report.job_id}` brings all of it"[:NOTE_BYTES_MAX]
    note = text if report.note is UNSET or not report.note else f"{report.note}; {text}"
    stderr = report.stderr or ""
    gap = "\n" if stderr and not stderr.endswith("\n") else ""
    report = replace(report, note=note, stderr=f"{stderr}{gap}rollq: {text}\n")
    return replace(message, result=encode_model(report), blobs=())


def _report(result: bytes) -> JobResult | None:
    try:
        return decode_if_marked(result, JobResult, "Status")
    except RemoteError:
        return None


def _mode(one: OutputFile) -> int:
    return PLAIN if one.mode is UNSET else one.mode


def _frame_bytes(message: Result) -> int:
    return LEN_MIN + len(encode_legacy(message).payload)

"""Outputs of a program in its directory, and the encoding of its result. No process in here."""

from __future__ import annotations

from collections.abc import Container, Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

from msgspec import UNSET, Struct, UnsetType, field

from rollq.base.errors import RemoteError
from rollq.base.globs import Glob
from rollq.base.ids import NIL_ID, guid_to_text
from rollq.base.jobs import BlobRef, Status
from rollq.base.limits import (
    ARCHIVE_FILES_MAX,
    ARCHIVE_RAW_BYTES_MAX,
    INLINE_BYTES_MAX,
    NOTE_BYTES_MAX,
    OUTPUT_PATTERNS_MAX,
)
from rollq.base.names import NameTree, checked_name
from rollq.roles.worker.capture import SpooledTail
from rollq.roles.worker.inputs import Stamps
from rollq.store.archive import pack
from rollq.store.safe_dir import Found, SafeDir, settle_links
from rollq.wire.messages import AssignJob
from rollq.wire.models import (
    STATUS_FAILED,
    STATUS_OK,
    JobResult,
    OutputFile,
    StreamBlob,
    encode_model,
)

SHORT_BYTES: Final = 8 * 1024  # of a value; JSON may take six times as much
KEPT_BYTES: Final = 64  # of a value whose encoding is cached
PARTS_KEPT: Final = 1_024
LEFT_OUT_SHOWN: Final = 5  # files named in the note
NAME_CHARS_SHOWN: Final = 64
RESULT_FIXED_BYTES: Final = NOTE_BYTES_MAX + 2_048  # of a result, apart from text and outputs
ZIP_ENTRY_BYTES: Final = 128  # overhead of a file in an archive, apart from name and content
LISTED_ENTRY_BYTES: Final = 128  # overhead of a file in the list of blobs, apart from its name
LISTED_BYTES_MAX: Final = 48 * 1024  # of that list; text is shortened for it
PACKED_SMALL_MAX: Final = 4 * 1024  # larger files are not packed if others are blobs


class SeparatePart(NamedTuple):
    """A stream or a returned value that is too large for a result, to be uploaded as a blob."""

    name: str  # "stdout", "stderr" or "data"
    content: bytes | SpooledTail  # the latter is closed by the uploader


class ExecutionEnd(Struct, gc=False):
    """The end of an execution, from which its result is made."""

    status: int = Status.OK
    stdout: str = ""
    stderr: str = ""
    exit_code: int = 0
    signal: int = 0  # then `exit_code` is 128 + signal
    run_ms: int = 0
    user_ms: int = 0
    system_ms: int = 0
    peak_bytes: int = 0
    archive: bytes | None = None
    data: bytes | UnsetType = UNSET
    notes: list[str] = field(default_factory=list)
    outputs: list[OutputFile] = field(default_factory=list)  # uploaded as blobs
    stdout_blob: StreamBlob | UnsetType = UNSET
    stderr_blob: StreamBlob | UnsetType = UNSET
    data_blob: StreamBlob | UnsetType = UNSET
    stdout_bytes: bytes | UnsetType = UNSET  # the bytes of `stdout`, if they are not UTF-8
    stderr_bytes: bytes | UnsetType = UNSET
    stdout_size: int | UnsetType = UNSET  # of the whole stream, if `stdout` is only its end
    stderr_size: int | UnsetType = UNSET
    is_value: bool = False  # `stdout` is the returned value of a function
    data_kind: str | UnsetType = UNSET  # what is packed in `data`
    separate: tuple[SeparatePart, ...] = ()  # to be uploaded
    blobs: tuple[BlobRef, ...] = ()  # all references
    fetched_bytes: int = 0  # of its inputs: fetched for it
    held_bytes: int = 0  # of its inputs: stored already


class Terms(NamedTuple):
    """Which files of a directory are outputs, and how they may be returned."""

    links: Container[int] = ()  # inodes of inputs that are hard links to our blobs
    wanted: tuple[str, ...] = ()  # patterns; empty: all files
    as_blobs: bool = False  # whether large outputs may become blobs


TERMS: Final = Terms()


class Left(NamedTuple):
    """The files in a program's directory."""

    files: list[str] | None  # plain files by name; None: there is something else
    large: list[Found]  # the files to upload as blobs


def collect_outputs(
    directory: SafeDir, inputs: Stamps, ending: ExecutionEnd, terms: Terms = TERMS
) -> Left:
    """Pack new and changed files into `ending`, as far as they are small; returns the large ones.

    Links are not followed, and only plain files are taken. Outputs over the bounds are left out
    with a note; the status of the job depends only on its exit code.
    """
    found: list[Found] = []
    for one in directory.walk():
        found.append(one)
        if len(found) > ARCHIVE_FILES_MAX:
            ending.notes.append(f"more than {ARCHIVE_FILES_MAX} files: none returned")
            return Left(None, [])
    outputs: list[Found] = []
    left_out: list[str] = []
    files: list[str] | None = []
    for one in settle_links(found, terms.links):
        is_file = one.is_file
        if not is_file:
            files = None
        elif files is not None:
            files.append(one.name)
        if one.problem:
            left_out.append(f"{one.name[:NAME_CHARS_SHOWN]!a} {one.problem}")
        elif is_file and inputs.get(one.name) != (one.status.st_size, one.status.st_mtime_ns):
            outputs.append(one)
    if terms.wanted:
        outputs = _chosen(outputs, terms.wanted, ending)
    outputs = _well_named(sorted(outputs), left_out)
    large = _pack_small(directory, outputs, ending, left_out, as_blobs=terms.as_blobs)
    if left_out:
        left_out = sorted(dict.fromkeys(left_out))
        more = f"; and {len(left_out) - LEFT_OUT_SHOWN} more" * (len(left_out) > LEFT_OUT_SHOWN)
        ending.notes.append(f"left out: {'; '.join(left_out[:LEFT_OUT_SHOWN])}{more}")
    return Left(files, large)


def _chosen(outputs: list[Found], wanted: tuple[str, ...], ending: ExecutionEnd) -> list[Found]:
    globs = [Glob(text) for text in wanted[:OUTPUT_PATTERNS_MAX]]
    chosen: list[Found] = []
    used: set[str] = set()
    for one in outputs:
        fits = [glob.text for glob in globs if glob.matches(one.name)]
        if fits:
            chosen.append(one)
            used.update(fits)
    unused = [glob.text[:NAME_CHARS_SHOWN] for glob in globs if glob.text not in used]
    if unused:
        ending.notes.append(f"no output fits {', '.join(map(ascii, unused[:LEFT_OUT_SHOWN]))}")
    return chosen


def _well_named(outputs: list[Found], left_out: list[str]) -> list[Found]:
    check = NameTree().add if len(outputs) > 1 else checked_name
    named = []
    for one in outputs:
        try:
            check(one.name)
            named.append(one)
        except RemoteError as error:
            left_out.append(error.message)
    return named


def _pack_small(
    directory: SafeDir,
    outputs: list[Found],
    ending: ExecutionEnd,
    left_out: list[str],
    *,
    as_blobs: bool,
) -> list[Found]:
    """Pack all outputs into the archive, or the smallest of them; returns the others."""
    raw_bytes = sum(one.status.st_size for one in outputs)
    if outputs and raw_bytes <= ARCHIVE_RAW_BYTES_MAX:
        ending.archive = pack(_readable(directory, outputs, left_out))
        if not as_blobs or _room_bytes(ending) >= 0:
            return []
        ending.archive = None
    if not as_blobs:
        if outputs:
            ending.notes.append(
                f"{len(outputs)} output files of {raw_bytes} bytes are too large inline"
            )
        return []
    small, large = split(outputs, _room_bytes(ending), left_out)
    if small:
        ending.archive = pack(_readable(directory, small, left_out))
    return large


def split(
    outputs: list[Found], room_bytes: int, left_out: list[str]
) -> tuple[list[Found], list[Found]]:
    """Split outputs into those for the archive of a result with this room, smallest first, and
    those for blobs, of which only names take room."""
    by_size = sorted(outputs, key=lambda one: one.status.st_size)
    listed_bytes = sum(map(_listed_bytes, by_size))
    small: list[Found] = []
    packed_bytes = 0
    for one in by_size:
        packed = (one.status.st_size + 2 * len(one.name.encode()) + ZIP_ENTRY_BYTES) * 4 // 3
        listed = _listed_bytes(one)
        if packed > PACKED_SMALL_MAX and listed_bytes <= room_bytes:
            break
        if packed_bytes + packed + listed_bytes - listed > room_bytes:
            break
        small.append(one)
        packed_bytes += packed
        listed_bytes -= listed
    large: list[Found] = []
    listed_bytes = 0
    for one in by_size[len(small) :]:
        listed_bytes += _listed_bytes(one)
        if listed_bytes > LISTED_BYTES_MAX:
            left_out.append(f"{one.name[:NAME_CHARS_SHOWN]!a} has no room in the result")
        else:
            large.append(one)
    return sorted(small), sorted(large)


def _listed_bytes(one: Found) -> int:
    return len(encode_model(one.name)) + LISTED_ENTRY_BYTES


def _room_bytes(ending: ExecutionEnd) -> int:
    """The room left in the result, beside text, archive and fixed fields."""
    text_bytes = len(encode_model(ending.stdout)) + len(encode_model(ending.stderr))
    exact = (ending.archive, ending.stdout_bytes, ending.stderr_bytes)
    exact_bytes = sum(-(-len(one) // 3) * 4 for one in exact if isinstance(one, bytes))
    return INLINE_BYTES_MAX - RESULT_FIXED_BYTES - text_bytes - exact_bytes


def _readable(
    directory: SafeDir, outputs: list[Found], left_out: list[str]
) -> Iterator[tuple[str, bytes, int]]:
    for one in outputs:
        try:
            yield one.name, directory.read(one), one.status.st_mode
        except OSError as error:
            left_out.append(f"{one.name[:NAME_CHARS_SHOWN]!a} cannot be read: {error.strerror}")


def encode_result(job: AssignJob, ending: ExecutionEnd) -> bytes:
    """The JobResult as JSON, of any length."""
    return encode_model(_result(job, ending))


def value_parts(client_id: str, exec_name: str, value: Any) -> tuple[bytes, bytes, bytes] | None:
    """The encoded result of a call that returned this value, without job id and run time, which
    stand between the parts. Thousands of results share the same parts. None: the value is not None,
    short text or bytes."""
    if value is None:
        size_bytes = 0
    elif type(value) is bytes or (type(value) is str and value.isascii()):
        size_bytes = len(value)
    else:
        return None
    if size_bytes > SHORT_BYTES:
        return None
    parts = _parts if size_bytes <= KEPT_BYTES else _parts.__wrapped__
    return parts(client_id, exec_name, value)


@lru_cache(PARTS_KEPT)
def _parts(client_id: str, exec_name: str, value: bytes | str | None) -> tuple[bytes, bytes, bytes]:
    job = AssignJob(NIL_ID, 0, 0, 0, "", exec_name, b"", client_id=client_id)
    if isinstance(value, str):
        ending = ExecutionEnd(stdout=value)
    else:
        ending = ExecutionEnd(data=UNSET if value is None else value)
    encoded = encode_result(job, ending)
    rest, run_ms, after = encoded.rpartition(b'"RunMs":0')
    before, ident, between = (rest + run_ms).partition(guid_to_text(NIL_ID).encode())
    assert ident, "the id is first"
    return before, between[:-1], after


def _result(job: AssignJob, ending: ExecutionEnd) -> JobResult:
    note = "; ".join(ending.notes)[:NOTE_BYTES_MAX] if ending.notes else ""
    return JobResult(
        guid_to_text(job.job_id),
        job.client_id or None,
        job.exec_name,
        STATUS_FAILED if ending.status else STATUS_OK,
        ending.stdout,
        ending.stderr,
        ending.archive,
        ending.exit_code,
        ending.signal or UNSET,
        ending.run_ms,
        ending.peak_bytes or UNSET,
        ending.user_ms or UNSET,
        ending.system_ms or UNSET,
        note or UNSET,
        ending.data,
        tuple(ending.outputs) or UNSET,
        ending.stdout_blob,
        ending.stderr_blob,
        stdout_bytes=ending.stdout_bytes,
        stderr_bytes=ending.stderr_bytes,
        stdout_size=ending.stdout_size,
        stderr_size=ending.stderr_size,
        data_blob=ending.data_blob,
        data_kind=ending.data_kind,
    )


def refusal(why: str) -> ExecutionEnd:
    """The end of a job that no worker can run as requested."""
    return ExecutionEnd(Status.FAILED, stderr=f"rollq: {why}\n", exit_code=CANNOT_RUN)


CANNOT_RUN: Final = 126  # as in a shell

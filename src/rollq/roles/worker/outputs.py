"""What a program left in its directory, and the result that tells of it. No process in here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import UNSET, Struct, UnsetType, field

from rollq.base.errors import RemoteError
from rollq.base.ids import guid_to_text
from rollq.base.jobs import Status
from rollq.base.limits import (
    ARCHIVE_FILES_MAX,
    ARCHIVE_RAW_BYTES_MAX,
    INLINE_BYTES_MAX,
    NOTE_BYTES_MAX,
)
from rollq.base.names import NameTree, checked_name
from rollq.roles.worker.inputs import Stamps
from rollq.store.archive import pack
from rollq.store.beneath import Beneath, Found, settle_links
from rollq.wire.messages import AssignJob
from rollq.wire.models import STATUS_FAILED, STATUS_OK, JobResult, encode_model

LEFT_OUT_SHOWN: Final = 5  # files that are not returned, in the note
NAME_CHARS_SHOWN: Final = 64


class Ending(Struct, gc=False):
    """How an execution ended, before it is a result."""

    status: int = Status.OK
    stdout: str = ""
    stderr: str = ""
    exit_code: int = 0
    signal: int = 0
    run_ms: int = 0
    user_ms: int = 0
    system_ms: int = 0
    peak_bytes: int = 0
    archive: bytes | None = None
    data: bytes | UnsetType = UNSET
    notes: list[str] = field(default_factory=list)


def collect_outputs(directory: Beneath, inputs: Stamps, ending: Ending) -> list[str] | None:
    """Zip what is new or changed into `ending`; returns the plain files that are there, or None if
    there is more than that.

    Links are not followed and nothing but files is taken. Outputs over the bounds are left out
    with a note: the status of the job stays what its exit code says.
    """
    found: list[Found] = []
    for one in directory.walk():
        found.append(one)
        if len(found) > ARCHIVE_FILES_MAX:
            ending.notes.append(f"more than {ARCHIVE_FILES_MAX} files: none returned")
            return None
    outputs: list[Found] = []
    left_out: list[str] = []
    files: list[str] | None = []
    for one in settle_links(found):
        is_file = one.is_file
        if not is_file:
            files = None
        elif files is not None:
            files.append(one.name)
        if one.problem:
            left_out.append(f"{one.name[:NAME_CHARS_SHOWN]!a} {one.problem}")
        elif is_file and inputs.get(one.name) != (one.status.st_size, one.status.st_mtime_ns):
            outputs.append(one)
    raw_bytes = sum(one.status.st_size for one in outputs)
    if raw_bytes > ARCHIVE_RAW_BYTES_MAX:
        ending.notes.append(
            f"{len(outputs)} output files of {raw_bytes} bytes are too large inline"
        )
    elif outputs:
        ending.archive = pack(_readable(directory, sorted(outputs), left_out))
    if left_out:
        more = f"; and {len(left_out) - LEFT_OUT_SHOWN} more" * (len(left_out) > LEFT_OUT_SHOWN)
        ending.notes.append(f"left out: {'; '.join(sorted(left_out)[:LEFT_OUT_SHOWN])}{more}")
    return files


def _readable(
    directory: Beneath, outputs: list[Found], left_out: list[str]
) -> Iterator[tuple[str, bytes, int]]:
    check = NameTree().add if len(outputs) > 1 else checked_name
    for one in outputs:
        try:
            check(one.name)
            yield one.name, directory.read(one), one.status.st_mode
        except RemoteError as error:
            left_out.append(error.message)
        except OSError as error:
            left_out.append(f"{one.name[:NAME_CHARS_SHOWN]!a} cannot be read: {error.strerror}")


def encode_result(job: AssignJob, ending: Ending) -> bytes:
    """The JobResult as JSON, never over INLINE_BYTES_MAX: outputs give way first, then text."""
    encoded = encode_model(_result(job, ending))
    if len(encoded) <= INLINE_BYTES_MAX:
        return encoded
    if ending.archive is not None:
        ending.notes.append(
            f"the outputs, {len(ending.archive)} bytes zipped, are too large inline"
        )
        ending.archive = None
    if ending.data is not UNSET and len(ending.data) > INLINE_BYTES_MAX // 2:
        ending.notes.append(f"the returned {len(ending.data)} bytes are too large inline")
        ending.data = UNSET
        ending.status = Status.FAILED
    while len(encoded := encode_model(_result(job, ending))) > INLINE_BYTES_MAX:
        longer = "stdout" if len(ending.stdout) >= len(ending.stderr) else "stderr"
        text = getattr(ending, longer)
        # JSON may write one character as six bytes, so what fits is found by halving.
        kept = text[len(text) // 2 + 1 :]
        setattr(ending, longer, kept)
        note = f"{longer} is cut to fit"
        if note not in ending.notes:
            ending.notes.append(note)
    return encoded


def _result(job: AssignJob, ending: Ending) -> JobResult:
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
    )


def refusal(why: str) -> Ending:
    """The ending of a job that no worker can run as it was asked for."""
    return Ending(Status.FAILED, stderr=f"rollq: {why}\n", exit_code=CANNOT_RUN)


CANNOT_RUN: Final = 126  # as a shell says it

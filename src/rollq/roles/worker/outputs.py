"""What a program left in its directory, and the result that tells of it. No process in here."""

from __future__ import annotations

import io
import os
import stat
import time
import zipfile
from typing import Final

from msgspec import UNSET, Struct, UnsetType, field

from rollq.base.ids import guid_to_text
from rollq.base.jobs import Status
from rollq.base.limits import (
    ARCHIVE_FILES_MAX,
    ARCHIVE_RAW_BYTES_MAX,
    INLINE_BYTES_MAX,
    NOTE_BYTES_MAX,
)
from rollq.wire.messages import AssignJob
from rollq.wire.models import STATUS_FAILED, STATUS_OK, JobResult, encode_model

ZIP_TIME: Final = (1980, 1, 1, 0, 0, 0)  # the same outputs give the same bytes
NAMES_SHOWN: Final = 5


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


Stamps = dict[str, tuple[int, int]]  # path → (size, mtime) of an input as we wrote it


def stamp_input(path: str, size: int) -> tuple[int, int]:
    """Size and mtime: an input that still has them was not written to.

    The time is set back, because a clock tick is long enough to write a file twice.
    """
    long_ago_ns = time.time_ns() - 1_000_000_000
    os.utime(path, ns=(long_ago_ns, long_ago_ns))
    return size, long_ago_ns


def collect_outputs(directory: str, inputs: Stamps, ending: Ending) -> list[str] | None:
    """Zip what is new or changed into `ending`; returns the plain files that are there, or None if
    there is more than that.

    Links are not followed and nothing but files is taken. Outputs over the bounds are left out
    with a note: the status of the job stays what its exit code says.
    """
    found: list[tuple[str, str, int]] = []
    skipped: list[str] = []
    files: list[str] = []
    raw_bytes, nested = 0, False
    waiting = [directory]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode):
                    nested = True
                    waiting.append(entry.path)
                elif not stat.S_ISREG(status.st_mode):
                    skipped.append(entry.name)
                else:
                    files.append(entry.path)
                    if inputs.get(entry.path) != (status.st_size, status.st_mtime_ns):
                        name = entry.path[len(directory) + 1 :]
                        found.append((name, entry.path, status.st_size))
                        raw_bytes += status.st_size
                if len(files) + len(skipped) + len(waiting) > ARCHIVE_FILES_MAX:
                    ending.notes.append(f"more than {ARCHIVE_FILES_MAX} files: none returned")
                    return None
    if skipped:
        names = ", ".join(sorted(skipped)[:NAMES_SHOWN])
        ending.notes.append(f"not plain files, left out: {names}")
    if raw_bytes > ARCHIVE_RAW_BYTES_MAX:
        ending.notes.append(f"{len(found)} output files of {raw_bytes} bytes are too large inline")
    elif found:
        ending.archive = _zip(sorted(found), ending)
    return None if nested or skipped else files


def _zip(found: list[tuple[str, str, int]], ending: Ending) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path, size in found:
            try:
                fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
                try:
                    data = os.read(fd, size) if size else b""
                finally:
                    os.close(fd)
                # Names that are not UTF-8 come as surrogates, which a zip cannot hold.
                shown = name.encode(errors="replace").decode()
                archive.writestr(zipfile.ZipInfo(shown, ZIP_TIME), data, zipfile.ZIP_DEFLATED)
            except OSError as error:
                ending.notes.append(f"{name[:64]!a} cannot be read: {error.strerror}")
    return packed.getvalue()


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

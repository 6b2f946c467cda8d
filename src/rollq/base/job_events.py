"""Job events: JSON published on `job.event.<job id>`. Progress comes from the program, state
changes from the leader."""

from __future__ import annotations

from math import isfinite
from typing import Final

import msgspec

PROGRESS: Final = "progress"  # the kind of events of programs; other kinds are those of the history
PROGRESS_FILE_ENV: Final = "ROLLQ_PROGRESS"  # names the file that a program writes its progress to
PROGRESS_MS: Final = 200  # minimum interval of progress events of an attempt: the latest wins
PROGRESS_BYTES_MAX: Final = 4_096  # bytes read from the end of the file
PROGRESS_KEPT_MAX: Final = 10_000  # jobs whose last progress a leader caches
PROGRESS_NOTE_BYTES_MAX: Final = 256
PROGRESS_NUMBER_MAX: Final = 10**15


class JobProgress(msgspec.Struct, frozen=True, omit_defaults=True):
    """The progress of a job, in its own units. `total` 0: unknown."""

    done: int | float = 0
    total: int | float = 0
    note: str = ""

    @property
    def share(self) -> float | None:
        """From 0 to 1; None if unknown."""
        return min(self.done / self.total, 1.0) if self.total else None

    @property
    def text(self) -> str:
        """For people: 30 % (3 of 10), row 3."""
        if self.share is not None:
            told = f"{self.share * 100:.0f} % ({self.done:g} of {self.total:g})"
        else:
            told = f"{self.done:g}" if self.done or not self.note else ""
        return ", ".join(filter(None, (told, self.note)))


class JobEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """One event of a job.

    Attributes:
        kind: `progress`, or as in the history: `enqueue`, `assign`, `ack`, …
        attempt: Which one, if one is meant.
        stamp_ms: When, of the group's time; 0 for progress.
        worker: The name or id of the worker, if one has to do with it.
        status: Of an end: ok, failed or cancelled.
        exit_code: Of an end.
        detail: For people.
        progress: How far it is.
    """

    kind: str
    attempt: int = 0
    stamp_ms: int = 0
    worker: str = ""
    status: str = ""
    exit_code: int = 0
    detail: str = ""
    progress: JobProgress | None = None


_encode: Final = msgspec.json.Encoder().encode
_decode_event: Final = msgspec.json.Decoder(JobEvent).decode
_decode_progress: Final = msgspec.json.Decoder(JobProgress).decode


def encode_event(event: JobEvent) -> bytes:
    """The published form of an event."""
    return _encode(event)


def decode_event(data: bytes) -> JobEvent | None:
    """A published event; None: it is not valid."""
    try:
        return _decode_event(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def last_progress(data: bytes) -> JobProgress | None:
    """The last progress line; None: there is none. The line at the end may be incomplete, because
    it is still being written."""
    for line in reversed(data.splitlines()):
        if line.strip():
            progress = _progress_of(line)
            if progress is not None:
                return progress
    return None


def _progress_of(line: bytes) -> JobProgress | None:
    try:
        said = _decode_progress(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    for number in (said.done, said.total):
        if not isfinite(number) or not 0 <= number <= PROGRESS_NUMBER_MAX:
            return None
    note = said.note.encode()[:PROGRESS_NOTE_BYTES_MAX].decode(errors="ignore")
    return JobProgress(said.done, said.total, note)


def encode_progress(progress: JobProgress) -> bytes:
    """The line that a program writes."""
    return _encode(progress)

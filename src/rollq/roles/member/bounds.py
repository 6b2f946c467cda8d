"""Bounds of what the gateway takes into a command, and the error that says which was passed."""

from __future__ import annotations

from functools import lru_cache

from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.limits import (
    EXEC_NAME_BYTES_MAX,
    INLINE_BYTES_MAX,
    PAYLOAD_BYTES_MAX,
    QUEUE_NAME_BYTES_MAX,
)
from rollq.subjects.queues import queue_of

NAMES_KEPT = 1_024  # names that were found good: jobs by the thousand have the same few


@lru_cache(NAMES_KEPT)
def queue_named(subject: str) -> str:
    """The queue that a subject names."""
    return bounded("queue", queue_of(subject), QUEUE_NAME_BYTES_MAX)


@lru_cache(NAMES_KEPT)
def exec_name(name: str) -> str:
    """The name of a program, if it has a length that is kept."""
    return bounded("exec name", name, EXEC_NAME_BYTES_MAX)


def bounded(what: str, text: str, bytes_max: int, *, may_be_empty: bool = False) -> str:
    """A text, if it is not too long."""
    if len(text.encode()) > bytes_max or (not text and not may_be_empty):
        raise RemoteError(ErrorCode.BAD_PAYLOAD, f"{what} must have 1 to {bytes_max} bytes")
    return text


def is_large(body: bytes) -> bool:
    """Whether a body or result is too large for the log, and is kept as a blob.

    Raises:
        RemoteError: BAD_PAYLOAD, if no frame could carry it to the next peer.
    """
    if len(body) <= INLINE_BYTES_MAX:
        return False
    if len(body) > PAYLOAD_BYTES_MAX:
        raise RemoteError(
            ErrorCode.BAD_PAYLOAD,
            f"{len(body)} bytes in one message; at most {PAYLOAD_BYTES_MAX} can be passed on",
            "send the data as files",
        )
    return True

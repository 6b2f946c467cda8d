"""Converts Spark's errors to errors of rollq, without Java stack traces."""

from __future__ import annotations

import re
from typing import Final

from rollq.base.errors import (
    DialError,
    DiskError,
    ErrorCode,
    LocalError,
    RemoteError,
    RollqError,
    StateError,
)

_OURS: Final = re.compile(r"rollq\.base\.errors\.(\w+): \w+ \((\d+)\): ([^\n]*)")
_CLASSES: Final = {
    each.__name__: each for each in (DialError, DiskError, LocalError, RemoteError, StateError)
}
_CODES: Final = frozenset(map(int, ErrorCode))
# Spark's Python workers must connect within ten seconds, however busy the machine is.
_PASSING: Final = ("failed to connect back", "CANNOT_OPEN_SOCKET", "SocketTimeoutException")
LINES: Final = 3


def as_rollq_error(error: Exception) -> RollqError:
    """The rollq error that a task or plan raised, if any; else the first lines of Spark's error."""
    text = str(error)
    found = _OURS.search(text)
    if found and found[1] in _CLASSES and int(found[2]) in _CODES:
        message, _, hint = found[3].partition("; ")
        return _CLASSES[found[1]](ErrorCode(int(found[2])), message, hint)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return LocalError(ErrorCode.BUG, "Spark failed: " + " ".join(lines[:LINES]))


def is_transient(error: Exception) -> bool:
    """Whether a retry may succeed."""
    text = str(error)
    return any(words in text for words in _PASSING)

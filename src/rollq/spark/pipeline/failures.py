"""Converts Spark's errors to errors of rollq, without Java stack traces."""

from __future__ import annotations

import errno
import os
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
_FULL: Final = os.strerror(errno.ENOSPC)  # Java has it from the system, too
LINES: Final = 3
CAUSE_CHARS_MAX: Final = 200
# What stores and catalogs say of credentials.
_REFUSED: Final = re.compile(
    r"AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch|NoAuthWithAWS|ExpiredToken|InvalidToken"
    r"|NotAuthorizedException|ForbiddenException|Unable to load credentials"
    r"|Status Code: 40[13]\b|Access denied|password authentication failed"
)
# What is not there, however often it is asked for.
_MISSING: Final = re.compile(
    r"ClassNotFoundException|NoClassDefFoundError|UnsupportedFileSystemException|NoSuchBucket"
    r"|Cannot find catalog plugin|[Bb]ucket does not exist|UnknownStoreException"
)
_GONE: Final = re.compile(r"Py4JNetworkError|stopped SparkContext|SparkContext was shut down")
_WRAPPING: Final = re.compile(r"An error occurred while calling \S+\n?:?\s*")
_PACKAGE: Final = re.compile(r"\b(?:[a-z]\w*\.)+(?=[A-Z]\w*(?:Exception|Error))")


def as_rollq_error(error: Exception) -> RollqError:
    """The rollq error that a task or plan raised, if any; else the first lines of Spark's error."""
    text = str(error)
    found = _OURS.search(text)
    if found and found[1] in _CLASSES and int(found[2]) in _CODES:
        message, _, hint = found[3].partition("; ")
        return _CLASSES[found[1]](ErrorCode(int(found[2])), message, hint)
    if full := disk_full(error):
        return full
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return LocalError(ErrorCode.BUG, "Spark failed: " + " ".join(lines[:LINES]))


def disk_full(error: Exception) -> LocalError | None:
    """The error for a full disk of a driver or an executor; None if Spark says something else."""
    if _FULL not in str(error):
        return None
    what = f"cannot write the output: {_FULL}"
    hint = "make room where the output is, and in spark.local.dir (/tmp); or write elsewhere"
    return LocalError(ErrorCode.DISK_FULL, what, hint)


def is_transient(error: Exception) -> bool:
    """Whether a retry may succeed."""
    text = str(error)
    return any(words in text for words in _PASSING)


def store_error(error: Exception) -> RollqError:
    """Why tables cannot be read: of the store or the catalog that has them, or of this Spark.

    Returns:
        An error that is `retryable` unless it is one that no retry mends: credentials, what is
        missing, tables that are gone or damaged, a Spark that has ended.
    """
    if isinstance(error, RollqError):
        return error
    text = f"{type(error).__name__}: {error}"
    cause = _cause(str(error)) or type(error).__name__
    if _GONE.search(text):
        return LocalError(
            ErrorCode.BAD_SETUP, f"Spark has ended: {cause}", "start the command again"
        )
    if isinstance(error, PermissionError) or _REFUSED.search(text):
        return LocalError(
            ErrorCode.BAD_CREDENTIALS,
            f"the tables may not be read: {cause}",
            "check the credentials for the store and the catalog, and their rights",
        )
    if _MISSING.search(text):
        return LocalError(
            ErrorCode.BAD_SETUP,
            f"the tables cannot be read: {cause}",
            "check --tables, --conf and spark-defaults.conf",
        )
    if isinstance(error, OSError):
        return DiskError(ErrorCode.DISK_FAILED, f"the tables cannot be read: {cause}")
    return DialError(ErrorCode.UNREACHABLE, f"the tables cannot be read: {cause}")


def _cause(text: str) -> str:
    """The innermost cause in the text of a Java or Python error, on one line."""
    _, _, innermost = text.rpartition("Caused by: ")
    line = next(filter(None, map(str.strip, _WRAPPING.sub("", innermost).splitlines())), "")
    line = _PACKAGE.sub("", line)
    return line if len(line) <= CAUSE_CHARS_MAX else f"{line[: CAUSE_CHARS_MAX - 1]}…"

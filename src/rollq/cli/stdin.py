"""What commands read from stdin. It may be closed, and then Python has none."""

from __future__ import annotations

import sys
from typing import BinaryIO

from rollq.base.errors import ErrorCode, LocalError


def is_terminal() -> bool:
    """Whether somebody can be asked."""
    return sys.stdin is not None and sys.stdin.isatty()


def open_bytes() -> BinaryIO:
    """Stdin, for reading.

    Raises:
        LocalError: BAD_OPTIONS, if it is closed.
    """
    if sys.stdin is None:
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            "stdin is closed, and is to be read",
            "connect a file or pipe to it: … < FILE; for nothing: … < /dev/null",
        )
    return sys.stdin.buffer


def read_text() -> str:
    """All of stdin.

    Raises:
        LocalError: BAD_OPTIONS, if it is closed or not UTF-8.
    """
    try:
        return open_bytes().read().decode()
    except UnicodeDecodeError as error:
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            f"stdin is not UTF-8, from byte {error.start} on",
            "convert it, for example with iconv",
        ) from None

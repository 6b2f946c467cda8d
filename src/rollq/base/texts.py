"""Text that can be sent or stored: what is UTF-8.

Arguments and environment variables of a process may be any bytes. Python keeps those that are not
UTF-8 as unpaired surrogates, which no message can hold.
"""

from __future__ import annotations

from typing import Final

from rollq.base.errors import ErrorCode, LocalError

TEXT_CHARS_SHOWN: Final = 64  # of a refused text, in the error
NOT_UTF8_HINT: Final = (
    "text has to be UTF-8: write it anew, or check the encoding of the terminal or script that it "
    "comes from"
)


def is_utf8(text: str) -> bool:
    """Whether a text can be encoded: it has no unpaired surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_utf8(called: str, text: str) -> None:
    """Check an argument or option, whose name is `called`.

    Raises:
        LocalError: BAD_OPTIONS, if it cannot be encoded.
    """
    if not is_utf8(text):
        raise not_utf8(called, text)


def not_utf8(called: str, text: str) -> LocalError:
    """The error for such a text."""
    shown = repr(text[:TEXT_CHARS_SHOWN])
    return LocalError(ErrorCode.BAD_OPTIONS, f"{called}: {shown} is not UTF-8", NOT_UTF8_HINT)

"""Errors of a transfer: on the wire a number and a text, and when to try again. Pure."""

from __future__ import annotations

from typing import Final

from rollq.base.digests import Digest, digest_to_text
from rollq.base.errors import DiskError, ErrorCode, RemoteError, RollqError, StateError

FETCH_TRIES: Final = 3  # of one blob that comes damaged


def may_fetch_again(error: RollqError, tries_left: int) -> bool:
    """Whether a fetch that failed is tried again at once: bytes that came damaged may come sound
    the next time, since the sender repairs its copy."""
    return error.code is ErrorCode.BLOB_CORRUPT and tries_left > 0


def as_answer(error: RollqError) -> tuple[int, str]:
    """`error` and `detail` of an answer."""
    return int(error.code), f"{error.message}; {error.hint}" if error.hint else error.message


def from_answer(code: int, detail: str, digest: Digest) -> RollqError:
    """The error that an answer tells of."""
    text = detail or f"blob {digest_to_text(digest)}"
    try:
        known = ErrorCode(code)
    except ValueError:  # of a newer member
        return RemoteError(ErrorCode.BUG, f"error {code}: {text}")
    kind = DiskError if 400 <= code < 500 else StateError if 200 <= code < 400 else RemoteError
    return kind(known, text)

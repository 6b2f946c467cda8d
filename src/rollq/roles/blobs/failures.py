"""Errors of a transfer: their form on the wire, and when to retry. Pure."""

from __future__ import annotations

from typing import Final

from rollq.base.digests import Digest, digest_to_text
from rollq.base.errors import ErrorCode, RemoteError, RollqError, StateError

FETCH_TRIES: Final = 3  # of a blob that arrives corrupt


def may_fetch_again(error: RollqError, tries_left: int) -> bool:
    """Whether to retry a failed fetch at once: of corrupt bytes, because the sender repairs its
    copy meanwhile."""
    return error.code is ErrorCode.BLOB_CORRUPT and tries_left > 0


def as_answer(error: RollqError) -> tuple[int, str]:
    """The `error` and `detail` fields of an answer."""
    return int(error.code), f"{error.message}; {error.hint}" if error.hint else error.message


def from_answer(code: int, detail: str, digest: Digest, address: str) -> RollqError:
    """The error in an answer of the member or worker at this address. A disk is not ours, so its
    state is that of the grid, and the text says whose it is."""
    text = detail or f"blob {digest_to_text(digest)}"
    try:
        known = ErrorCode(code)
    except ValueError:  # a code of a newer version
        return RemoteError(ErrorCode.BUG, f"error {code}: {text}")
    if 400 <= code < 500:
        return StateError(known, f"{address}: {text}")
    return (StateError if 200 <= code < 400 else RemoteError)(known, text)

"""Digests: the addresses of content. A blob is named by the SHA-256 of its bytes.

Inside rollq a digest is always the 32 raw bytes; text is made only at the edges (JSON, CLI, file
names). Nothing here reads a file: callers feed the bytes to `hashlib.sha256`.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from rollq.base.errors import ErrorCode, RemoteError

Digest: TypeAlias = bytes

DIGEST_BYTES: Final = 32
_TEXT: Final = re.compile(rf"[0-9a-f]{{{2 * DIGEST_BYTES}}}")


def digest_to_text(digest: Digest) -> str:
    """Lower-case hex."""
    if len(digest) != DIGEST_BYTES:
        raise ValueError(f"a digest has {DIGEST_BYTES} bytes, not {len(digest)}")
    return digest.hex()


def digest_from_text(text: str) -> Digest:
    """The inverse. Only the one form that `digest_to_text` writes is taken, so that a digest has
    one name on every file system. Raises RemoteError BAD_ID."""
    if _TEXT.fullmatch(text) is None:
        raise RemoteError(ErrorCode.BAD_ID, f"not a SHA-256 digest: {text[:80]!r}")
    return bytes.fromhex(text)


def checked_digest(digest: bytes) -> Digest:
    """A digest that came from outside as bytes. Raises RemoteError BAD_ID."""
    if len(digest) != DIGEST_BYTES:
        raise RemoteError(ErrorCode.BAD_ID, f"a digest has {DIGEST_BYTES} bytes, not {len(digest)}")
    return digest

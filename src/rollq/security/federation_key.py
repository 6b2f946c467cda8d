"""The keys that the nodes of a federation share, and sign their datagrams with. Pure.

A key file has one key per line. The first signs; all are accepted, so that keys can be rotated
without downtime.
"""

from __future__ import annotations

import hmac
from typing import Final, NamedTuple

from rollq.base.errors import ErrorCode, LocalError
from rollq.base.federation_limits import FEDERATION_KEY_BYTES_MIN, FEDERATION_KEYS_MAX

KEY_ID_BYTES: Final = 4
SECRET_OF: Final = b"rollq federation key file 1"
ID_OF: Final = b"rollq federation key id 1"


class FederationKey(NamedTuple):
    """A key and its public id."""

    key_id: bytes
    key: bytes

    def __repr__(self) -> str:
        return f"FederationKey({self.key_id.hex()})"


def federation_keys(text: bytes, file_name: str) -> tuple[FederationKey, ...]:
    """The keys of a key file.

    Raises:
        LocalError: BAD_CREDENTIALS.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not 0 < len(lines) <= FEDERATION_KEYS_MAX:
        raise LocalError(
            ErrorCode.BAD_CREDENTIALS,
            f"{file_name} has {len(lines)} keys; it may have 1 to {FEDERATION_KEYS_MAX}",
            "keep the signing key first, and at most one other key",
        )
    if any(len(line) < FEDERATION_KEY_BYTES_MIN for line in lines):
        raise LocalError(
            ErrorCode.BAD_CREDENTIALS,
            f"{file_name} has a key of less than {FEDERATION_KEY_BYTES_MIN} characters",
            "make one with `rollq federation key`",
        )
    return tuple(_named(hmac.digest(line, SECRET_OF, "sha256")) for line in lines)


def _named(key: bytes) -> FederationKey:
    return FederationKey(hmac.digest(key, ID_OF, "sha256")[:KEY_ID_BYTES], key)

"""Bearer tokens: `rollq_ACCOUNT_SECRET`.

The secret is random and long enough that one round of SHA-256 is safe to store. The name of an
account may contain underscores, the secret does not.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from typing import Final, NamedTuple

from rollq.base.access_rules import TokenHash
from rollq.base.errors import ErrorCode, LocalError
from rollq.base.limits import LOGIN_PROOF_BYTES_MAX
from rollq.security.identity import PART, check_account_name
from rollq.security.secret import Secret

PREFIX: Final = "rollq_"
SECRET_BYTES: Final = 24  # random; the text has two characters for each
SECRET_CHARS_MIN: Final = 40  # 160 bits
ID_BYTES: Final = 4


class ParsedToken(NamedTuple):
    """The parts of a token."""

    account: str
    sha256: bytes  # of its secret


def make_token(account: str, expires_ms: int = 0) -> tuple[Secret, TokenHash]:
    """Create a token: its text, which is not stored, and the hash, which is.

    Raises:
        LocalError: BAD_ACCESS, if the name of the account is not valid.
    """
    check_account_name(account)
    text = f"{PREFIX}{account}_{secrets.token_hex(SECRET_BYTES)}".encode()
    parsed = parse_token(text)
    assert parsed is not None, "make_token and parse_token agree"
    return Secret(text), TokenHash(secrets.token_hex(ID_BYTES), parsed.sha256, expires_ms)


def parse_token(text: bytes) -> ParsedToken | None:
    """Parse a token; None if it is malformed."""
    if len(text) > LOGIN_PROOF_BYTES_MAX or not text.isascii():
        return None
    account, _, secret = text.decode("ascii").removeprefix(PREFIX).rpartition("_")
    is_token = text.startswith(PREFIX.encode()) and PART.fullmatch(account) is not None
    if not is_token or len(secret) < SECRET_CHARS_MIN or not secret.isalnum():
        return None
    return ParsedToken(account, hashlib.sha256(secret.encode()).digest())


def account_of_token(token: Secret) -> str:
    """The account of a token.

    Raises:
        LocalError: BAD_CREDENTIALS, if it is malformed.
    """
    parsed = parse_token(token.reveal())
    if parsed is None:
        raise LocalError(
            ErrorCode.BAD_CREDENTIALS,
            f"the token is not of the form {PREFIX}ACCOUNT_SECRET",
            "make one with `rollq access token`, and store it as it was printed",
        )
    return parsed.account


def find_token(tokens: Iterable[TokenHash], sha256: bytes) -> TokenHash | None:
    """The stored token with this hash. All are compared, each in constant time, so that timing
    reveals nothing of the stored hashes."""
    found: TokenHash | None = None
    for token in tokens:
        if hmac.compare_digest(token.sha256, sha256):
            found = token
    return found

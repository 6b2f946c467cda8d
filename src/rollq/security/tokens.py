"""Bearer tokens: `rollq_ACCOUNT_SECRET`. Whoever has the text is the account.

A secret is random and long, so one round of SHA-256 over it cannot be undone, and only that is
stored. An account may have an underscore in its name, a secret never has.
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
SECRET_CHARS_MIN: Final = 40  # 160 bits: what is shorter was not made here
ID_BYTES: Final = 4


class ParsedToken(NamedTuple):
    """What the text of a token says."""

    account: str
    sha256: bytes  # of its secret


def make_token(account: str, expires_ms: int = 0) -> tuple[Secret, TokenHash]:
    """A new token: its text, which is not kept anywhere, and what is stored of it.

    Raises:
        LocalError: BAD_ACCESS, if no account can have this name.
    """
    check_account_name(account)
    text = f"{PREFIX}{account}_{secrets.token_hex(SECRET_BYTES)}".encode()
    parsed = parse_token(text)
    assert parsed is not None, "it was made by the same rules"
    return Secret(text), TokenHash(secrets.token_hex(ID_BYTES), parsed.sha256, expires_ms)


def parse_token(text: bytes) -> ParsedToken | None:
    """What a token says; None if the text is no token."""
    if len(text) > LOGIN_PROOF_BYTES_MAX or not text.isascii():
        return None
    account, _, secret = text.decode("ascii").removeprefix(PREFIX).rpartition("_")
    is_token = text.startswith(PREFIX.encode()) and PART.fullmatch(account) is not None
    if not is_token or len(secret) < SECRET_CHARS_MIN or not secret.isalnum():
        return None
    return ParsedToken(account, hashlib.sha256(secret.encode()).digest())


def account_of_token(token: Secret) -> str:
    """Whose token it is.

    Raises:
        LocalError: BAD_CREDENTIALS, if it is no token.
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
    """The stored token with this digest. Every one is compared, each in constant time: how long
    it takes tells nothing of what is stored."""
    found: TokenHash | None = None
    for token in tokens:
        if hmac.compare_digest(token.sha256, sha256):
            found = token
    return found

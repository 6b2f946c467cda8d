"""Keys of accounts: Ed25519. An account is proved by a signature over the nonces of both sides.

The file of a key begins with a line that names its account, and the rest is PEM:

    # account: alice
    -----BEGIN PRIVATE KEY-----

The library is loaded where a key is used: most processes never use one.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from rollq.base.errors import ErrorCode, LocalError
from rollq.security.identity import PART, check_account_name
from rollq.security.secret import Secret

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PUBLIC_KEY_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64
ACCOUNT_LINE: Final = "# account: "
# No other protocol signs bytes that begin so: a signature means a login here, and nothing else.
CONTEXT: Final = b"rollq login key 1"
LENGTH: Final = struct.Struct("<I")
# Compared with where there is no key: a login costs the same whether its account exists or not.
# Nobody has the private half: it is the digest of a text, taken for a point of the curve.
NO_KEY: Final = hashlib.sha256(b"rollq no key 1").digest()


class LoginSigned(NamedTuple):
    """What the signature of a login is over."""

    account: str
    group: str
    dialer_nonce: bytes
    accepter_nonce: bytes

    def to_bytes(self) -> bytes:
        """Each part with its length before it, so that no two logins have the same bytes."""
        parts = (
            self.dialer_nonce,
            self.accepter_nonce,
            self.account.encode(),
            self.group.encode(),
        )
        return CONTEXT + b"".join(LENGTH.pack(len(part)) + part for part in parts)


class AccountKey(NamedTuple):
    """The private key of an account, read."""

    account: str
    private: Ed25519PrivateKey

    @property
    def public(self) -> bytes:
        """What the group stores of it."""
        return self.private.public_key().public_bytes_raw()

    def sign(self, login: LoginSigned) -> bytes:
        """The proof of a login."""
        return self.private.sign(login.to_bytes())


def make_key(account: str) -> Secret:
    """The text of a new key file.

    Raises:
        LocalError: BAD_ACCESS, if no account can have this name.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    check_account_name(account)
    pem = Ed25519PrivateKey.generate().private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    return Secret(f"{ACCOUNT_LINE}{account}\n".encode() + pem)


def read_key(text: Secret) -> AccountKey:
    """The key in the text of a key file.

    Raises:
        LocalError: BAD_CREDENTIALS.
    """
    from cryptography.exceptions import InternalError, UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    head, _, pem = text.reveal().partition(b"\n")
    account = head.decode("ascii", "replace").removeprefix(ACCOUNT_LINE).strip()
    if not head.startswith(ACCOUNT_LINE.encode()) or not PART.fullmatch(account):
        raise LocalError(
            ErrorCode.BAD_CREDENTIALS,
            "the account key does not name its account",
            f"its first line must be `{ACCOUNT_LINE}NAME`; `rollq access key` writes it so",
        )
    try:
        private = load_pem_private_key(pem, None)
    except (ValueError, TypeError, UnsupportedAlgorithm, InternalError):  # no word of the key
        private = None
    if not isinstance(private, Ed25519PrivateKey):
        raise LocalError(
            ErrorCode.BAD_CREDENTIALS,
            f"the account key of {account} is not an Ed25519 private key in PEM, unencrypted",
            "make one with `rollq access key`",
        )
    return AccountKey(account, private)


def signing_key(login: LoginSigned, signature: bytes, public_keys: Sequence[bytes]) -> bytes | None:
    """Which of an account's keys made the signature. Checks all of them, and at least one also if
    there is none."""
    data = login.to_bytes()
    found = [key for key in public_keys or (NO_KEY,) if _is_signed_by(key, signature, data)]
    return found[0] if found else None


def _is_signed_by(public_key: bytes, signature: bytes, data: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, data)
    except (InvalidSignature, ValueError):
        return False
    return True

"""Ed25519 keys of accounts. A login is a signature over the nonces of both sides.

The first line of a key file names the account, the rest is PEM:

    # account: alice
    -----BEGIN PRIVATE KEY-----

The library is imported on use: most processes need no key.
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
# Domain separation: a signature with this context is valid for a login only.
CONTEXT: Final = b"rollq login key 1"
LENGTH: Final = struct.Struct("<I")
# Verified against if an account has no key, so that timing does not reveal which accounts exist.
# Its private key is unknown: it is the digest of a text, used as a point of the curve.
NO_KEY: Final = hashlib.sha256(b"rollq no key 1").digest()


class LoginSigned(NamedTuple):
    """The signed content of a login."""

    account: str
    group: str
    dialer_nonce: bytes
    accepter_nonce: bytes

    def to_bytes(self) -> bytes:
        """The encoding. Parts have a length prefix, so that it is unambiguous."""
        parts = (
            self.dialer_nonce,
            self.accepter_nonce,
            self.account.encode(),
            self.group.encode(),
        )
        return CONTEXT + b"".join(LENGTH.pack(len(part)) + part for part in parts)


class AccountKey(NamedTuple):
    """The private key of an account."""

    account: str
    private: Ed25519PrivateKey

    @property
    def public(self) -> bytes:
        """The public key, as stored by the group."""
        return self.private.public_key().public_bytes_raw()

    def sign(self, login: LoginSigned) -> bytes:
        """Sign a login."""
        return self.private.sign(login.to_bytes())


def make_key(account: str) -> Secret:
    """Create a key; returns the content of its file.

    Raises:
        LocalError: BAD_ACCESS, if the name of the account is not valid.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    check_account_name(account)
    pem = Ed25519PrivateKey.generate().private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    return Secret(f"{ACCOUNT_LINE}{account}\n".encode() + pem)


def read_key(text: Secret) -> AccountKey:
    """Parse the content of a key file.

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
    except (
        ValueError,
        TypeError,
        UnsupportedAlgorithm,
        InternalError,
    ):  # may quote the key
        private = None
    if not isinstance(private, Ed25519PrivateKey):
        raise LocalError(
            ErrorCode.BAD_CREDENTIALS,
            f"the account key of {account} is not an Ed25519 private key in PEM, unencrypted",
            "make one with `rollq access key`",
        )
    return AccountKey(account, private)


def signing_key(login: LoginSigned, signature: bytes, public_keys: Sequence[bytes]) -> bytes | None:
    """The key of an account that made the signature; None if none did. At least one key is verified
    even if the account has none."""
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

"""The key that the members of a cluster share, and mutual proofs of having it. Pure.

A proof is an HMAC-SHA256 over both nonces, the name of the group, the dialled address, and the side
that proves. The own nonce prevents replay; the side prevents reflection; the address prevents
relay: what a member sends to an impostor that it has dialled is worthless elsewhere. Every digest
    here
begins with a context string, so that none can be used in place of another.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
from collections.abc import Mapping
from typing import Final, NamedTuple

KEY_BYTES: Final = 32
SHARE_BYTES: Final = 32
KEY_ID_BYTES: Final = 8
NONCE_BYTES: Final = 32

PROOF_OF: Final = b"rollq cluster login 1"
ID_OF: Final = b"rollq cluster key id 1"
BIRTH_OF: Final = b"rollq cluster birth 1"
SECRET_OF: Final = b"rollq cluster key file 1"


class LoginSide(enum.Enum):
    """The end of a link that proves."""

    DIALER = b"D"
    ACCEPTER = b"A"


class LoginTerms(NamedTuple):
    """The input of a proof besides key and side.

    Attributes:
        group: The name of the group.
        address: The dialled address, as advertised by the accepter.
        dialer_nonce: NONCE_BYTES, random for each link.
        accepter_nonce: Likewise.
    """

    group: str
    address: str
    dialer_nonce: bytes
    accepter_nonce: bytes


def prove(key: bytes, side: LoginSide, terms: LoginTerms) -> bytes:
    """The proof of one side of a login by `cluster`.

    Raises:
        ValueError: a nonce does not have NONCE_BYTES; a fixed length keeps the input unambiguous.
    """
    nonces = (terms.dialer_nonce, terms.accepter_nonce)
    if any(len(nonce) != NONCE_BYTES for nonce in nonces):
        raise ValueError(f"a nonce has {NONCE_BYTES} bytes")
    texts = (text.encode() for text in (terms.group, terms.address))
    parts = (*nonces, *(len(text).to_bytes(4, "big") + text for text in texts))
    return hmac.digest(key, PROOF_OF + side.value + b"".join(parts), "sha256")


def is_proof(proof: bytes, key: bytes, side: LoginSide, terms: LoginTerms) -> bool:
    """Whether a proof is valid, in constant time.

    Raises:
        ValueError: as `prove`.
    """
    return hmac.compare_digest(proof, prove(key, side, terms))


def key_id_of(key: bytes) -> bytes:
    """The public id of a key."""
    return hmac.digest(key, ID_OF, "sha256")[:KEY_ID_BYTES]


def key_of_birth(cluster_id: bytes, shares: Mapping[int, bytes]) -> bytes:
    """The key of a new cluster, derived from a random share of each initial member."""
    digest = hashlib.sha256(BIRTH_OF)
    digest.update(len(cluster_id).to_bytes(2, "big") + cluster_id)
    for member_id in sorted(shares):
        digest.update(member_id.to_bytes(8, "big") + hashlib.sha256(shares[member_id]).digest())
    return digest.digest()


def keys_of_file(text: bytes) -> tuple[bytes, ...]:
    """The keys of a `cluster.key`, one per line. The first is used to prove, and all are accepted,
    so that keys can be rotated without downtime."""
    lines = [line.strip() for line in text.splitlines()]
    return tuple(hmac.digest(line, SECRET_OF, "sha256") for line in lines if line)


def call_nonce(secret: bytes, address: str) -> bytes:
    """The nonce of a member process for its calls to one address, echoed in the answer: only the
    process that receives at that address can know it."""
    return hmac.digest(secret, b"rollq call 1\0" + address.encode(), "sha256")[:16]

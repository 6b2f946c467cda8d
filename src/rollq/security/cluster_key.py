"""The key that the members of a cluster share, and how both ends of a link prove that they have it.
Pure.

A proof is an HMAC-SHA256 over the nonces of both sides, the name of the group, the address that was
dialled, and the side that proves. A nonce of one's own in it makes an old proof worthless; the side
makes worthless a proof that is sent back to whoever made it; the address makes worthless elsewhere
what a member says to somebody whom it dialled and who is no member. Every digest here begins with
what it is for, so that none can stand in for another.
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
    """Which end of a link proves."""

    DIALER = b"D"
    ACCEPTER = b"A"


class LoginTerms(NamedTuple):
    """What a proof is of, besides the key and the side.

    Attributes:
        group: The name of the group.
        address: That was dialled: the one that the accepter is known by.
        dialer_nonce: NONCE_BYTES, drawn for this link.
        accepter_nonce: The same of the other side.
    """

    group: str
    address: str
    dialer_nonce: bytes
    accepter_nonce: bytes


def prove(key: bytes, side: LoginSide, terms: LoginTerms) -> bytes:
    """What one side of a login by `cluster` sends.

    Raises:
        ValueError: A nonce has not NONCE_BYTES: the parts of the digest would run together.
    """
    nonces = (terms.dialer_nonce, terms.accepter_nonce)
    if any(len(nonce) != NONCE_BYTES for nonce in nonces):
        raise ValueError(f"a nonce has {NONCE_BYTES} bytes")
    texts = (text.encode() for text in (terms.group, terms.address))
    parts = (*nonces, *(len(text).to_bytes(4, "big") + text for text in texts))
    return hmac.digest(key, PROOF_OF + side.value + b"".join(parts), "sha256")


def is_proof(proof: bytes, key: bytes, side: LoginSide, terms: LoginTerms) -> bool:
    """Whether a side has proved that it has the key; takes the same time whatever is wrong.

    Raises:
        ValueError: As `prove`.
    """
    return hmac.compare_digest(proof, prove(key, side, terms))


def key_id_of(key: bytes) -> bytes:
    """A name for a key, which may be told to anybody."""
    return hmac.digest(key, ID_OF, "sha256")[:KEY_ID_BYTES]


def key_of_birth(cluster_id: bytes, shares: Mapping[int, bytes]) -> bytes:
    """The key of a cluster from what each initial member has drawn, by member id."""
    digest = hashlib.sha256(BIRTH_OF)
    digest.update(len(cluster_id).to_bytes(2, "big") + cluster_id)
    for member_id in sorted(shares):
        digest.update(member_id.to_bytes(8, "big") + hashlib.sha256(shares[member_id]).digest())
    return digest.digest()


def keys_of_file(text: bytes) -> tuple[bytes, ...]:
    """The keys of a `cluster.key`: one a line, of any length. The first is proved, and all are
    taken from others: so one can follow another without a stop."""
    lines = [line.strip() for line in text.splitlines()]
    return tuple(hmac.digest(line, SECRET_OF, "sha256") for line in lines if line)


def call_nonce(secret: bytes, address: str) -> bytes:
    """What one life of a member says in its calls to one address, and hears again in the answer:
    whoever does not get what is sent to that address cannot know it."""
    return hmac.digest(secret, b"rollq call 1\0" + address.encode(), "sha256")[:16]

"""Messages before the hello that authenticate the dialer.

A dialer logs in at most once, as the first thing on its link, or not at all. A token is its own
proof, and the hello follows at once. By key and by cluster the accepter sends a challenge, and the
proof is over the nonces of both sides. Such a message is always compact, is never compressed and
fits LOGIN_BYTES_MAX with its frame, because the peer is not authenticated yet.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec

from rollq.base import limits as most
from rollq.wire.fields import AccountName, GroupName, Keyword
from rollq.wire.rules import Bytes

# Login methods. Others may be added: an unknown one is refused.
TOKEN: Final = "token"
KEY: Final = "key"
CLUSTER: Final = "cluster"

NONCE_BYTES: Final = 32

Nonce: TypeAlias = Annotated[bytes, Bytes(NONCE_BYTES)]  # all of them, or empty
Proof: TypeAlias = Annotated[bytes, Bytes(most.LOGIN_PROOF_BYTES_MAX)]


class LoginMessage(msgspec.Struct, array_like=True, frozen=True):
    """Sent before the hello, by either end."""


class Login(LoginMessage, frozen=True, gc=False, tag=12):
    """Log in as this account by this method. `proof` is the token; with other methods it is empty
    and `nonce` is set."""

    method: Keyword
    account: AccountName
    proof: Proof = b""
    nonce: Nonce = b""

    def __repr__(self) -> str:
        return f"Login({self.method!r}, {self.account!r})"  # a proof is not shown in any log


class LoginChallenge(LoginMessage, frozen=True, gc=False, tag=13):
    """The proof has to cover this nonce and the name of the group; `proof` is the accepter's, if
    the method is mutual."""

    nonce: Nonce
    proof: Proof = b""
    group: GroupName = ""


class LoginProof(LoginMessage, frozen=True, gc=False, tag=14):
    """The dialer's signature, or its digest under the shared key."""

    proof: Proof

"""What is said before the hello, by whoever proves who speaks.

A dialer logs in at most once, as the first thing on its link; one that never does goes on as if
there were no logins. A token is its own proof, and the hello follows at once. By key and by cluster
the accepter sends a challenge, and the proof is over the nonces of both sides.

Such a message is always compact, is never compressed and fits LOGIN_BYTES_MAX with its frame:
whoever reads it does not know the peer yet.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec

from rollq.base import limits as most
from rollq.wire.fields import AccountName, GroupName, Keyword
from rollq.wire.rules import Bytes

# How a login is proved. Others may come: whoever does not know one refuses the login.
TOKEN: Final = "token"
KEY: Final = "key"
CLUSTER: Final = "cluster"

NONCE_BYTES: Final = 32

Nonce: TypeAlias = Annotated[bytes, Bytes(NONCE_BYTES)]  # all of them, or empty
Proof: TypeAlias = Annotated[bytes, Bytes(most.LOGIN_PROOF_BYTES_MAX)]


class LoginMessage(msgspec.Struct, array_like=True, frozen=True):
    """Said before the hello, by either end."""


class Login(LoginMessage, frozen=True, gc=False, tag=12):
    """I am this account, and prove it by this method. `proof` is the token, and empty with other
    methods; those have a `nonce` of mine."""

    method: Keyword
    account: AccountName
    proof: Proof = b""
    nonce: Nonce = b""

    def __repr__(self) -> str:
        return f"Login({self.method!r}, {self.account!r})"  # a proof is not shown in any log


class LoginChallenge(LoginMessage, frozen=True, gc=False, tag=13):
    """Prove it over our nonces and the name of the group; `proof` is mine, if the method wants it
    of both sides."""

    nonce: Nonce
    proof: Proof = b""
    group: GroupName = ""


class LoginProof(LoginMessage, frozen=True, gc=False, tag=14):
    """My signature, or my digest under the key that we share."""

    proof: Proof

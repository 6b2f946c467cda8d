"""The dialer's part of a login: its messages before the hello.

A certificate is proved by the TLS handshake, without further messages. Otherwise a key is proved by
a signature, or a token is sent: only over TLS or to this machine, because any reader could use it.
"""

from __future__ import annotations

import secrets
from typing import Protocol

from rollq.base.errors import ErrorCode, LocalError, RemoteError
from rollq.net.addresses import is_loopback
from rollq.security.credentials import Credentials
from rollq.security.signing import AccountKey, LoginSigned, read_key
from rollq.security.tokens import account_of_token
from rollq.wire.login_messages import (
    KEY,
    NONCE_BYTES,
    TOKEN,
    Login,
    LoginChallenge,
    LoginProof,
)


class DialerLogin(Protocol):
    """A login of one link. Its messages are sent in order, and then the hello."""

    @property
    def first(self) -> Login:
        """The first message."""

    @property
    def is_challenged(self) -> bool:
        """Whether the accepter sends a challenge before the hello."""

    def prove(self, challenge: LoginChallenge) -> LoginProof:
        """The response to a challenge.

        Raises:
            RemoteError: LOGIN_FAILED: the accepter's proof is wrong.
        """


class TokenLogin:
    """By a bearer token."""

    is_challenged = False

    def __init__(self, account: str, token: bytes) -> None:
        self.first = Login(TOKEN, account, token)

    def prove(self, challenge: LoginChallenge) -> LoginProof:
        """Not used: a token is not challenged."""
        raise _foreign("it challenges a token")


class KeyLogin:
    """By a signature over the nonces of both sides.

    Args:
        key: Of the account.
        nonce: NONCE_BYTES of randomness.
    """

    is_challenged = True

    def __init__(self, key: AccountKey, nonce: bytes) -> None:
        self._key = key
        self.first = Login(KEY, key.account, nonce=nonce)

    def prove(self, challenge: LoginChallenge) -> LoginProof:
        """The signature."""
        if len(challenge.nonce) != NONCE_BYTES:
            raise _foreign(f"its nonce has {len(challenge.nonce)} bytes")
        signed = LoginSigned(self._key.account, challenge.group, self.first.nonce, challenge.nonce)
        return LoginProof(self._key.sign(signed))


def choose_login(
    credentials: Credentials, host: str, *, is_tls: bool
) -> KeyLogin | TokenLogin | None:
    """The login at a host with these credentials; None: none is needed.

    Raises:
        LocalError: BAD_CREDENTIALS: a file is damaged, or a token would be sent in the open.
    """
    if is_tls and credentials.certificate is not None:
        return None
    if credentials.account_key is not None:
        return KeyLogin(read_key(credentials.account_key), secrets.token_bytes(NONCE_BYTES))
    if credentials.token is None:
        return None
    if not is_tls and not is_loopback(host):
        raise LocalError(
            ErrorCode.BAD_CREDENTIALS,
            f"a token is not sent to {host} without TLS: it could be read on the way",
            "add the ca.pem of the cluster to the credentials, or use an account.key",
        )
    return TokenLogin(account_of_token(credentials.token), credentials.token.reveal())


def _foreign(why: str) -> RemoteError:
    return RemoteError(
        ErrorCode.LOGIN_FAILED,
        f"the peer broke the login protocol: {why}",
        "check the address",
    )

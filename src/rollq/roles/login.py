"""Authentication of links: the accepter's part of a login. Pure.

Every failed login gets the same error after about the same work, whether its account exists or not:
a stranger learns only that it failed. The reason goes to the log of the member."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from rollq.base.access import LinkRole
from rollq.base.access_checks import ANONYMOUS
from rollq.base.access_rules import Account, TokenHash
from rollq.base.errors import ErrorCode, RemoteError
from rollq.security.cluster_key import LoginSide, LoginTerms, is_proof, key_id_of, prove
from rollq.security.identity import CertificateIdentity, CertificateRole
from rollq.security.legacy_accounts import NO_LEGACY_ACCOUNTS, LegacyAccounts
from rollq.security.mode import Mode
from rollq.security.signing import LoginSigned, signing_key
from rollq.security.tokens import find_token, parse_token
from rollq.wire.login_messages import (
    CLUSTER,
    KEY,
    NONCE_BYTES,
    TOKEN,
    Login,
    LoginChallenge,
    LoginMessage,
    LoginProof,
)

LEGACY: Final = "legacy"  # the method of a legacy peer: by its address
CERTIFICATE: Final = "certificate"  # the method without a login
NO_DIGEST: Final = b""  # of an invalid token; matches no secret
NO_TOKENS: Final = (TokenHash("", bytes(32)),)  # compared with if there is no account


class Accounts(Protocol):
    """The present accounts of the group."""

    def get(self, name: str, /) -> Account | None:
        """The account with this name."""


class LinkIdentity(NamedTuple):
    """The authenticated identity of a link.

    Attributes:
        account: Its account; empty: logins are off.
        method: `certificate`, or the method of the login; empty: none.
        certificate_role: The role in the certificate, if that is the method.
        credential: The token (its id) or key (its bytes) that was proved.
        expires_ms: When that token expires, by the time of the group; 0: never.
    """

    account: str = ""
    method: str = ""
    certificate_role: str = ""
    credential: str | bytes = ""
    expires_ms: int = 0


NOBODY: Final = LinkIdentity()


class LoginFailedError(RemoteError):
    """A login failed. `why` is for the log only, and not for the peer."""

    def __init__(self, account: str, why: str) -> None:
        super().__init__(
            ErrorCode.LOGIN_FAILED,
            "the login failed",
            "check the credentials; the log of the member says what was wrong",
        )
        self.why = f"{account[:64]!a}: {why}"


@dataclass(slots=True, frozen=True)
class LoginSetup:
    """The login options of a listener.

    Attributes:
        mode: Whether links must log in. If off, logins are answered but not checked, so that peers
            may always send credentials.
        group: The name of the group, which is part of a signed login.
        accounts: Returns the accounts of the group.
        now_ms: The time of the group, for the expiry of tokens.
        draw_nonce: Returns NONCE_BYTES random bytes.
        tls: Whether links use TLS; if required, members have certificates.
        is_current: Whether all committed accounts are known here. A member that has just
            started, or knows no leader, may lack some.
        legacy: The accounts of peers that cannot log in.
        address: By which members dial this one.
        cluster_keys: Returns the keys that members may prove.
    """

    mode: Mode
    group: str
    accounts: Callable[[], Accounts]
    now_ms: Callable[[], int]
    draw_nonce: Callable[[], bytes]
    tls: Mode = Mode.OFF
    is_current: Callable[[], bool] = lambda: True
    legacy: LegacyAccounts = NO_LEGACY_ACCOUNTS
    address: str = ""
    cluster_keys: Callable[[], tuple[bytes, ...]] = tuple


class LoginMachine:
    """The login of one link; each message is accepted once."""

    __slots__ = ("_cluster_key", "_login", "_nonce", "_setup")

    def __init__(self, setup: LoginSetup) -> None:
        self._setup = setup
        self._login: Login | None = None  # the first message
        self._nonce = b""  # of the challenge that waits for its proof; empty: none
        self._cluster_key = b""  # to be proved, in a login of a member

    def hear(self, message: LoginMessage) -> LoginChallenge | LinkIdentity:
        """Handle a message of the dialer; returns the answer, or the identity at the end.

        Raises:
            LoginFailedError: the login is wrong; the link is closed.
            RemoteError: NOT_READY if that cannot be decided yet.
        """
        if isinstance(message, Login) and self._login is None:
            self._login = message
            if message.method == TOKEN:
                return self._judge_token(message)
            if message.method == KEY and len(message.nonce) == NONCE_BYTES:
                self._nonce = self._setup.draw_nonce()
                return LoginChallenge(self._nonce, group=self._setup.group)
            if message.method == CLUSTER and len(message.nonce) == NONCE_BYTES:
                return self._challenge_member(message)
            raise LoginFailedError(message.account, f"cannot log in by {message.method!a}")
        if isinstance(message, LoginProof) and self._login is not None and self._nonce:
            if self._cluster_key:
                return self._judge_member(self._login, message.proof)
            nonce, self._nonce = self._nonce, b""
            return self._judge_key(self._login, nonce, message.proof)
        account = "" if self._login is None else self._login.account
        raise LoginFailedError(account, f"{type(message).__name__} is out of order")

    def _judge_token(self, login: Login) -> LinkIdentity:
        setup = self._setup
        if setup.mode is Mode.OFF:
            return NOBODY
        parsed = parse_token(login.proof)
        account = setup.accounts().get(login.account)
        stored = NO_TOKENS if account is None else account.tokens
        found = find_token(stored, NO_DIGEST if parsed is None else parsed.sha256)
        if parsed is None or parsed.account != login.account:
            raise LoginFailedError(login.account, "not a token of this account")
        if account is None:
            raise self._unknown(login.account, "no such account")
        if found is None:
            raise self._unknown(login.account, "a wrong token")
        if found.expires_ms and found.expires_ms <= setup.now_ms():
            raise LoginFailedError(login.account, f"the token {found.id!a} has expired")
        return self._admit(
            LinkIdentity(account.name, TOKEN, "", found.id, found.expires_ms), account
        )

    def _judge_key(self, login: Login, nonce: bytes, proof: bytes) -> LinkIdentity:
        setup = self._setup
        if setup.mode is Mode.OFF:
            return NOBODY
        account = setup.accounts().get(login.account)
        keys = () if account is None else account.public_keys
        signed = LoginSigned(login.account, setup.group, login.nonce, nonce)
        key = signing_key(signed, proof, keys)
        if key is None or account is None:
            reason = "a wrong signature" if keys else "no such account, or it has no key"
            raise self._unknown(login.account, reason)
        return self._admit(LinkIdentity(account.name, KEY, "", key), account)

    def _unknown(self, account: str, why: str) -> RemoteError:
        """The error for an account or credential that is unknown here, but may be known to
        others."""
        if self._setup.is_current():
            return LoginFailedError(account, why)
        return RemoteError(
            ErrorCode.NOT_READY, "this member does not know all accounts yet", "try again"
        )

    def _challenge_member(self, login: Login) -> LoginChallenge:
        keys = self._setup.cluster_keys()
        if not keys:
            raise RemoteError(
                ErrorCode.LOGIN_FAILED,
                "this member holds no cluster key yet",
                "it is told the key when it is a member, or give it cluster.key",
            )
        named = [key for key in keys if key_id_of(key).hex() == login.account]
        if not named:
            raise LoginFailedError(login.account, "a cluster key that is not ours")
        self._cluster_key = named[0]
        self._nonce = self._setup.draw_nonce()
        proof = prove(self._cluster_key, LoginSide.ACCEPTER, self._terms(login))
        return LoginChallenge(self._nonce, proof, self._setup.group)

    def _judge_member(self, login: Login, proof: bytes) -> LinkIdentity:
        key, terms = self._cluster_key, self._terms(login)
        self._nonce = self._cluster_key = b""
        if not is_proof(proof, key, LoginSide.DIALER, terms):
            raise LoginFailedError(login.account, "no proof of the cluster key")
        return LinkIdentity(method=CLUSTER)

    def _terms(self, login: Login) -> LoginTerms:
        return LoginTerms(self._setup.group, self._setup.address, login.nonce, self._nonce)

    def _admit(self, identity: LinkIdentity, account: Account) -> LinkIdentity:
        if account.is_disabled:
            raise LoginFailedError(account.name, "the account is disabled")
        return identity


def identify(
    setup: LoginSetup,
    role: LinkRole,
    logged_in: LinkIdentity,
    certificate: CertificateIdentity | None,
    *,
    legacy_address: str = "",
) -> LinkIdentity:
    """The identity of a link at its hello: from its login, else from its certificate.

    Args:
        setup: Of the listener.
        role: From the hello. Members prove the cluster key, which is checked with their
            messages.
        logged_in: Result of the login; NOBODY without one.
        certificate: From TLS.
        legacy_address: Of a peer without features, which cannot log in.

    Raises:
        LoginFailedError: the account is disabled.
        RemoteError: LOGIN_REQUIRED; ACCESS_DENIED if a certificate is not for this role.
    """
    is_member = certificate is not None and certificate.role is CertificateRole.MEMBER
    if role is LinkRole.MEMBER and not is_member and (certificate or setup.tls is Mode.REQUIRE):
        whose = "a link without a certificate" if certificate is None else certificate.uri
        raise RemoteError(
            ErrorCode.ACCESS_DENIED,
            f"the certificate of a member is asked for, and this is {whose}",
            "issue one with `rollq tls issue NAME --role member`",
        )
    if logged_in.method == CLUSTER and role is not LinkRole.MEMBER:
        raise LoginFailedError("", f"a {role} link by the key of members")
    if logged_in.method:
        return logged_in
    if setup.mode is Mode.OFF:
        return NOBODY
    if certificate is not None:
        return _certified(certificate, setup.accounts())
    if role is LinkRole.MEMBER:
        return NOBODY
    if legacy_address:
        name = setup.legacy.account_of(legacy_address)
        account = setup.accounts().get(name) if name else None
        if account is not None and not account.is_disabled:
            return LinkIdentity(name, LEGACY)
    if setup.mode is Mode.REQUIRE:
        raise RemoteError(
            ErrorCode.LOGIN_REQUIRED,
            "this member requires a login",
            "give the credentials of an account: --credentials DIR, or ROLLQ_CREDENTIALS",
        )
    return LinkIdentity(ANONYMOUS)


def is_withdrawn(setup: LoginSetup, identity: LinkIdentity) -> bool:
    """Whether the token or key of a link was removed from its account, or has expired. Changes of
    the account's rules are checked elsewhere."""
    if identity.method not in (TOKEN, KEY):
        return False
    account = setup.accounts().get(identity.account)
    if account is None:
        return False
    if identity.method == KEY:
        return identity.credential not in account.public_keys
    if identity.expires_ms and identity.expires_ms <= setup.now_ms():
        return True
    return all(token.id != identity.credential for token in account.tokens)


def _certified(certificate: CertificateIdentity, accounts: Accounts) -> LinkIdentity:
    """The identity of a certificate; its account need not exist."""
    account = accounts.get(certificate.name)
    if account is not None and account.is_disabled:
        raise LoginFailedError(certificate.name, "the account is disabled")
    return LinkIdentity(certificate.name, CERTIFICATE, certificate.role)

"""Who a link is: the accepter's part of a login. Pure.

A login that fails is answered in the same words whatever was wrong with it, and after about the
same work whether its account exists or not: what a stranger can learn is that it failed. The
reason is for the log of the member.
"""

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

LEGACY: Final = "legacy"  # by its address: a peer of the legacy protocol
CERTIFICATE: Final = "certificate"  # how an identity was proved, if not by a login
NO_DIGEST: Final = b""  # of what is no token: that of no secret
NO_TOKENS: Final = (TokenHash("", bytes(32)),)  # compared with where there is no account


class Accounts(Protocol):
    """The accounts of the group, as they are now."""

    def get(self, name: str, /) -> Account | None:
        """The account of this name."""


class Identity(NamedTuple):
    """Who a link has proved to be.

    Attributes:
        account: Its account; empty: nobody asked.
        method: How: `certificate`, or the method of the login; empty: not at all.
        certificate_role: What the certificate says that its holder is, if that was how.
        credential: Which token (its id) or key (its bytes) of the account was proved.
        expires_ms: When that token ends, by the time of the group; 0: never.
    """

    account: str = ""
    method: str = ""
    certificate_role: str = ""
    credential: str | bytes = ""
    expires_ms: int = 0


NOBODY: Final = Identity()


class LoginFailedError(RemoteError):
    """A login is wrong. `why` is not for whoever logged in."""

    def __init__(self, account: str, why: str) -> None:
        super().__init__(
            ErrorCode.LOGIN_FAILED,
            "the login failed",
            "check the credentials; the log of the member says what was wrong",
        )
        self.why = f"{account[:64]!a}: {why}"


@dataclass(slots=True, frozen=True)
class LoginSetup:
    """What the links of a listener are judged by.

    Attributes:
        mode: Whether links must prove who they are. Where it is off a login is answered and not
            looked at: credentials do no harm where nobody asks for them.
        group: The name of the group, which a login by key signs.
        accounts: Gives the accounts of the group.
        now_ms: Tells the time of the group, by which tokens expire.
        draw_nonce: Gives NONCE_BYTES that nobody can guess.
        tls: Whether links speak TLS; where they must, members have certificates.
        is_current: Whether all accounts that were agreed on are known here. A member that has just
            started, or hears of no leader, may lack some.
        legacy: The accounts of peers that cannot log in.
        address: By which members dial this one.
        cluster_keys: Gives the keys that members may prove.
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
    """The login of one link: at most one, and nothing of it is taken twice."""

    __slots__ = ("_asked", "_cluster_key", "_nonce", "_setup")

    def __init__(self, setup: LoginSetup) -> None:
        self._setup = setup
        self._asked: Login | None = None  # the first message
        self._nonce = b""  # of the challenge that waits for its proof; empty: none does
        self._cluster_key = b""  # that is to be proved, if it is a member that logs in

    def hear(self, message: LoginMessage) -> LoginChallenge | Identity:
        """A message of the dialer came: what to answer, or who it is.

        Raises:
            LoginFailedError: it is nobody; the link ends.
            RemoteError: NOT_READY, if that cannot be told yet.
        """
        if isinstance(message, Login) and self._asked is None:
            self._asked = message
            if message.method == TOKEN:
                return self._judge_token(message)
            if message.method == KEY and len(message.nonce) == NONCE_BYTES:
                self._nonce = self._setup.draw_nonce()
                return LoginChallenge(self._nonce, group=self._setup.group)
            if message.method == CLUSTER and len(message.nonce) == NONCE_BYTES:
                return self._challenge_member(message)
            raise LoginFailedError(message.account, f"cannot log in by {message.method!a}")
        if isinstance(message, LoginProof) and self._asked is not None and self._nonce:
            if self._cluster_key:
                return self._judge_member(self._asked, message.proof)
            nonce, self._nonce = self._nonce, b""
            return self._judge_key(self._asked, nonce, message.proof)
        account = "" if self._asked is None else self._asked.account
        raise LoginFailedError(account, f"{type(message).__name__} is out of order")

    def _judge_token(self, login: Login) -> Identity:
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
        return self._admit(Identity(account.name, TOKEN, "", found.id, found.expires_ms), account)

    def _judge_key(self, login: Login, nonce: bytes, proof: bytes) -> Identity:
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
        return self._admit(Identity(account.name, KEY, "", key), account)

    def _unknown(self, account: str, why: str) -> RemoteError:
        """What to raise for what is not known here, and may be known to others."""
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

    def _judge_member(self, login: Login, proof: bytes) -> Identity:
        key, terms = self._cluster_key, self._terms(login)
        self._nonce = self._cluster_key = b""
        if not is_proof(proof, key, LoginSide.DIALER, terms):
            raise LoginFailedError(login.account, "no proof of the cluster key")
        return Identity(method=CLUSTER)

    def _terms(self, login: Login) -> LoginTerms:
        return LoginTerms(self._setup.group, self._setup.address, login.nonce, self._nonce)

    def _admit(self, identity: Identity, account: Account) -> Identity:
        if account.is_disabled:
            raise LoginFailedError(account.name, "the account is disabled")
        return identity


def identify(
    setup: LoginSetup,
    role: LinkRole,
    logged_in: Identity,
    certificate: CertificateIdentity | None,
    *,
    legacy_address: str = "",
) -> Identity:
    """Who a link is when its hello comes: by its login, else by its certificate.

    Args:
        setup: Of the listener.
        role: What the hello says that the link is for. Members prove the cluster key, which is
            asked for where they are heard.
        logged_in: What its login has shown; NOBODY, if there was none.
        certificate: What TLS has shown.
        legacy_address: Where a peer connected from that offers no features: it cannot log in.

    Raises:
        LoginFailedError: the account is disabled.
        RemoteError: LOGIN_REQUIRED; ACCESS_DENIED, if a certificate is not for this.
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
            return Identity(name, LEGACY)
    if setup.mode is Mode.REQUIRE:
        raise RemoteError(
            ErrorCode.LOGIN_REQUIRED,
            "this member requires a login",
            "give the credentials of an account: --credentials DIR, or ROLLQ_CREDENTIALS",
        )
    return Identity(ANONYMOUS)


def is_withdrawn(setup: LoginSetup, identity: Identity) -> bool:
    """Whether the token or key by which a link was let in is not its account's any more, or has
    expired. Whether the account itself may go on is a matter of rules."""
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


def _certified(certificate: CertificateIdentity, accounts: Accounts) -> Identity:
    """The holder of a certificate; the group need not know its account."""
    account = accounts.get(certificate.name)
    if account is not None and account.is_disabled:
        raise LoginFailedError(certificate.name, "the account is disabled")
    return Identity(certificate.name, CERTIFICATE, certificate.role)

"""Who a link is: the accepter's part of a login."""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import replace

import pytest

from rollq.base.access import LinkRole
from rollq.base.access_rules import Account
from rollq.base.errors import ErrorCode, RemoteError
from rollq.net.login import KeyLogin
from rollq.roles.login import (
    NOBODY,
    LinkIdentity,
    LoginFailedError,
    LoginMachine,
    LoginSetup,
    identify,
    is_withdrawn,
)
from rollq.security.identity import CertificateIdentity, CertificateRole
from rollq.security.mode import Mode
from rollq.security.signing import make_key, read_key
from rollq.security.tokens import make_token
from rollq.wire.login_messages import (
    NONCE_BYTES,
    Login,
    LoginChallenge,
    LoginMessage,
    LoginProof,
)

NOW_MS = 1_000_000
ALICE_TOKEN, ALICE_STORED = make_token("alice", NOW_MS + 1)
OLD_TOKEN, OLD_STORED = make_token("alice", NOW_MS)
BOB_TOKEN, BOB_STORED = make_token("bob")
MADE_UP, _ = make_token("nobody")
ALICE_KEY = read_key(make_key("alice"))
BOB_KEY = read_key(make_key("bob"))
ACCOUNTS = {
    "alice": Account(
        "alice", tokens=(OLD_STORED, ALICE_STORED), public_keys=(BOB_KEY.public, ALICE_KEY.public)
    ),
    "bob": Account("bob", tokens=(BOB_STORED,), public_keys=(BOB_KEY.public,), is_disabled=True),
}
NONCE = b"n" * NONCE_BYTES
ALICE_BY_TOKEN = LinkIdentity("alice", "token", "", ALICE_STORED.id, NOW_MS + 1)
ALICE_BY_KEY = LinkIdentity("alice", "key", "", ALICE_KEY.public)


def setup(mode: Mode = Mode.REQUIRE) -> LoginSetup:
    nonces = (bytes([number]) * NONCE_BYTES for number in itertools.count(1))
    return LoginSetup(
        mode,
        "g1",
        accounts=lambda: ACCOUNTS,
        now_ms=lambda: NOW_MS,
        draw_nonce=lambda: next(nonces),
    )


def by_token(account: str, token: bytes) -> Login:
    return Login("token", account, token)


def test_a_token_proves_its_account_at_once() -> None:
    login = by_token("alice", ALICE_TOKEN.reveal())
    assert LoginMachine(setup()).hear(login) == ALICE_BY_TOKEN


def test_a_key_proves_its_account_by_a_challenge() -> None:
    machine = LoginMachine(setup())
    login = KeyLogin(ALICE_KEY, NONCE)
    challenge = machine.hear(login.first)
    assert isinstance(challenge, LoginChallenge)
    assert (challenge.group, challenge.proof) == ("g1", b"")
    assert machine.hear(login.prove(challenge)) == ALICE_BY_KEY


def test_every_challenge_is_new() -> None:
    one = setup()
    first, second = (LoginMachine(one).hear(Login("key", "a", nonce=NONCE)) for _ in range(2))
    assert first != second


WRONG: dict[str, list[LoginMessage]] = {
    "another secret": [by_token("alice", make_token("alice")[0].reveal())],
    "a damaged token": [by_token("alice", ALICE_TOKEN.reveal()[:-1] + b"?")],
    "the token of another": [by_token("alice", BOB_TOKEN.reveal())],
    "a token under another name": [by_token("bob", ALICE_TOKEN.reveal())],
    "an expired token": [by_token("alice", OLD_TOKEN.reveal())],
    "a disabled account": [by_token("bob", BOB_TOKEN.reveal())],
    "an unknown account": [by_token("nobody", MADE_UP.reveal())],
    "no token": [by_token("alice", b"")],
    "what is stored": [by_token("alice", b"rollq_alice_" + ALICE_STORED.sha256.hex().encode())],
    "an unknown method": [Login("password", "alice", b"secret")],
    "a method that is not for accounts": [Login("", "alice")],
    "a key without a nonce": [Login("key", "alice")],
    "a key with a short nonce": [Login("key", "alice", nonce=b"n" * 31)],
    "a proof without a login": [LoginProof(b"x" * 64)],
    "a challenge from the dialer": [LoginChallenge(NONCE)],
    "a login twice": [Login("key", "alice", nonce=NONCE), Login("key", "alice", nonce=NONCE)],
    "a token after a challenge": [
        Login("key", "alice", nonce=NONCE),
        by_token("alice", ALICE_TOKEN.reveal()),
    ],
    "no signature": [Login("key", "alice", nonce=NONCE), LoginProof(b"")],
    "a signature of a disabled account": [
        Login("key", "bob", nonce=NONCE),
        KeyLogin(BOB_KEY, NONCE).prove(LoginChallenge(b"\1" * NONCE_BYTES, group="g1")),
    ],
    "a signature for another group": [
        Login("key", "alice", nonce=NONCE),
        KeyLogin(ALICE_KEY, NONCE).prove(LoginChallenge(b"\1" * NONCE_BYTES, group="g2")),
    ],
    "a signature of an unknown account": [
        Login("key", "nobody", nonce=NONCE),
        KeyLogin(ALICE_KEY, NONCE).prove(LoginChallenge(b"\1" * NONCE_BYTES, group="g1")),
    ],
}


@pytest.mark.parametrize("said", WRONG.values(), ids=WRONG)
def test_whatever_is_wrong_is_answered_in_the_same_words(said: list[LoginMessage]) -> None:
    machine = LoginMachine(setup())
    for message in said[:-1]:
        machine.hear(message)
    with pytest.raises(LoginFailedError) as caught:
        machine.hear(said[-1])
    error = caught.value
    assert error.code == ErrorCode.LOGIN_FAILED
    assert str(error) == str(LoginFailedError("", ""))
    assert not error.retryable
    secrets = [token.reveal().decode() for token in (ALICE_TOKEN, BOB_TOKEN, OLD_TOKEN, MADE_UP)]
    assert not any(secret in error.why for secret in secrets)


def test_the_proof_of_one_link_is_worth_nothing_on_another() -> None:
    one = setup()
    first, second = LoginMachine(one), LoginMachine(one)
    login = KeyLogin(ALICE_KEY, NONCE)
    challenge = first.hear(login.first)
    assert isinstance(challenge, LoginChallenge)
    proof = login.prove(challenge)
    assert first.hear(proof) == ALICE_BY_KEY
    second.hear(login.first)
    with pytest.raises(LoginFailedError):
        second.hear(proof)


def test_a_challenge_is_answered_once() -> None:
    machine = LoginMachine(setup())
    login = KeyLogin(ALICE_KEY, NONCE)
    challenge = machine.hear(login.first)
    assert isinstance(challenge, LoginChallenge)
    with pytest.raises(LoginFailedError):
        machine.hear(LoginProof(b"x" * 64))
    with pytest.raises(LoginFailedError):
        machine.hear(login.prove(challenge))


@pytest.mark.parametrize("name", ["an unknown account", "another secret", "no signature"])
def test_a_member_that_is_behind_refuses_nobody_for_good(name: str) -> None:
    behind = dataclasses.replace(setup(), is_current=lambda: False)
    machine = LoginMachine(behind)
    for message in WRONG[name][:-1]:
        machine.hear(message)
    with pytest.raises(RemoteError) as caught:
        machine.hear(WRONG[name][-1])
    assert caught.value.code == ErrorCode.NOT_READY
    login = by_token("alice", ALICE_TOKEN.reveal())
    assert LoginMachine(behind).hear(login) == ALICE_BY_TOKEN


@pytest.mark.parametrize("said", [WRONG["an unknown account"], WRONG["no signature"]], ids=repr)
def test_where_nobody_asks_a_login_is_answered_and_proves_nothing(
    said: list[LoginMessage],
) -> None:
    machine = LoginMachine(setup(Mode.OFF))
    answers = [machine.hear(message) for message in said]
    assert answers[-1] == NOBODY


# --- who a link is when its hello comes

ROLES = [role for role in LinkRole if role is not LinkRole.MEMBER]


def certificate(name: str, role: CertificateRole = CertificateRole.CLIENT) -> CertificateIdentity:
    return CertificateIdentity("prod", role, name)


@pytest.mark.parametrize("role", ROLES)
def test_a_link_that_proves_nothing_is_let_in_as_the_mode_says(role: LinkRole) -> None:
    assert identify(setup(Mode.OFF), role, NOBODY, None) == NOBODY
    assert identify(setup(Mode.ALLOW), role, NOBODY, None) == LinkIdentity("anonymous")
    with pytest.raises(RemoteError) as caught:
        identify(setup(Mode.REQUIRE), role, NOBODY, None)
    assert caught.value.code == ErrorCode.LOGIN_REQUIRED
    assert "ROLLQ_CREDENTIALS" in caught.value.hint


@pytest.mark.parametrize("mode", [Mode.ALLOW, Mode.REQUIRE])
@pytest.mark.parametrize("role", ROLES)
def test_a_login_counts_before_a_certificate(mode: Mode, role: LinkRole) -> None:
    assert identify(setup(mode), role, ALICE_BY_TOKEN, None) == ALICE_BY_TOKEN
    assert identify(setup(mode), role, ALICE_BY_TOKEN, certificate("carol")) == ALICE_BY_TOKEN


@pytest.mark.parametrize("mode", [Mode.ALLOW, Mode.REQUIRE])
def test_the_name_of_a_certificate_is_its_account_also_if_nobody_knows_it(mode: Mode) -> None:
    for name in ("alice", "carol"):
        who = identify(setup(mode), LinkRole.CLIENT, NOBODY, certificate(name))
        assert who == LinkIdentity(name, "certificate", "client")
    with pytest.raises(LoginFailedError):
        identify(setup(mode), LinkRole.CLIENT, NOBODY, certificate("bob"))


def test_where_nobody_asks_a_certificate_proves_nothing() -> None:
    assert identify(setup(Mode.OFF), LinkRole.CLIENT, NOBODY, certificate("bob")) == NOBODY


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("role", [role for role in CertificateRole if role != "member"])
def test_only_the_certificate_of_a_member_speaks_as_a_member(
    mode: Mode, role: CertificateRole
) -> None:
    for logged_in in (NOBODY, ALICE_BY_TOKEN):
        with pytest.raises(RemoteError) as caught:
            identify(setup(mode), LinkRole.MEMBER, logged_in, certificate("m1", role))
        assert caught.value.code == ErrorCode.ACCESS_DENIED
    members = certificate("m1", CertificateRole.MEMBER)
    identify(setup(mode), LinkRole.MEMBER, NOBODY, members)


@pytest.mark.parametrize("mode", list(Mode))
def test_a_member_without_a_certificate_is_asked_for_its_key_elsewhere(mode: Mode) -> None:
    assert identify(setup(mode), LinkRole.MEMBER, NOBODY, None) == NOBODY


def test_a_token_or_key_that_the_account_lost_is_withdrawn() -> None:
    accounts = {"alice": ACCOUNTS["alice"]}
    terms = replace(setup(), accounts=lambda: accounts)
    held = (ALICE_BY_TOKEN, ALICE_BY_KEY, LinkIdentity("carol", "certificate", "client"), NOBODY)
    assert not any(is_withdrawn(terms, one) for one in held)
    accounts["alice"] = Account("alice", tokens=(OLD_STORED,), public_keys=(BOB_KEY.public,))
    assert [is_withdrawn(terms, one) for one in held] == [True, True, False, False]
    accounts["alice"] = ACCOUNTS["alice"]
    later = replace(terms, now_ms=lambda: NOW_MS + 1)
    assert [is_withdrawn(later, one) for one in held] == [True, False, False, False]

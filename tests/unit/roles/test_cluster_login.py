"""Logins of members, both parts of them."""

from __future__ import annotations

import itertools

import pytest

from rollq.base.access import LinkRole
from rollq.base.errors import ErrorCode, RemoteError
from rollq.roles.login import (
    LinkIdentity,
    LoginFailedError,
    LoginMachine,
    LoginSetup,
    identify,
)
from rollq.roles.member.cluster_login import ClusterLogin
from rollq.security.mode import Mode
from rollq.wire.login_messages import CLUSTER, NONCE_BYTES, Login, LoginChallenge, LoginProof

KEY, OTHER = b"k" * 32, b"o" * 32
NONCE = b"n" * NONCE_BYTES
HERE = "a:1"


def setup(*keys: bytes, mode: Mode = Mode.OFF, group: str = "g1") -> LoginSetup:
    nonces = (bytes([number]) * NONCE_BYTES for number in itertools.count(1))
    return LoginSetup(
        mode,
        group,
        accounts=dict,
        now_ms=lambda: 0,
        draw_nonce=lambda: next(nonces),
        address=HERE,
        cluster_keys=lambda: keys,
    )


def login(key: bytes = KEY, group: str = "g1", address: str = HERE) -> ClusterLogin:
    return ClusterLogin(key, group, address, NONCE)


def challenge_of(machine: LoginMachine, by: ClusterLogin) -> LoginChallenge:
    challenge = machine.hear(by.first)
    assert isinstance(challenge, LoginChallenge)
    return challenge


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("key", [KEY, OTHER])
def test_a_member_proves_a_key_that_is_held(mode: Mode, key: bytes) -> None:
    machine, ours = LoginMachine(setup(KEY, OTHER, mode=mode)), login(key)
    proof = ours.prove(challenge_of(machine, ours))
    assert machine.hear(proof) == LinkIdentity(method=CLUSTER)
    with pytest.raises(LoginFailedError):
        machine.hear(proof)  # nothing is taken twice


def test_another_key_is_refused_before_anything_is_proved() -> None:
    with pytest.raises(LoginFailedError, match="the login failed"):
        LoginMachine(setup(KEY)).hear(login(OTHER).first)


def test_who_holds_no_key_says_so() -> None:
    with pytest.raises(RemoteError, match="holds no cluster key") as caught:
        LoginMachine(setup()).hear(login().first)
    assert caught.value.code is ErrorCode.LOGIN_FAILED
    assert not isinstance(caught.value, LoginFailedError)  # nothing to write to the log


def test_a_nonce_of_another_length_is_refused() -> None:
    for nonce in (b"", NONCE[1:]):
        with pytest.raises(LoginFailedError):
            LoginMachine(setup(KEY)).hear(Login(CLUSTER, login().first.account, nonce=nonce))


@pytest.mark.parametrize("proof", [b"", b"p" * 32])
def test_a_wrong_proof_is_refused(proof: bytes) -> None:
    machine = LoginMachine(setup(KEY))
    challenge = challenge_of(machine, login())
    with pytest.raises(LoginFailedError):
        machine.hear(LoginProof(proof or challenge.proof))


@pytest.mark.parametrize(
    "other",
    [login(group="g2"), login(address="b:1")],
    ids=["group", "address"],
)
def test_a_member_gives_no_proof_to_somebody_else(other: ClusterLogin) -> None:
    machine = LoginMachine(setup(KEY))
    with pytest.raises(RemoteError, match="does not prove the cluster key"):
        other.prove(challenge_of(machine, other))


@pytest.mark.parametrize("challenge", [LoginChallenge(NONCE), LoginChallenge(b"", b"p" * 32)])
def test_a_member_gives_no_proof_to_who_proves_nothing(challenge: LoginChallenge) -> None:
    with pytest.raises(RemoteError, match="which process listens there"):
        login().prove(challenge)


def test_the_key_of_members_opens_links_of_members_alone() -> None:
    proven = LinkIdentity(method=CLUSTER)
    assert identify(setup(KEY), LinkRole.MEMBER, proven, None) == proven
    for role in LinkRole:
        if role is not LinkRole.MEMBER:
            with pytest.raises(LoginFailedError):
                identify(setup(KEY), role, proven, None)

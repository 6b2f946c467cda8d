"""What a dialer says before its hello."""

from __future__ import annotations

import pytest

from rollq.base.errors import ErrorCode, LocalError, RemoteError
from rollq.net.login import KeyLogin, TokenLogin, choose_login
from rollq.security.credentials import NONE, Credentials
from rollq.security.secret import Secret
from rollq.security.signing import LoginSigned, make_key, read_key, signing_key
from rollq.security.tokens import make_token
from rollq.wire.login_messages import NONCE_BYTES, Login, LoginChallenge

TOKEN = make_token("ann")[0]
KEY = make_key("bob")
CERTIFICATE = ("cert.pem", "key.pem")
NONCE = b"n" * NONCE_BYTES


def test_a_token_is_all_that_is_said() -> None:
    login = choose_login(Credentials(token=TOKEN), "127.0.0.1", is_tls=False)
    assert isinstance(login, TokenLogin)
    assert login.first == Login("token", "ann", TOKEN.reveal())
    assert not login.is_challenged


def test_a_key_goes_before_a_token_and_says_nothing_secret() -> None:
    both = Credentials(token=TOKEN, account_key=KEY)
    first, second = (choose_login(both, "10.0.0.1", is_tls=False) for _ in range(2))
    assert isinstance(first, KeyLogin)
    assert isinstance(second, KeyLogin)
    assert (first.first.method, first.first.account, first.first.proof) == ("key", "bob", b"")
    assert first.is_challenged
    assert len(first.first.nonce) == NONCE_BYTES
    assert first.first.nonce != second.first.nonce


def test_over_tls_a_certificate_is_enough() -> None:
    both = Credentials(token=TOKEN, certificate=CERTIFICATE)
    assert choose_login(both, "10.0.0.1", is_tls=True) is None
    assert choose_login(both, "127.0.0.1", is_tls=False) is not None
    assert choose_login(NONE, "10.0.0.1", is_tls=True) is None


def test_a_token_leaves_this_machine_only_over_tls() -> None:
    mine = Credentials(token=TOKEN)
    for host in ("127.0.0.1", "127.9.9.9", "::1"):
        assert choose_login(mine, host, is_tls=False) is not None
    for host in ("10.0.0.1", "0.0.0.0", "::", "2001:db8::1", "localhost.example.com", ""):
        assert choose_login(mine, host, is_tls=True) is not None
        with pytest.raises(LocalError) as caught:
            choose_login(mine, host, is_tls=False)
        assert caught.value.code == ErrorCode.BAD_CREDENTIALS
        assert "ca.pem" in caught.value.hint
        assert TOKEN.reveal().decode() not in str(caught.value)


def test_damaged_files_are_ours_to_mend() -> None:
    for broken in (Credentials(token=Secret(b"x")), Credentials(account_key=Secret(b"x"))):
        with pytest.raises(LocalError) as caught:
            choose_login(broken, "127.0.0.1", is_tls=False)
        assert caught.value.code == ErrorCode.BAD_CREDENTIALS


def test_the_group_that_signing_key_is_that_of_the_challenge() -> None:
    key = read_key(KEY)
    login = KeyLogin(key, NONCE)
    proof = login.prove(LoginChallenge(b"a" * NONCE_BYTES, group="g1")).proof
    signed = LoginSigned("bob", "g1", NONCE, b"a" * NONCE_BYTES)
    assert signing_key(signed, proof, [key.public]) == key.public


def test_nothing_signing_key_without_a_nonce() -> None:
    with pytest.raises(RemoteError) as caught:
        KeyLogin(read_key(KEY), NONCE).prove(LoginChallenge(b"a" * 31, group="g1"))
    assert caught.value.code == ErrorCode.LOGIN_FAILED


def test_a_token_is_not_to_be_challenged() -> None:
    with pytest.raises(RemoteError):
        TokenLogin("ann", TOKEN.reveal()).prove(LoginChallenge(b"a" * NONCE_BYTES))

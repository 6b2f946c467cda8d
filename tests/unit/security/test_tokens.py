from __future__ import annotations

import hashlib
import re

import pytest

from rollq.base.errors import ErrorCode, LocalError
from rollq.security.secret import Secret
from rollq.security.tokens import account_of_token, find_token, make_token, parse_token


def test_a_token_names_its_account_and_only_its_digest_is_stored() -> None:
    secret, stored = make_token("alice", 1_000)
    text = secret.reveal().decode()
    found = re.fullmatch(r"rollq_alice_([0-9a-f]{48})", text)
    assert found is not None
    assert stored.sha256 == hashlib.sha256(found[1].encode()).digest()
    assert stored.expires_ms == 1_000
    assert stored.id not in text
    assert text not in repr((secret, stored))
    assert account_of_token(secret) == "alice"


def test_every_token_is_new() -> None:
    made = [make_token("a") for _ in range(20)]
    assert len({secret.reveal() for secret, _ in made}) == 20
    assert len({stored.id for _, stored in made}) == 20


@pytest.mark.parametrize("name", ["a", "al_ice", "a.b-c_", "A" * 64, "rollq_", "7"])
def test_the_account_is_what_stands_before_the_last_underscore(name: str) -> None:
    secret, stored = make_token(name)
    parsed = parse_token(secret.reveal())
    assert parsed is not None
    assert parsed.account == name
    assert parsed.sha256 == stored.sha256


@pytest.mark.parametrize("name", ["", "_a", "a/b", "a b", "ä", "A" * 65, "a\n"])
def test_a_token_is_made_only_for_what_can_be_an_account(name: str) -> None:
    with pytest.raises(LocalError) as caught:
        make_token(name)
    assert caught.value.code == ErrorCode.BAD_ACCESS


SECRET = b"0" * 40


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"rollq_",
        b"rollq_alice",
        b"rollq_alice_",
        b"rollq_alice_" + SECRET[:-1],
        b"rollq__" + SECRET,
        b"rollq_al/ice_" + SECRET,
        b"Rollq_alice_" + SECRET,
        b"alice_" + SECRET,
        b" rollq_alice_" + SECRET,
        b"rollq_alice_" + SECRET + b"\n",
        b"rollq_alice_" + SECRET + b" ",
        b"rollq_alice_" + SECRET + b"\x00",
        b"rollq_alice_" + SECRET + b"\xff",
        b"rollq_alice_" + SECRET + "é".encode(),
        b"rollq_alice_" + b"0" * 600,
        b"rollq_" + b"a" * 65 + b"_" + SECRET,
    ],
)
def test_what_is_no_token_is_not_read_as_one(text: bytes) -> None:
    assert parse_token(text) is None
    with pytest.raises(LocalError) as caught:
        account_of_token(Secret(text))
    assert caught.value.code == ErrorCode.BAD_CREDENTIALS
    assert SECRET.decode() not in str(caught.value)


def test_a_digest_finds_its_token_among_others() -> None:
    stored = [make_token("a")[1] for _ in range(3)]
    for token in stored:
        assert find_token(stored, token.sha256) is token
        others = [other for other in stored if other is not token]
        assert find_token(others, token.sha256) is None
    assert find_token(stored, b"") is None
    assert find_token((), stored[0].sha256) is None

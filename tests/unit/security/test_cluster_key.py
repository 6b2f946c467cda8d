"""Proofs of the cluster key: what counts as one, and what an attacker can make of one."""

from __future__ import annotations

import pytest

from rollq.security.cluster_key import (
    KEY_BYTES,
    LoginSide,
    LoginTerms,
    call_nonce,
    is_proof,
    key_id_of,
    key_of_birth,
    keys_of_file,
    prove,
)

KEY = b"k" * KEY_BYTES
OURS, THEIRS = b"o" * 32, b"t" * 32
SHARES = {3: b"c" * 32, 1: b"a" * 32, 2: b"b" * 32}


TERMS = LoginTerms("g", "a:1", OURS, THEIRS)


def proof_of(
    side: LoginSide = LoginSide.DIALER, key: bytes = KEY, terms: LoginTerms = TERMS
) -> bytes:
    return prove(key, side, terms)


def is_taken(proof: bytes) -> bool:
    return is_proof(proof, KEY, LoginSide.DIALER, TERMS)


def test_a_proof_of_the_key_is_taken() -> None:
    assert is_taken(proof_of())


@pytest.mark.parametrize(
    "proof",
    [
        proof_of(LoginSide.ACCEPTER),  # sent back to whoever made it
        proof_of(key=b"x" * KEY_BYTES),
        proof_of(terms=TERMS._replace(group="h")),
        proof_of(terms=TERMS._replace(address="b:1")),  # passed on by whoever was dialled there
        proof_of(terms=TERMS._replace(group="ga", address=":1")),
        proof_of(terms=TERMS._replace(dialer_nonce=b"z" * 32)),
        proof_of(terms=TERMS._replace(accepter_nonce=b"z" * 32)),  # of an earlier link
        proof_of(terms=TERMS._replace(dialer_nonce=THEIRS, accepter_nonce=OURS)),
        proof_of()[:-1],
        proof_of() + b"\0",
        b"",
    ],
)
def test_any_other_proof_is_not(proof: bytes) -> None:
    assert not is_taken(proof)


def test_nonces_that_are_too_short_or_long_prove_nothing() -> None:
    for ours, theirs in ((b"", THEIRS), (OURS, b""), (OURS + b"t", THEIRS[1:])):
        with pytest.raises(ValueError, match="32 bytes"):
            proof_of(terms=TERMS._replace(dialer_nonce=ours, accepter_nonce=theirs))


def test_the_key_of_a_birth_is_of_all_shares_and_the_cluster_in_any_order() -> None:
    key = key_of_birth(b"cluster", SHARES)
    assert len(key) == KEY_BYTES
    assert key == key_of_birth(b"cluster", dict(sorted(SHARES.items())))
    others = [
        key_of_birth(b"another", SHARES),
        key_of_birth(b"cluster", SHARES | {2: b"x" * 32}),
        key_of_birth(b"cluster", SHARES | {2: SHARES[1], 1: SHARES[2]}),
        key_of_birth(b"cluster", SHARES | {4: b"d" * 32}),
    ]
    assert len({key, *others}) == 5


def test_the_name_of_a_key_tells_keys_apart_and_is_no_proof() -> None:
    assert key_id_of(KEY) == key_id_of(KEY)
    assert key_id_of(KEY) != key_id_of(b"x" * KEY_BYTES)
    assert key_id_of(KEY) not in proof_of()


def test_a_file_has_a_key_a_line() -> None:
    one, two = keys_of_file(b"first secret\n\n  second \n")
    assert (one,) == keys_of_file(b"first secret")
    assert (two,) == keys_of_file(b"second\r\n")
    assert len(one) == KEY_BYTES
    assert b"first" not in one


def test_what_is_said_in_a_call_is_of_the_life_and_the_address() -> None:
    said = {call_nonce(secret, to) for secret in (b"1", b"2") for to in ("a:1", "b:1")}
    assert len(said) == 4

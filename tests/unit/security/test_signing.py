from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from rollq.base.errors import ErrorCode, LocalError
from rollq.security.secret import Secret
from rollq.security.signing import (
    CONTEXT,
    NO_KEY,
    PUBLIC_KEY_BYTES,
    SIGNATURE_BYTES,
    LoginSigned,
    make_key,
    read_key,
    signing_key,
)

LOGIN = LoginSigned("alice", "g1", b"d" * 32, b"a" * 32)
KEY = read_key(make_key("alice"))


def test_a_key_signs_a_login_and_its_public_half_tells() -> None:
    proof = KEY.sign(LOGIN)
    assert len(proof) == SIGNATURE_BYTES
    assert len(KEY.public) == PUBLIC_KEY_BYTES
    other = read_key(make_key("alice")).public
    assert signing_key(LOGIN, proof, [KEY.public]) == KEY.public
    assert signing_key(LOGIN, proof, [other, KEY.public]) == KEY.public
    assert signing_key(LOGIN, proof, [other]) is None
    assert signing_key(LOGIN, proof, []) is None
    assert signing_key(LOGIN, proof, [b"short"]) is None


@pytest.mark.parametrize(
    "other",
    [
        LOGIN._replace(account="bob"),
        LOGIN._replace(group="g2"),
        LOGIN._replace(dialer_nonce=b"x" * 32),
        LOGIN._replace(accepter_nonce=b"x" * 32),
        LOGIN._replace(dialer_nonce=LOGIN.accepter_nonce, accepter_nonce=LOGIN.dialer_nonce),
    ],
)
def test_a_signature_is_for_one_login(other: LoginSigned) -> None:
    assert signing_key(other, KEY.sign(LOGIN), [KEY.public]) is None


@pytest.mark.parametrize("proof", [b"", b"x", bytes(SIGNATURE_BYTES), b"\xff" * 512])
def test_garbage_is_no_signature(proof: bytes) -> None:
    assert signing_key(LOGIN, proof, [KEY.public]) is None
    assert signing_key(LOGIN, proof, []) is None


def test_what_signing_key_cannot_be_read_in_two_ways() -> None:
    moved = LOGIN._replace(account="aliceg", group="1")
    assert moved.to_bytes() != LOGIN.to_bytes()
    assert LOGIN.to_bytes().startswith(CONTEXT)


def test_the_signed_bytes_are_a_promise() -> None:
    assert LOGIN.to_bytes() == (
        b"rollq login key 1"
        + (b"\x20\0\0\0" + b"d" * 32)
        + (b"\x20\0\0\0" + b"a" * 32)
        + b"\x05\0\0\0alice"
        + b"\x02\0\0\0g1"
    )


def test_the_file_of_a_key_names_its_account() -> None:
    text = make_key("al_ice")
    assert text.reveal().startswith(b"# account: al_ice\n-----BEGIN PRIVATE KEY-----\n")
    assert read_key(text).account == "al_ice"
    without_end = Secret(text.reveal().rstrip())  # as a file of secrets is read
    assert read_key(without_end).public == read_key(text).public
    with pytest.raises(LocalError):
        make_key("al/ice")


def test_a_login_without_a_key_costs_a_whole_check() -> None:
    """The key that is compared with is a point of the curve: another one is refused at once."""
    prime = 2**255 - 19
    y = int.from_bytes(NO_KEY, "little") & (2**255 - 1)
    d = -121_665 * pow(121_666, -1, prime)
    x_squared = (y * y - 1) * pow(d * y * y + 1, -1, prime) % prime
    assert y < prime
    assert pow(x_squared, (prime - 1) // 2, prime) == 1


def _rsa() -> bytes:
    return generate_private_key(65537, 2048).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )


def _encrypted() -> bytes:
    return KEY.private.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x")
    )


PEM = make_key("alice").reveal().partition(b"\n")[2]


@pytest.mark.parametrize(
    "text",
    [
        PEM,
        b"# account: \n" + PEM,
        b"# account: a/b\n" + PEM,
        b"# account: \xff\n" + PEM,
        b"# account: alice\n",
        b"# account: alice\n" + PEM[:60],
        b"# account: alice\n" + PEM.replace(b"MC4C", b"MC4D"),
        b"# account: alice\n" + PEM.replace(b"K2Vw", b"K2Fw"),  # of an algorithm that is none
        b"# account: alice\n" + _rsa(),
        b"# account: alice\n" + _encrypted(),
        b"\x00\xff",
    ],
    ids=range(11),  # the texts are new in every process, and its tests must have the same names
)
def test_what_is_no_key_file_is_refused_without_showing_it(text: bytes) -> None:
    with pytest.raises(LocalError) as caught:
        read_key(Secret(text))
    assert caught.value.code == ErrorCode.BAD_CREDENTIALS
    assert "BEGIN" not in str(caught.value)
    assert caught.value.__cause__ is None

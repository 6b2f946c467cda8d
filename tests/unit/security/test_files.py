"""Credentials of a directory: what is missing, open to others or damaged is said."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from rollq.base.errors import ErrorCode, LocalError
from rollq.security.files import SECRET_BYTES_MAX, load_credentials, read_secret
from rollq.security.secret import Secret


def put(path: Path, data: bytes = b"x\n", mode: int = 0o600) -> None:
    path.write_bytes(data)
    path.chmod(mode)


def refused(directory: Path) -> str:
    with pytest.raises(LocalError) as caught:
        load_credentials(directory)
    assert caught.value.code is ErrorCode.BAD_CREDENTIALS
    return str(caught.value)


def test_an_empty_directory_holds_nothing(tmp_path: Path) -> None:
    found = load_credentials(tmp_path)
    assert (found.ca, found.certificate, found.token) == ("", None, None)


def test_a_token_comes_without_its_line_end(tmp_path: Path) -> None:
    put(tmp_path / "token", b"rollq_a_s3cret\n")
    token = load_credentials(tmp_path).token
    assert token is not None
    assert token.reveal() == b"rollq_a_s3cret"


def test_a_secret_does_not_show_itself() -> None:
    secret = Secret(b"s3cret")
    assert "s3cret" not in f"{secret!r} {secret} {[secret]}"
    with pytest.raises(TypeError):
        pickle.dumps(secret)


@pytest.mark.parametrize("name", ["token", "account.key", "cluster.key"])
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_what_others_may_read_is_no_secret(tmp_path: Path, name: str, mode: int) -> None:
    put(tmp_path / name, mode=mode)
    assert "chmod 600" in refused(tmp_path)


def test_a_private_key_that_others_may_read(tmp_path: Path) -> None:
    put(tmp_path / "ca.pem", mode=0o644)
    put(tmp_path / "cert.pem", mode=0o644)
    put(tmp_path / "key.pem", mode=0o644)
    assert "chmod 600" in refused(tmp_path)


@pytest.mark.parametrize("there", [("cert.pem",), ("key.pem", "ca.pem"), ("cert.pem", "key.pem")])
def test_half_a_certificate(tmp_path: Path, there: tuple[str, ...]) -> None:
    for name in there:
        put(tmp_path / name)
    assert "has not all of" in refused(tmp_path)


def test_no_directory(tmp_path: Path) -> None:
    assert "is not a directory" in refused(tmp_path / "none")


@pytest.mark.parametrize("data", [b"", b"\n", b"x" * (SECRET_BYTES_MAX + 1)])
def test_empty_and_huge_secrets(tmp_path: Path, data: bytes) -> None:
    put(tmp_path / "token", data)
    with pytest.raises(LocalError):
        read_secret(tmp_path / "token")

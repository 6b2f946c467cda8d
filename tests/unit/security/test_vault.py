"""What a vault gives, and what it does not."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from rollq.base.errors import ErrorCode, LocalError
from rollq.security.vault import SYSTEMD, NoSecretError, Vault, open_vault

VALUE = b"marker-4711\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A vault with one secret."""
    (tmp_path / "github").write_bytes(VALUE)
    (tmp_path / "github").chmod(0o600)
    return tmp_path


def test_a_secret_is_a_file_that_is_read_each_time(folder: Path) -> None:
    vault = Vault(folder)
    assert vault.get("github").reveal() == VALUE
    (folder / "github").write_bytes(b"newer")
    assert vault.get("github").reveal() == b"newer"


@pytest.mark.parametrize(
    "name", ["other", "..", "../github", "/etc/passwd", "", "git hub", "a" * 999]
)
def test_what_is_not_there_is_told_by_its_name(folder: Path, name: str) -> None:
    with pytest.raises(NoSecretError) as caught:
        Vault(folder).get(name)
    assert caught.value.code is ErrorCode.NO_SECRET
    assert ascii(name[:64]) in str(caught.value)
    assert str(folder) not in str(caught.value)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_file_that_is_open_to_others_is_no_secret(
    folder: Path, mode: int, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "github").chmod(mode)
    with caplog.at_level(logging.WARNING), pytest.raises(NoSecretError) as caught:
        Vault(folder).get("github")
    assert "github" in str(caught.value)
    assert f"{mode:04o}" in caplog.text
    assert "4711" not in caplog.text + str(caught.value)


def test_systemd_lets_its_user_in_as_a_group(folder: Path) -> None:
    (folder / "github").chmod(0o440)
    vault = open_vault(folder, "", {SYSTEMD: str(folder)})
    assert vault is not None
    assert vault.get("github").reveal() == VALUE
    (folder / "github").chmod(0o444)
    with pytest.raises(NoSecretError):
        vault.get("github")


def test_variables_are_secrets_by_their_exact_name_and_are_taken_out() -> None:
    environ = {"S_db": "one", "S_DB": "two", "S_": "none", "PATH": "/bin"}
    vault = open_vault(None, "S_", environ)
    assert vault is not None
    assert environ == {"S_": "none", "PATH": "/bin"}
    assert (vault.get("db").reveal(), vault.get("DB").reveal()) == (b"one", b"two")
    for name in ("", "Db", "d-b", "PATH"):
        with pytest.raises(NoSecretError):
            vault.get(name)


def test_a_worker_that_was_told_of_none_has_none() -> None:
    environ = {"ROLLQ_SECRET_a": "x"}
    assert open_vault(None, "", environ) is None
    assert environ == {"ROLLQ_SECRET_a": "x"}


@pytest.mark.parametrize("prefix", ["P", "=_", "1_", "A-_"])
def test_a_prefix_must_be_one(prefix: str) -> None:
    with pytest.raises(LocalError):
        open_vault(None, prefix, {"PATH": "/bin"})


def test_a_vault_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(LocalError):
        open_vault(tmp_path / "none", "", {})


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell")
def test_closed_memory_leaves_no_core_and_is_not_inherited() -> None:
    asked = (
        "import ctypes, resource, subprocess, sys\n"
        "from rollq.security.memory import close_memory\n"
        "close_memory()\n"
        "libc = ctypes.CDLL(None)\n"
        "print(libc.prctl(3, 0, 0, 0, 0), resource.getrlimit(resource.RLIMIT_CORE)[0])\n"
        "told = 'import ctypes; print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))'\n"
        "sys.stdout.flush()\n"
        "subprocess.run([sys.executable, '-c', told], check=True)\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", asked], capture_output=True, text=True, check=True
    )
    assert answer.stdout.split() == ["0", "0", "1"]

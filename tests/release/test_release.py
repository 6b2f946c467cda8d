"""The commit that a build carries, what `--version` makes of it, and checksums that hold."""

from __future__ import annotations

import importlib.util
import subprocess
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from rollq import __version__, release
from tests.release.__main__ import write_sums
from tests.release.environments import ROOT


def test_a_repository_tells_its_commit_and_whether_files_differ(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    (tmp_path / "a.txt").write_text("one")
    git(tmp_path, "add", "a.txt")
    git(tmp_path, "commit", "--quiet", "--message", "one")
    commit = git(tmp_path, "rev-parse", "--short=12", "HEAD").strip()
    assert hook().commit_of(tmp_path) == commit
    (tmp_path / "a.txt").write_text("two")
    assert hook().commit_of(tmp_path) == f"{commit}-dirty"
    inside = tmp_path / "sdist"
    inside.mkdir()
    assert not hook().commit_of(inside), "a repository around the sources is not theirs"


def test_without_git_there_is_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git").mkdir()
    assert not hook().commit_of(tmp_path), "no repository, whatever the folder is called"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not hook().commit_of(ROOT)


def test_a_build_says_its_commit_and_a_clone_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh: None
) -> None:
    monkeypatch.setattr(release, "files", lambda _: tmp_path)
    assert release.release() == version("rollq")
    release.release.cache_clear()
    (tmp_path / "COMMIT").write_text("0123456789ab\n")
    assert release.release() == f"{version('rollq')} (commit 0123456789ab)"


def test_what_is_installed_and_what_is_imported_have_one_version() -> None:
    assert __version__ == version("rollq")


def test_checksums_are_read_by_sha256sum_and_signed(tmp_path: Path) -> None:
    (tmp_path / "a.whl").write_bytes(b"wheel")
    key = Ed25519PrivateKey.generate()
    *_, sums, signature = write_sums([tmp_path / "a.whl"], key)
    subprocess.run(["sha256sum", "--check", "--strict", sums.name], cwd=tmp_path, check=True)
    key.public_key().verify(signature.read_bytes(), sums.read_bytes())
    with pytest.raises(InvalidSignature):
        key.public_key().verify(signature.read_bytes(), b"other sums")


@pytest.fixture
def fresh() -> Iterator[None]:
    """What was found out is forgotten before and after."""
    release.release.cache_clear()
    yield
    release.release.cache_clear()


def hook() -> Any:
    """The hook of the build, which is no module of a package."""
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def git(folder: Path, *words: str) -> str:
    """What git prints, run as somebody."""
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    return subprocess.run(
        ["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True
    ).stdout

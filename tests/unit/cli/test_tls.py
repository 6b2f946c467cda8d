"""`rollq tls`: certificates from nothing to a changed authority, by commands alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from rollq.cli.main import app
from rollq.security.files import load_credentials
from tests.unit.security.handshakes import shake


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*words: str, code: int = 0) -> Result:
    result = CliRunner().invoke(app, ["tls", *words])
    assert result.exit_code == code, result.output
    return result


def rows(*words: str, code: int = 0) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run(*words, "--json", code=code).stdout.splitlines()]


def test_an_authority_and_credentials_take_one_command_each() -> None:
    run("init", "ca", "--cluster", "grid")
    told = run("issue", "worker-7", "--role", "worker").stdout
    assert "rollq://grid/worker/worker-7" in told
    credentials = load_credentials(Path("worker-7"))
    assert credentials.ca
    assert credentials.certificate is not None


def test_a_certificate_is_shown_with_holder_and_days() -> None:
    run("init", "ca", "--cluster", "grid")
    run("issue", "w", "--role", "worker", "--out", "deep/w", "--days", "100")
    leaf, authority = rows("show", "deep/w")
    assert (leaf["identity"], leaf["role"]) == ("rollq://grid/worker/w", "worker")
    assert (leaf["days_left"], leaf["valid"], leaf["trusted"]) == (99, True, True)
    assert (authority["role"], authority["days_left"]) == ("authority", 3_649)
    assert rows("show", "deep/w/cert.pem") == [leaf]
    assert "worker" in run("show", "deep/w").stdout
    assert run("show", "deep/w").stderr == ""


def test_one_that_expires_soon_is_warned_of() -> None:
    run("init", "ca")
    run("issue", "w", "--role", "worker", "--days", "30")
    assert "(w/cert.pem) expires in 29 days" in run("show", "w").stderr
    assert "warning" not in run("rotate", "w").stderr


def test_one_that_no_authority_beside_it_signed_is_told() -> None:
    run("init", "ca")
    run("init", "other")
    run("issue", "w", "--role", "worker")
    Path("w/ca.pem").write_bytes(Path("other/ca.pem").read_bytes())
    leaf, _ = rows("show", "w", code=1)
    assert not leaf["trusted"]
    assert "no authority" in run("show", "w", code=1).stderr


def test_a_change_of_authority_goes_by_the_steps_that_help_names() -> None:
    run("init", "ca", "--cluster", "grid")
    for name in ("a", "b"):
        run("issue", name, "--role", "member")
    before = rows("show", "a")
    assert len(rows("rotate", "--new-ca")) == 2
    run("rotate", "a", "b", "--trust-only")
    assert len(rows("show", "a")) == 3
    run("rotate", "a", "b")
    shake(Path("a"), Path("b"))
    assert len(rows("rotate", "--drop-old-ca")) == 1
    run("rotate", "a", "b", "--trust-only")
    shake(Path("a"), Path("b"))
    after = rows("show", "a")
    assert [row["identity"] for row in after] == [row["identity"] for row in before]
    assert all(old["serial"] != new["serial"] for old, new in zip(before, after, strict=True))


@pytest.mark.parametrize(
    "words",
    [
        ("rotate",),
        ("rotate", "w", "--new-ca"),
        ("rotate", "w", "--drop-old-ca"),
        ("rotate", "--new-ca", "--drop-old-ca"),
        ("rotate", "w", "--trust-only", "--new-ca"),
        ("issue", "w", "--role", "worker"),
        ("issue", "x", "--role", "boss"),
        ("init", "ca"),
    ],
)
def test_what_would_be_a_mistake_changes_nothing(words: tuple[str, ...]) -> None:
    run("init", "ca")
    run("issue", "w", "--role", "worker")
    before = rows("show", "w", "ca")
    run(*words, code=2)
    assert rows("show", "w", "ca") == before
    assert not Path("x").exists()


def test_what_is_not_there_is_said() -> None:
    assert "rollq tls init" in run("issue", "w", "--role", "worker", code=2).stderr
    assert "neither" in run("show", ".", code=2).stderr
    assert "PEM" in run("show", __file__, code=2).stderr

"""What a submit refuses before it asks the grid, and in which words."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from rollq.cli.main import app

NOWHERE = "127.0.0.1:1"
ID = "6f9619ff-8b86-d011-b42d-00c04fc964ff"


@pytest.fixture(autouse=True)
def _no_config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    monkeypatch.chdir(tmp_path)


def refusal(*words: str) -> str:
    """What a command says that is refused for its options."""
    result = CliRunner().invoke(app, [*words, "-s", NOWHERE])
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    return result.stderr


@pytest.mark.parametrize(
    "options",
    [
        ("--file", "x=fa", "--file", "x=fb"),
        ("--file", "x=fa", "--dir", "x=folder"),
        ("--dir", "x=folder", "--dir", "x=folder"),
        ("--file", "x=fa", "--cached", "cache:x"),
        ("--file", "x=fa", "--input", f"x={ID}:out"),
    ],
    ids=" ".join,
)
def test_a_file_name_is_given_once(options: tuple[str, ...]) -> None:
    Path("fa").touch()
    Path("fb").touch()
    Path("folder").mkdir()
    assert "the file name 'x' is there twice [bad_options]" in refusal("submit", "catx", *options)


def test_a_file_name_of_a_schedule_is_given_once() -> None:
    Path("fa").touch()
    options = ("--file", "x=fa", "--cached", "cache:x")
    said = refusal("cron", "add", "n", "@daily", "catx", *options)
    assert "the file name 'x' is there twice" in said

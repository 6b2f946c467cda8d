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


def test_a_name_is_shown_as_it_was_typed() -> None:
    said = refusal("submit", "calcA", "--env", "日本=1")
    assert "no environment variable can be named '日本' [bad_options]" in said


def test_a_resource_of_zero_is_told_by_its_bounds() -> None:
    said = refusal("submit", "calcA", "--cpu", "0")
    assert "cpu is 0, and must be above 0 and at most" in said
    assert "in names" not in said


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--run-limit", "inf", "cannot be inf"),
        ("--soft-limit", "1e30", "cannot be 1e+30"),
        ("--delay", "1e30", "cannot be 1e+30"),
        ("--max-attempts", "999999999999", "cannot be 999999999999"),
        ("--retry-exit-code", "300", "cannot be 300"),
        ("--lease", "0.5", "cannot be 0.5"),
        ("--sticky-key", "k" * 300, "cannot be 'kkk"),
    ],
)
def test_a_value_is_refused_by_the_name_that_was_typed(option: str, value: str, said: str) -> None:
    assert f"rollq: {option} {said}" in refusal("submit", "calcA", option, value)


def test_so_is_a_value_of_a_schedule() -> None:
    said = refusal("cron", "add", "n", "@daily", "calcA", "--run-limit", "inf")
    assert "rollq: --run-limit cannot be inf" in said


def test_a_long_queue_name_is_told_by_its_length() -> None:
    said = refusal("submit", "calcA", "--queue", "a" * 300)
    assert "is too long: it has 300 bytes" in said
    assert "use up to 256 bytes" in said
    assert "'a b' is not a valid queue name" in refusal("submit", "calcA", "--queue", "a b")

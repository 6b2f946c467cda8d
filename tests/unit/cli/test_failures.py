"""Errors that are not ours: which become words, and which stay bugs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from rollq.cli.failures import EXIT_PIPE, EXIT_USAGE, Commands
from rollq.cli.main import app as rollq


def app_that_needs(module: str) -> typer.Typer:
    """A tree with a command that imports a module which is not there."""
    return app_that_raises(ModuleNotFoundError(f"No module named {module!r}", name=module))


def app_that_raises(error: Exception) -> typer.Typer:
    """A tree with a command that fails."""
    app = typer.Typer(cls=Commands)

    @app.callback()
    def root() -> None:
        """A root, so that there is a tree."""

    @app.command()
    def look() -> None:
        raise error

    return app


@pytest.mark.parametrize("module", ["pyspark", "pyarrow.parquet", "numpy"])
def test_a_command_without_its_packages_says_what_to_install(module: str) -> None:
    ended = CliRunner().invoke(app_that_needs(module), ["look"])
    assert ended.exit_code == EXIT_USAGE
    assert ended.stderr == (
        f"rollq: this command requires Spark: {module} is not installed [bad_setup]\n"
        "  pip install 'rollq[spark]'\n"
    )


def test_a_path_that_cannot_be_used_is_named() -> None:
    ended = CliRunner().invoke(app_that_raises(PermissionError(13, "Denied", "there/x")), ["look"])
    assert ended.exit_code == EXIT_USAGE
    assert ended.stderr.startswith("rollq: there/x: Denied [bad_setup]\n  check that the path")


def test_an_error_of_the_system_without_a_path_is_a_bug() -> None:
    ended = CliRunner().invoke(app_that_raises(OSError(5, "Input/output error")), ["look"])
    assert isinstance(ended.exception, OSError)


def test_a_full_disk_behind_stdout_is_told() -> None:
    command = [sys.executable, "-m", "rollq", "metrics", "alerts"]
    with open("/dev/full", "w") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr == (
        "rollq: cannot write the output: No space left on device [disk_full]\n"
        "  make room, or write elsewhere\n"
    )


def test_help_on_a_full_disk_is_told() -> None:
    command = [sys.executable, "-m", "rollq", "--help"]
    with open("/dev/full", "w") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr.startswith("rollq: cannot write the output: No space left on device")


@pytest.mark.parametrize(
    "words", ["--help", "--version", "metrics alerts", "metrics alerts --json"]
)
def test_a_closed_stdout_is_no_success(words: str) -> None:
    command = ["sh", "-c", f"exec {sys.executable} -m rollq {words} >&-"]
    ended = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 1
    assert "cannot write the output: stdout is closed" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("words", [["--help"], ["metrics", "alerts"]])
def test_a_reader_that_went_away_is_no_success(words: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "rollq", *words]
    try:
        ended = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writing)
    assert (ended.returncode, ended.stderr) == (EXIT_PIPE, b"")


def test_completion_that_cannot_be_installed_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Otherwise the shell that the tests were started from counts, which may have ended.
    monkeypatch.setattr("shellingham.detect_shell", lambda *_: ("bash", "/bin/bash"))
    (tmp_path / "file").touch()
    ended = CliRunner(env={"HOME": str(tmp_path / "file")}).invoke(rollq, ["--install-completion"])
    assert ended.exit_code == EXIT_USAGE
    assert ": File exists [bad_setup]" in ended.stderr


def test_a_file_in_the_place_of_a_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ended = CliRunner().invoke(rollq, ["init", str(tmp_path / "file")])
    assert ended.exit_code == EXIT_USAGE
    assert ": Not a directory [bad_setup]" in ended.stderr


def test_another_module_that_is_missing_is_a_bug() -> None:
    ended = CliRunner().invoke(app_that_needs("pyspark_of_others"), ["look"])
    assert isinstance(ended.exception, ModuleNotFoundError)

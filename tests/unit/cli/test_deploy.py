"""Files for containers: what they name is there. No engine builds them here."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer

import rollq
from rollq.cli.main import app

ROOT = Path(__file__).parents[3]
CONTAINERFILE = (ROOT / "deploy/Containerfile").read_text(encoding="utf-8")
COMPOSE = (ROOT / "deploy/compose.yaml").read_text(encoding="utf-8")
INSTRUCTIONS = [
    line.split(None, 1)
    for line in re.sub(r"\\\n", " ", re.sub(r"(?m)^#.*\n", "", CONTAINERFILE)).splitlines()
    if line.strip()
]


def command_of(words: list[str]) -> Any:
    """The command that these words of `rollq` name; it takes all their options."""
    root: Any = typer.main.get_command(app)
    while words[0].startswith("--"):
        words = words[2:]
    command = root.commands[words[0]]
    if hasattr(command, "commands"):
        words = words[1:]
        command = command.commands[words[0]]
    known = {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
    assert {word for word in words if word.startswith("--")} <= known
    return command


def lists_in(text: str) -> list[list[str]]:
    return [re.findall(r'"([^"]*)"', found) for found in re.findall(r"\[[^\]]*\]", text)]


def test_every_instruction_is_one() -> None:
    known = {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL"}
    known |= {"HEALTHCHECK", "ENTRYPOINT", "CMD"}
    assert {one[0] for one in INSTRUCTIONS} <= known
    assert INSTRUCTIONS[-1][0] == "CMD"
    users = [one[1] for one in INSTRUCTIONS if one[0] == "USER"]
    assert users == ["rollq"]  # not root


def test_what_is_copied_is_there() -> None:
    for name, words in INSTRUCTIONS:
        if name == "COPY" and "--from" not in words:
            for source in words.split()[:-1]:
                assert (ROOT / source).exists(), source


def test_the_build_has_the_files_that_it_reads() -> None:
    built = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    copied = next(words.split() for name, words in INSTRUCTIONS if name == "COPY")
    assert built["project"]["readme"] in copied
    assert set(built["project"]["license-files"]) <= set(copied)
    assert "custom" in built["tool"]["hatch"]["build"]["hooks"]
    assert "hatch_build.py" in copied  # the hook


def test_the_wheel_has_the_name_that_is_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    name = f"{project['name']}-{rollq.__version__}-py3-none-any.whl"
    (pattern,) = re.findall(r"/wheels/(\S+)", CONTAINERFILE.split("pip install --no-cache-dir ")[2])
    assert Path(name).match(pattern)
    assert project["requires-python"] == ">=3.11"
    assert "python:3.11-slim" in CONTAINERFILE


def test_commands_are_what_rollq_takes() -> None:
    found = [
        words for words in lists_in(CONTAINERFILE) if words and words[0] in ("rollq", "leader")
    ]
    assert len(found) == 3
    for words in found:
        if words != ["rollq"]:
            command_of(words[1:] if words[0] == "rollq" else words)
    composed = [words for words in lists_in(COMPOSE) if words and words[0] in ("--config", "CMD")]
    assert len(composed) == 3
    for words in composed:
        command_of(words[2:] if words[0] == "CMD" else words)


def test_what_compose_mounts_is_made_by_init(tmp_path: Path) -> None:
    (line,) = re.findall(r"#   (rollq init .*)", COMPOSE)
    words = shlex.split(line)
    run = subprocess.run(
        [sys.executable, "-m", *words], cwd=tmp_path, check=True, capture_output=True
    )
    assert run.returncode == 0
    for source in re.findall(r'"\.\./(cluster/[^:]*):', COMPOSE):
        assert (tmp_path / source).is_dir(), source


@pytest.mark.parametrize(
    "words",
    [["leader", "5000"], ["worker", "h", "1", "--app", "json"]],
    ids=["leader", "worker"],
)
def test_a_system_that_lacks_posix_is_told_so(tmp_path: Path, words: list[str]) -> None:
    code = (
        "import sys; sys.modules['fcntl'] = None; sys.argv = ['rollq', *sys.argv[1:]];"
        "from rollq.cli.main import main; main()"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 2
    assert "POSIX" in run.stderr
    assert "Traceback" not in run.stderr

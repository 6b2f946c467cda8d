"""Every command has a page, and its page is true."""

from __future__ import annotations

import re
import runpy
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from rollq.cli.main import app

DOCS = Path(__file__).resolve().parents[3] / "docs"
ALL_PAGES = sorted([*DOCS.parent.glob("*.md"), *DOCS.rglob("*.md")])
BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHELLS = {"", "sh", "bash", "console"}
QUOTED = re.compile(r"`rollq ([a-z]\w*)([^`…]*)`")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
# Up to a pipe, a redirection or the end; these mean nothing within quotes, and a backslash before
# the end goes on with the next line.
COMMAND = re.compile(
    r"""^(?:\$ )?(rollq (?:'[^'\n]*'|"[^"\n]*"|\\\n|[^|&<>'"\n])*)""", re.MULTILINE
)
PAGES: dict[str, str] = runpy.run_path(str(DOCS / "make_cli.py"))["pages"]()


def page(name: str) -> str:
    return (DOCS / "cli" / f"{name}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_ends_with_what_the_command_says_of_itself(name: str) -> None:
    text = page(name)
    assert text.startswith(f"# rollq {name}\n")
    assert text.endswith(PAGES[name]), "run: python docs/make_cli.py"
    by_hand = text.removesuffix(PAGES[name])
    assert f"rollq {name}" in by_hand.partition("```")[2], "show an example"


def test_there_is_no_page_of_a_command_that_is_gone() -> None:
    known = {path.stem for path in (DOCS / "cli").glob("*.md")} - {"README"}
    assert known == set(PAGES)


@pytest.mark.parametrize("text", ALL_PAGES, ids=lambda path: path.stem)
def test_commands_in_the_docs_can_be_parsed(text: Path) -> None:
    root = typer.main.get_command(app)
    blocks = BLOCK.findall(text.read_text(encoding="utf-8"))
    shown = "\n".join(block for language, block in blocks if language in SHELLS)
    for line in COMMAND.findall(shown):
        if "[" in line or "…" in line:
            continue  # a usage line
        check_parses(root, shlex.split(line.replace("\\\n", " "))[1:])


@pytest.mark.parametrize("text", ALL_PAGES, ids=lambda path: path.stem)
def test_commands_and_options_in_sentences_exist(text: Path) -> None:
    root: Any = typer.main.get_command(app)
    for first, rest in QUOTED.findall(text.read_text(encoding="utf-8")):
        command = root.commands.get(first)
        assert command is not None, f"no command rollq {first}"
        words = rest.split()
        for name in words[0].split("|") if hasattr(command, "commands") and words else ():
            if name[0].islower():
                assert name in command.commands, f"no command rollq {first} {name}"
        if words and not hasattr(command, "commands"):
            known = {
                option for one in command.params for option in (*one.opts, *one.secondary_opts)
            }
            named = {option for option in OPTION.findall(rest) if option != "--help"}
            assert named <= known, f"rollq {first} has no {named - known}"


def check_parses(command: object, words: list[str]) -> None:
    """Parse a command line down to its last command, without running it."""
    make: Callable[..., object] = getattr(command, "make_context")  # noqa: B009 - two kinds of click
    children = getattr(command, "commands", {})
    if children and words and words[0] in children:
        check_parses(children[words[0]], words[1:])
        return
    assert not children or not words or words[0].startswith("-"), f"no command {words}"
    if not children:
        make("rollq", list(words), resilient_parsing=False)

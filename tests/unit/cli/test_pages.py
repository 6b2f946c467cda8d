"""Every command has a page, and its page is true."""

from __future__ import annotations

import re
import runpy
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from rollq.cli.main import app

DOCS = Path(__file__).resolve().parents[3] / "docs"
COMMAND = re.compile(r"^(?:\$ )?(rollq [^|&>\n]*)", re.MULTILINE)
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


@pytest.mark.parametrize(
    "text",
    [*sorted((DOCS / "cli").glob("*.md")), DOCS / "operations.md", DOCS.parent / "README.md"],
    ids=lambda path: path.stem,
)
def test_commands_in_the_docs_can_be_parsed(text: Path) -> None:
    root = typer.main.get_command(app)
    shown = "\n".join(re.findall(r"^```\n(.*?)^```", text.read_text(), re.MULTILINE | re.DOTALL))
    for line in COMMAND.findall(shown):
        if "[" in line or "…" in line:
            continue  # a usage line
        check_parses(root, shlex.split(line)[1:])


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

"""The tutorials are true: a shell is given every command in them, and prints what they show."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.console import matches, run_page, steps_of

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("tutorial.md", "tutorial.ja.md")


def text_of(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def test_every_command_prints_what_the_tutorial_shows(tmp_path: Path) -> None:
    """Of one page: the others show the same commands (below)."""
    run_page(text_of(PAGES[0]), tmp_path)


def test_the_tutorials_show_the_same_commands_in_every_language() -> None:
    first, *others = [list(steps_of(text_of(page))) for page in PAGES]
    assert first
    assert all(steps == first for steps in others)


@pytest.mark.parametrize(
    ("shown", "printed", "expected"),
    [
        (["a", "b"], ["a", "b"], True),
        (["a"], ["a", "b"], False),
        (["a", "…", "d"], ["a", "b", "c", "d"], True),
        (["a", "…", "d"], ["a", "d"], True),
        (["a", "…", "d"], ["a", "b", "c"], False),
        (["id …, 3 slots"], ["id 17, 3 slots"], True),
        (["id …, 3 slots"], ["id 17, 4 slots"], False),
    ],
)
def test_what_is_printed_is_compared_line_by_line(
    shown: list[str], printed: list[str], expected: bool
) -> None:
    assert matches(tuple(shown), printed) is expected

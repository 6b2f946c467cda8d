"""The how-to pages are true: their files are written, their commands typed, and what comes is what
they show. Those in Japanese show the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.console import run_page, steps_of

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(page for page in (DOCS / "howto").glob("*.md") if not page.stem.endswith(".ja"))


@pytest.mark.parametrize("page", [*PAGES, DOCS / "release.md"], ids=lambda page: page.stem)
def test_what_the_page_shows_is_what_comes(page: Path, tmp_path: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert list(steps_of(text)), "there is something to type"
    run_page(text, tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_page_in_japanese_shows_the_same(page: Path) -> None:
    translated = page.with_suffix(".ja.md")
    shown = [list(steps_of(one.read_text(encoding="utf-8"))) for one in (page, translated)]
    assert shown[0] == shown[1]

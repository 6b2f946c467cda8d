"""The documents are true: links lead somewhere, commands exist, named files are there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tidy.source import ROOT, documents

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+\s+(.*?)\s*$", re.MULTILINE)
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
MAKE_COMMAND = re.compile(r"^(?:\$ )?make((?:[ \t]+\S+)+)$", re.MULTILINE)
MAKE_QUOTED = re.compile(r"`make((?:[ \t]+[^\s`]+)+)`")
RUN_MODULE = re.compile(r"python -m ((?:rollq|bench|tests)[\w.]*)")
NAMED_PATH = re.compile(r"`((?:src|tests|docs|bench)/[\w./-]+)`")

PAGES = list(documents())
TARGETS = frozenset(
    re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
)


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_links_lead_somewhere(page: Path) -> None:
    dead = [link for link in links(page) if not leads_somewhere(page, link)]
    assert not dead, f"{shown(page)}: dead links: {dead}"


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_make_commands_exist(page: Path) -> None:
    unknown = [
        word for word in make_targets(page.read_text(encoding="utf-8")) if word not in TARGETS
    ]
    assert not unknown, f"{shown(page)}: no such target in the Makefile: {unknown}"


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_modules_that_are_run_exist(page: Path) -> None:
    for name in RUN_MODULE.findall(page.read_text(encoding="utf-8")):
        place = name.replace(".", "/")
        base = ROOT / "src" if name.startswith("rollq") else ROOT
        found = (base / f"{place}.py").exists() or (base / place / "__main__.py").exists()
        assert found, f"{shown(page)}: python -m {name} has nothing to run"


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_named_files_are_there(page: Path) -> None:
    gone = [
        name
        for name in NAMED_PATH.findall(page.read_text(encoding="utf-8"))
        if not (ROOT / name).exists()
    ]
    assert not gone, f"{shown(page)}: names files that are not there: {gone}"


def test_the_readme_shows_commands_and_the_makefile_explains_its_own() -> None:
    readme = list(make_targets((ROOT / "README.md").read_text(encoding="utf-8")))
    assert "test" in readme
    assert {"test", "check", "sim", "sim-mutants", "bench-core", "coverage", "clean"} <= TARGETS


def test_continuous_integration_runs_what_people_run() -> None:
    script = ROOT / ".ci/run"
    assert script.stat().st_mode & 0o111, ".ci/run must be executable"
    lines = script.read_text(encoding="utf-8").splitlines()
    assert lines[1] == "set -euo pipefail"
    assert [line.split()[-1] for line in lines[2:] if line] == ["test"]


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached: dict[Path, None] = {}
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached or page.suffix != ".md" or not page.exists():
            continue
        reached[page] = None
        waiting.extend((page.parent / link.split("#")[0]).resolve() for link in links(page))
    lost = [shown(page) for page in PAGES if page not in reached]
    assert not lost, f"no way leads to: {lost}"


def test_decisions_are_numbered_and_listed() -> None:
    folder = ROOT / "docs/adr"
    index = (folder / "README.md").read_text(encoding="utf-8")
    pages = sorted(path.name for path in folder.glob("[0-9]*.md"))
    assert [int(name[:4]) for name in pages] == list(range(len(pages)))
    for name in pages:
        title = (folder / name).read_text(encoding="utf-8").splitlines()[0]
        assert f"]({name})" in index, f"docs/adr/README.md does not list {name}"
        assert title.startswith(f"# {name[:4]}: "), f"{name}: title must begin with its number"


def links(page: Path) -> Iterator[str]:
    """Links within the repository; those to the world outside are not followed."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for link in LINK.findall(text):
        if "://" not in link and not link.startswith("mailto:"):
            yield link


def leads_somewhere(page: Path, link: str) -> bool:
    name, _, anchor = link.partition("#")
    target = (page.parent / name).resolve() if name else page
    if not target.exists() or not target.is_relative_to(ROOT):
        return False
    return not anchor or anchor in anchors(target)


def anchors(page: Path) -> frozenset[str]:
    """The anchors that a page has, as GitHub makes them of headings."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    return frozenset(
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in HEADING.findall(text)
    )


def make_targets(text: str) -> Iterator[str]:
    """The targets that a page tells people to make."""
    blocks = "\n".join(FENCE.findall(text))
    for words in [*MAKE_COMMAND.findall(blocks), *MAKE_QUOTED.findall(text)]:
        yield from (word for word in words.split() if "=" not in word)


def test_the_readers_of_this_file_do_read() -> None:
    text = "run `make sim SEEDS=3` or\n```\nmake test\nmake no-such\n```\n"
    assert sorted(make_targets(text)) == ["no-such", "sim", "test"]
    assert "no-such" not in TARGETS
    assert "where-to-start-reading" in anchors(ROOT / "docs/architecture.md")
    readme = ROOT / "README.md"
    assert leads_somewhere(readme, "docs/architecture.md#laws")
    assert not leads_somewhere(readme, "docs/architecture.md#no-such-heading")
    assert not leads_somewhere(readme, "docs/no-such-page.md")
    assert not leads_somewhere(readme, "../outside.md")

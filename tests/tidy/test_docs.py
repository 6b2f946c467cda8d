"""The documents are true: links lead somewhere, commands exist, named files and modules are there.
So are the heads of packages, and each names every module of its folder."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from rollq.base.access import Action
from tests.tidy.source import ROOT, Module, documents, modules

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+\s+(.*?)\s*$", re.MULTILINE)
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
MAKE_COMMAND = re.compile(r"^(?:\$ )?make((?:[ \t]+\S+)+)$", re.MULTILINE)
MAKE_QUOTED = re.compile(r"`make((?:[ \t]+[^\s`]+)+)`")
RUN_MODULE = re.compile(r"python -m ((?:rollq|bench|tests)[\w.]*)")
NAMED_PATH = re.compile(r"`((?:src|tests|docs|bench|deploy)/[\w./-]+)`")
CUT_NAME = re.compile(r"`([^`\s]*…[^`\s]*\.(?:py|md))`")
QUOTED = re.compile(r"`([\w./-]+)`")
DOTTED = re.compile(r"[a-z]\w*(?:\.\w+)+")
MEMBER_BEYOND_LOOPBACK = re.compile(r"^.*rollq leader .*--peers (?!127\.)\d.*$", re.MULTILINE)
ADDRESS_FOR_OTHERS = re.compile(r"--advertise |--host (?!0\.0\.0\.0)")
IMPORT_OF_OURS = re.compile(r"^(?:from|import) (rollq[\w.]*)", re.MULTILINE)

PAGES = list(documents())
PACKAGE = ROOT / "src/rollq"
HEADS = [module for module in modules("src") if module.is_package]
FILES = frozenset(
    module.path for folder in ("src", "tests", "bench") for module in modules(folder)
) | {
    path.relative_to(ROOT).as_posix()
    for folder in (".", "docs")
    for path in (ROOT / folder).glob("*.py")
}
NAMES_OF_USERS = {"conftest.py", "mytasks.py", "render.py", "rollq.toml"}  # files of examples
PACKAGES = {head.name.removeprefix("rollq.") for head in HEADS} - {
    "spark"
}  # spark.sql.… is Spark's
PUBLIC_MODULES = {
    "rollq",
    "rollq.spark",
    "rollq.pytest_plugin",
    "rollq.joblib_backend",
    "rollq.airflow",
    "rollq.prefect",
}
RULE = re.compile(r"^([a-z][a-z -]*):", re.MULTILINE)  # a rule may have several targets
TARGETS = frozenset(
    target
    for targets in RULE.findall((ROOT / "Makefile").read_text(encoding="utf-8"))
    for target in targets.split()
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


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_files_are_named_in_full(page: Path) -> None:
    cut = CUT_NAME.findall(page.read_text(encoding="utf-8"))
    assert not cut, f"{shown(page)}: names that are cut lead nowhere, and are not checked: {cut}"


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_named_modules_are_there(page: Path) -> None:
    words = QUOTED.findall(FENCE.sub("", page.read_text(encoding="utf-8")))
    gone = [word for word in words if not may_be_named(word)]
    assert not gone, f"{shown(page)}: names modules that are not there: {gone}"


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_examples_import_what_is_public(page: Path) -> None:
    blocks = "\n".join(FENCE.findall(page.read_text(encoding="utf-8")))
    private = [name for name in IMPORT_OF_OURS.findall(blocks) if name not in PUBLIC_MODULES]
    assert not private, f"{shown(page)}: examples import private modules: {private}"


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_members_of_several_machines_can_be_reached(page: Path) -> None:
    """Without an address they are at 127.0.0.1; without TLS they do not listen elsewhere."""
    for command in MEMBER_BEYOND_LOOPBACK.findall(page.read_text(encoding="utf-8")):
        assert ADDRESS_FOR_OTHERS.search(command), f"{shown(page)}: {command}"
        assert "--credentials" in command or "--unsafe-no-auth" in command, command


@pytest.mark.parametrize("head", HEADS, ids=lambda head: head.name)
def test_package_heads_name_every_module(head: Module) -> None:
    text = ast.get_docstring(head.tree) or ""
    drawn = "\n".join(line for line in text.splitlines() if line.startswith("    "))  # as a diagram
    named = {*QUOTED.findall(text), *re.findall(r"\w+", drawn)}
    silent = [name for name in inside(head) if name not in named]
    assert not silent, f"{head.path}: its docstring does not name {silent}"


@pytest.mark.parametrize("head", HEADS, ids=lambda head: head.name)
def test_package_heads_name_nothing_that_is_gone(head: Module) -> None:
    text = ast.get_docstring(head.tree) or ""
    words = {*QUOTED.findall(text), *DOTTED.findall(text)}
    gone = [word for word in sorted(words) if not is_known_in(head, word)]
    assert not gone, f"{head.path}: names what is not there: {gone}"


def test_the_glossary_has_words_that_are_used_in_order_and_once() -> None:
    page = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    words = [word.lower() for word in re.findall(r"^\| \*\*([^*]+)\*\*", page, re.MULTILINE)]
    assert words == sorted(set(words))
    text = "\n".join(module.text for module in modules("src")).lower().replace("_", " ")
    unused = [word for word in words if not re.search(rf"\b{word}|{word.replace(' ', '')}", text)]
    assert not unused, f"docs/glossary.md explains words that the code does not use: {unused}"


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
    # A number is taken when a decision is begun: several are under way at once.
    assert len({int(name[:4]) for name in pages}) == len(pages), "a number has two decisions"
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


def inside(head: Module) -> list[str]:
    """The modules and packages in the folder of a package; of `cli`, those that are no command."""
    folder = (ROOT / head.path).parent
    below = [
        *(path for path in folder.glob("*.py") if not path.stem.startswith("__")),
        *(path.parent for path in folder.glob("*/__init__.py")),
    ]
    if head.name == "rollq.cli":
        below = [path for path in below if '"""`rollq ' not in path.read_text(encoding="utf-8")]
    return sorted(path.stem for path in below)


def may_be_named(word: str) -> bool:
    """Whether a quoted word of a page is no file or module of ours, or one that is there."""
    if word in NAMES_OF_USERS:
        return True
    if word.endswith(".py"):
        return any(file == word or file.endswith(f"/{word}") for file in FILES)
    if DOTTED.fullmatch(word) and word not in {action.value for action in Action}:
        first, *rest = word.split(".")
        if first == "rollq":
            return leads_to(PACKAGE, rest)
        return first not in PACKAGES or leads_to(PACKAGE, [first, *rest])
    if "/" in word and "." not in word:
        return word.split("/", maxsplit=1)[0] not in PACKAGES or (PACKAGE / word).is_dir()
    return True


def is_known_in(head: Module, word: str) -> bool:
    """Whether a word of a package's docstring is there: in its folder, in `rollq`, in the tree."""
    if "/" in word:
        return (ROOT / word).exists()
    if word.endswith(".py"):
        return may_be_named(word)
    if not re.fullmatch(r"[a-z][\w.]*", word):
        return True
    parts = word.removeprefix("rollq.").split(".")
    folder = (ROOT / head.path).parent
    return any(leads_to(place, parts) for place in (folder, PACKAGE)) or any(
        defines(file, word) for file in folder.glob("*.py")
    )


def leads_to(folder: Path, parts: list[str]) -> bool:
    """Whether dotted parts lead from a folder to a module, or to a name that it defines."""
    for number, part in enumerate(parts):
        if (folder / f"{part}.py").exists():
            rest = parts[number + 1 :]
            return not rest or defines(folder / f"{part}.py", rest[0])
        if not (folder / part / "__init__.py").exists():
            return defines(folder / "__init__.py", part)
        folder /= part
    return True


def defines(file: Path, name: str) -> bool:
    """Whether a module defines a name, or has it in its list of public ones."""
    found = rf'(?:def|class) {name}\b|^\s*(?:self\.)?{name}\b[^()]*=|^\s+"{name}"'
    return re.search(found, file.read_text(encoding="utf-8"), re.MULTILINE) is not None


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
    there = ("rollq.wire.registry", "wire/registry.py", "hacking.md", "history.read", "rollq.task")
    assert all(map(may_be_named, (*there, "store.disk.Disk", "spark.sql.x", "roles/member/")))
    gone = ("rollq.wire.bounds", "wire/bounds.py", "wire/bounds", "gone.py", "rollq.MapRun")
    assert not any(map(may_be_named, (*gone, "store.disk.Tape")))

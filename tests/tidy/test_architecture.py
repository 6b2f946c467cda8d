"""The house rules, held against every file of the repository.

If one of these fails, change the code, not the rule. A rule that is wrong is changed in
`table.py` or `rules.py` together with docs/architecture.md, and the change says why.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import chain

import pytest

from rollq.cli.tree import MODULES
from tests.tidy import rules, sets, table
from tests.tidy.source import ROOT, Module, all_modules, documents, imports, modules

Rule = Callable[[Module], Iterator[str]]

KNOWN = frozenset(module.name for module in all_modules())
TEXT_FILES = ("Makefile", "pyproject.toml", ".ci/run")


def complain(broken: Iterator[str]) -> None:
    """Fail with every violation, one a line."""
    found = list(dict.fromkeys(broken))
    assert not found, "\n" + "\n".join(found)


def over_sources(rule: Rule) -> Iterator[str]:
    return chain.from_iterable(map(rule, modules("src")))


def over_all_code(rule: Rule) -> Iterator[str]:
    return chain.from_iterable(map(rule, all_modules()))


def test_there_is_something_to_look_at() -> None:
    assert {"rollq", "rollq.base.errors", "rollq.subjects.trie", "tests.tidy.source"} <= KNOWN


def test_imports_go_down() -> None:
    complain(over_sources(lambda module: rules.import_direction(module, KNOWN)))


def test_the_core_is_pure() -> None:
    pure = rules.pure_set(modules("src"), KNOWN)
    assert {"rollq.grid.commands", "rollq.raft.types", "rollq.subjects.trie"} <= pure
    complain(over_sources(lambda one: rules.purity(one, KNOWN) if one.name in pure else iter(())))


def test_the_grid_is_deterministic() -> None:
    complain(over_sources(rules.determinism))


def test_the_grid_walks_no_set() -> None:
    grid = [module for module in modules("src") if module.name.startswith("rollq.grid")]
    complain(chain.from_iterable(map(sets.set_iterations, grid)))


@pytest.mark.parametrize("rule", [rules.docstring, rules.prints, rules.idle_coroutines])
def test_manners_of_the_sources(rule: Rule) -> None:
    complain(over_sources(rule))


@pytest.mark.parametrize("rule", [rules.file_length, rules.function_length])
def test_files_and_functions_are_short(rule: Rule) -> None:
    complain(over_all_code(rule))


@pytest.mark.parametrize("rule", [rules.leftovers, rules.machine_paths])
def test_texts_are_finished_and_belong_to_no_machine(
    rule: Callable[[str, str], Iterator[str]],
) -> None:
    texts = {module.path: module.text for module in all_modules()}
    for path in [*documents(), *(ROOT / name for name in TEXT_FILES)]:
        texts[path.relative_to(ROOT).as_posix()] = path.read_text(encoding="utf-8")
    del texts["tests/tidy/test_rules.py"]  # it holds the bad examples
    complain(chain.from_iterable(rule(path, text) for path, text in texts.items()))


def test_every_module_is_used() -> None:
    used = {
        target
        for module in all_modules()
        for _, target in imports(module, KNOWN)
        if target != module.name
    }
    used.update(re.findall(r"-m (rollq[\w.]*)", (ROOT / "Makefile").read_text(encoding="utf-8")))
    used.update(f"rollq.cli.{name}" for name in MODULES.values())
    used.update(f"{name}.__main__" for name in tuple(used))  # a package that is run
    complain(
        f"{module.path}: imported by nothing"
        for module in modules("src")
        if not module.is_package and module.name not in used
    )


def test_every_package_has_a_row() -> None:
    complain(
        f"{module.path}: no row for it in tests/tidy/table.py"
        for module in modules("src")
        if rules.inner_name(module) and not table.row_of(rules.inner_name(module))
    )


def test_the_docs_show_the_table() -> None:
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    assert table.as_markdown() in page, f"docs/architecture.md must show:\n{table.as_markdown()}"

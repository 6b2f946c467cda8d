"""Reads the tree for the tidy tests: every Python file, parsed once."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CODE_FOLDERS = ("src", "tests", "bench")


@dataclass(frozen=True)
class Module:
    """One Python file: its dotted name, its place in the repository, its text."""

    name: str
    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The parsed file."""
        return ast.parse(self.text, self.path)

    @property
    def is_package(self) -> bool:
        """Whether this is the `__init__` of a package."""
        return self.path.endswith("__init__.py")

    def at(self, node: ast.AST) -> str:
        """Where a node is, in the form that editors can jump to."""
        return f"{self.path}:{getattr(node, 'lineno', 1)}"


@cache
def modules(folder: str) -> tuple[Module, ...]:
    """Every module below a top folder (`src`, `tests` or `bench`), sorted by path."""
    base = ROOT / folder
    names_from = base if folder == "src" else ROOT
    return tuple(
        Module(
            name=dotted(path.relative_to(names_from)),
            path=path.relative_to(ROOT).as_posix(),
            text=path.read_text(encoding="utf-8"),
        )
        for path in sorted(base.rglob("*.py"))
    )


def all_modules() -> Iterator[Module]:
    """Every module of the repository."""
    for folder in CODE_FOLDERS:
        yield from modules(folder)


def dotted(path: Path) -> str:
    """The import name of a file, given relative to where imports start."""
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def documents() -> Iterator[Path]:
    """Every Markdown page of the repository."""
    yield from sorted(ROOT.glob("*.md"))
    yield from sorted((ROOT / "docs").rglob("*.md"))


def imports(module: Module, known: frozenset[str]) -> Iterator[tuple[ast.stmt, str]]:
    """Every import of a module, as the most exact module name that `known` holds.

    `from rollq.wire import frame` is an import of `rollq.wire.frame` if there is such a module
    and of `rollq.wire` otherwise. Imports inside functions and `if TYPE_CHECKING` count too.
    """
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = _import_base(module, node)
            for alias in node.names:
                full = f"{base}.{alias.name}"
                yield node, full if full in known else base


def _import_base(module: Module, node: ast.ImportFrom) -> str:
    if node.level == 0:
        return node.module or ""
    package = module.name.split(".")
    # In a package's __init__ one dot is the package itself.
    drop = node.level - (1 if module.is_package else 0)
    kept = package[: len(package) - drop]
    return ".".join([*kept, node.module] if node.module else kept)

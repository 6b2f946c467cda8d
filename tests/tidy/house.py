"""Figures of the house: `make house`, or `python -m tests.tidy.house [--list KEY]`.

How large it is, and what tends to get worse when nobody looks. Nothing here fails: a figure has no
right value, but whoever doubles one should know it. `--list` names the places behind a figure.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Final

from rollq import Client
from tests.tidy.source import Module, modules
from tests.tidy.walk import Walk, walk

POSITIONAL_MAX: Final = 4
TYPE_IGNORE: Final = re.compile(r"#\s*type:\s*ignore")

# The places behind each figure that can be counted by reading.
Finder = Callable[[], Iterator[str]]


def main() -> int:
    """Print the tables, or the places behind one figure."""
    parser = argparse.ArgumentParser(prog="python -m tests.tidy.house", description=__doc__)
    parser.add_argument("--list", choices=[*FINDERS, "walk"], help="the places behind a figure")
    options = parser.parse_args()
    if options.list == "walk":
        print("\n".join(f"{file}: {name}" for file, name in sorted(walk().functions)))
    elif options.list:
        print("\n".join(FINDERS[options.list]()))
    else:
        print_sizes()
        print_figures(walk())
    return 0


def print_sizes() -> None:
    """Lines and files a package."""
    lines: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for module in modules("src"):
        for package in ("all of src", package_of(module)):
            lines[package] += module.text.count("\n")
            files[package] += 1
    for folder in ("tests", "bench"):
        lines[f"all of {folder}"] = sum(one.text.count("\n") for one in modules(folder))
        files[f"all of {folder}"] = len(modules(folder))
    print(f"{'package':<28}{'lines':>9}{'files':>8}")
    for package in sorted(lines, key=lambda one: (not one.startswith("all"), one)):
        print(f"{package:<28}{lines[package]:>9,}{files[package]:>8,}")


def print_figures(one_job: Walk) -> None:
    """Everything that is one number."""
    figures = {key: sum(1 for _ in finder()) for key, finder in FINDERS.items()}
    print(f"\n{'figure':<28}{'count':>9}")
    for key, count in figures.items():
        print(f"{key:<28}{count:>9,}")
    print(f"{'walk: files':<28}{len(one_job.files):>9,}")
    print(f"{'walk: functions':<28}{len(one_job.functions):>9,}")
    print(f"{'walk: calls':<28}{one_job.calls:>9,}")
    print(f"{'walk: changes of file':<28}{one_job.file_changes:>9,}")


def package_of(module: Module) -> str:
    """`roles.client` for what is in a role, else the package below rollq."""
    parts = module.name.split(".")[1:]
    if not parts or (len(parts) == 1 and not module.is_package):
        return "rollq itself"
    is_deep = parts[0] == "roles" and (len(parts) > 2 or module.is_package)
    return ".".join(parts[: 2 if is_deep else 1])


# --- finders


def public_names() -> Iterator[str]:
    """What completion offers on a `Client`."""
    yield from (name for name in dir(Client) if not name.startswith("_"))


def exit_codes() -> Iterator[str]:
    """Classes with a field `exit_code`: each a place where the end of a job is written again."""
    for module, node in classes():
        for field in node.body:
            if isinstance(field, ast.AnnAssign) and ast.unparse(field.target) == "exit_code":
                yield f"{module.at(node)}: {node.name}"


def ambiguous_names(group_of: Callable[[Module], str]) -> Iterator[str]:
    """Class names that mean something in more than one place."""
    places: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for module, node in classes():
        if not node.name.startswith("_"):
            places[node.name][group_of(module)] = module.at(node)
    for name, found in sorted(places.items()):
        if len(found) > 1:
            yield f"{name}: {', '.join(found.values())}"


def long_calls() -> Iterator[str]:
    """Calls with more positional arguments than anybody can count at a glance."""
    for module in modules("src"):
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and len(node.args) > POSITIONAL_MAX:
                yield f"{module.at(node)}: {len(node.args)} to {ast.unparse(node.func)}"


def type_ignores() -> Iterator[str]:
    """Where the type checker was told to look away."""
    for module in modules("src"):
        for number, line in enumerate(module.text.splitlines(), 1):
            if TYPE_IGNORE.search(line):
                yield f"{module.path}:{number}: {line.strip()}"


def comments(package: str) -> Iterator[str]:
    """Comments of a package, of their own or behind code."""
    for module in modules("src"):
        if package_of(module) == package:
            for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
                if token.type == tokenize.COMMENT:
                    yield f"{module.path}:{token.start[0]}: {token.string}"


def patched_constants() -> Iterator[str]:
    """Tests that set a constant of a module by its path: moving the constant breaks them."""
    for module in modules("tests"):
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if node.func.attr in ("setattr", "object"):
                texts = [one.value for one in node.args[:2] if isinstance(one, ast.Constant)]
                name = texts[0].rpartition(".")[2] if texts and isinstance(texts[0], str) else ""
                if name.isupper():
                    yield f"{module.at(node)}: {name}"


def classes() -> Iterator[tuple[Module, ast.ClassDef]]:
    """Every class of the package."""
    for module in modules("src"):
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                yield module, node


FINDERS: Final[dict[str, Finder]] = {
    "names-on-client": public_names,
    "exit-code-fields": exit_codes,
    "class-names-in-modules": lambda: ambiguous_names(lambda module: module.name),
    "class-names-in-packages": lambda: ambiguous_names(package_of),
    "long-calls": long_calls,
    "type-ignores": type_ignores,
    "comments-in-policy": lambda: comments("policy"),
    "comments-in-grid": lambda: comments("grid"),
    "patched-constants": patched_constants,
}


if __name__ == "__main__":
    raise SystemExit(main())

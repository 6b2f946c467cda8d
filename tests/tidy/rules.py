"""The house rules. Each takes a module and yields what breaks the rule, with place and remedy."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator

from tests.tidy import table
from tests.tidy.source import Module, imports

# A file of one noun that needs a little more beats two fragments that must be read together.
FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70

# Written so that this file does not break its own rule.
LEFTOVERS = re.compile(r"\b(" + "|".join(("FIX" + "ME", "TO" + "DO", "X" + "XX")) + r")\b")
MACHINE_PATHS = re.compile(
    r"(?<![\w./~-])/(home|root|work|opt|mnt|tmp|Users|private)/\w" r"|\b[A-Z]:\\\\?\w"
)

Function = ast.FunctionDef | ast.AsyncFunctionDef


def inner_name(module: Module) -> str:
    """The name of a module without the leading `rollq.`"""
    return module.name.removeprefix("rollq").removeprefix(".")


def import_direction(module: Module, known: frozenset[str]) -> Iterator[str]:
    """Arrows only downward, as the table says."""
    inner = inner_name(module)
    row = table.row_of(inner)
    allowed = table.MAY_IMPORT[row]
    for node, target in imports(module, known):
        if target.split(".")[0] != "rollq":
            continue
        wanted = target.removeprefix("rollq").removeprefix(".")
        within_itself = bool(row) and table.row_of(wanted) == row
        if not within_itself and not table.is_within(wanted, allowed):
            yield f"{module.at(node)}: {row or 'rollq'} may not import {target}"


def pure_set(sources: Iterable[Module], known: frozenset[str]) -> frozenset[str]:
    """The modules that are named as pure, and all that they import, directly or not."""
    by_name = {module.name: module for module in sources}
    waiting = [module for module in by_name.values() if table.is_pure(inner_name(module))]
    pure = {module.name for module in waiting}
    while waiting:
        for _, target in imports(waiting.pop(), known):
            if target in by_name and target not in pure:
                pure.add(target)
                waiting.append(by_name[target])
    return frozenset(pure)


def purity(module: Module, known: frozenset[str]) -> Iterator[str]:
    """Pure code does no IO, reads no clock and no chance, and needs msgspec alone."""
    inner = inner_name(module)
    needs = table.CORE_NEEDS.get(inner.split(".")[0], table.CORE_NEEDS[""])
    for node, target in imports(module, known):
        top = target.split(".")[0]
        if top in table.IMPURE_IMPORTS:
            yield f"{module.at(node)}: pure code may not import {top}; hand the value in"
        elif top not in sys.stdlib_module_names and top not in needs | {"rollq"}:
            yield f"{module.at(node)}: the core does not depend on {top}"
    for call, name in _calls(module):
        if name in table.IMPURE_CALLS:
            yield f"{module.at(call)}: pure code may not call {name}()"


def determinism(module: Module) -> Iterator[str]:
    """In grid, nothing may depend on the process: no hash, no id, no floats."""
    if not table.is_within(inner_name(module), ("grid",)):
        return
    for call, name in _calls(module):
        if name in ("hash", "id", "float"):
            yield f"{module.at(call)}: grid may not call {name}()"
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, float | complex):
            yield f"{module.at(node)}: grid has no floats; count in whole units"
        elif isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Div):
            yield f"{module.at(node)}: grid divides with //"


def file_length(module: Module) -> Iterator[str]:
    """A file has one noun."""
    lines = module.text.count("\n")
    if lines > FILE_LINES_MAX:
        yield f"{module.path}: {lines} lines; split it by noun (at most {FILE_LINES_MAX})"


def function_length(module: Module) -> Iterator[str]:
    """A function fits on a screen."""
    for function in _functions(module):
        lines = (function.end_lineno or function.lineno) - function.lineno + 1
        if lines > FUNCTION_LINES_MAX:
            yield f"{module.at(function)}: {function.name} has {lines} lines, more than 70"


def docstring(module: Module) -> Iterator[str]:
    """A module says first what lives in it."""
    if not (ast.get_docstring(module.tree) or "").strip():
        yield f"{module.path}: no docstring; say what lives here and what may not"


def leftovers(path: str, text: str) -> Iterator[str]:
    """Unfinished work is finished or taken out."""
    for number, line in enumerate(text.splitlines(), 1):
        if found := LEFTOVERS.search(line):
            yield f"{path}:{number}: {found[0]} left behind"


# Legacy defaults, as machines of the first system have them; used only where they are.
LEGACY_PLACES = ("src/rollq/cli/places.py", "docs/worker.md")


def machine_paths(path: str, text: str) -> Iterator[str]:
    """Nothing depends on the machine it was written on."""
    if path in LEGACY_PLACES:
        return
    for number, line in enumerate(text.splitlines(), 1):
        if found := MACHINE_PATHS.search(line):
            yield f"{path}:{number}: path of one machine: {found[0]}"


def idle_coroutines(module: Module) -> Iterator[str]:
    """A coroutine waits for something; otherwise it is a function."""
    for function in _functions(module):
        if isinstance(function, ast.AsyncFunctionDef) and not (
            _is_declaration(function) or _waits(function)
        ):
            yield f"{module.at(function)}: {function.name} never waits; drop the async"


def prints(module: Module) -> Iterator[str]:
    """Only the command line and the test kit write to the terminal."""
    if not table.is_within(inner_name(module), table.MAY_PRINT):
        for call, name in _calls(module):
            if name == "print":
                yield f"{module.at(call)}: print() outside cli and testing"


def _calls(module: Module) -> Iterator[tuple[ast.Call, str]]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node, node.func.id


def _functions(module: Module) -> Iterator[Function]:
    for node in ast.walk(module.tree):
        if isinstance(node, Function):
            yield node


def _is_declaration(function: Function) -> bool:
    """Whether the body is only a docstring or an ellipsis, as in a protocol."""
    return all(
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        for node in function.body
    )


def _waits(function: Function) -> bool:
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Await | ast.AsyncFor | ast.AsyncWith):
            return True
        if isinstance(node, ast.comprehension) and node.is_async:
            return True
        if not isinstance(node, Function | ast.Lambda | ast.ClassDef):
            waiting.extend(ast.iter_child_nodes(node))
    return False

"""Finds the iteration over sets, whose order differs from process to process.

A heuristic that errs on the safe side: an expression counts as a set if it is written as one, if
it combines sets, or if it is a name that this module gives a set (names of variables count inside
their function, names of attributes in the whole file). Use a dict, or `sorted`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.tidy.source import Module

SET_TYPES = frozenset(("set", "frozenset", "AbstractSet", "MutableSet"))
SET_METHODS = frozenset(("union", "intersection", "difference", "symmetric_difference"))
# Calls whose result depends on the order in which their arguments are walked.
ORDERED_CALLS = frozenset(
    (
        *("dict", "enumerate", "filter", "iter", "list", "map", "next", "reversed", "tuple", "zip"),
        *("extend", "fromkeys", "join"),
    )
)
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def set_iterations(module: Module) -> Iterator[str]:
    """Every place in a module that walks a set in its own order."""
    attributes = _names_of_sets(ast.walk(module.tree), attributes=True)
    for scope in [module.tree, *_scopes(module.tree)]:
        nodes = list(_own_nodes(scope))
        finder = _Finder(attributes | _names_of_sets(nodes, attributes=False))
        for node in nodes:
            for walked in finder.walked_sets(node):
                yield f"{module.at(walked)}: the order of a set; use a dict or sorted()"


class _Finder:
    """Knows the names of sets in one scope."""

    def __init__(self, names: frozenset[str]) -> None:
        self.names = names

    def walked_sets(self, node: ast.AST) -> Iterator[ast.expr]:
        """The sets that this node walks, not looking into its children."""
        for walked in _walked(node):
            if self.is_set(walked):
                yield walked

    def is_set(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Set | ast.SetComp):
            return True
        if isinstance(node, ast.Name | ast.Attribute):
            return _last_name(node) in self.names
        if isinstance(node, ast.BinOp):
            return self.is_set(node.left) or self.is_set(node.right)
        if isinstance(node, ast.Call):
            name = _last_name(node.func)
            of_a_set = isinstance(node.func, ast.Attribute) and self.is_set(node.func.value)
            return name in SET_TYPES or (name in SET_METHODS and of_a_set)
        return False


def _walked(node: ast.AST) -> list[ast.expr]:
    """The expressions that a node walks in their own order."""
    if isinstance(node, ast.For | ast.comprehension | ast.YieldFrom):
        return [node.value if isinstance(node, ast.YieldFrom) else node.iter]
    if isinstance(node, ast.Starred):
        return [node.value]
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple | ast.List):
        return [node.value]
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr == "pop" and not node.args:
            return [node.func.value]
        if _last_name(node.func) in ORDERED_CALLS:
            return list(node.args)
    return []


def _names_of_sets(nodes: Iterator[ast.AST] | list[ast.AST], *, attributes: bool) -> frozenset[str]:
    kind = ast.Attribute if attributes else ast.Name
    plain = _Finder(frozenset())
    found: list[ast.expr] = []
    for node in nodes:
        if isinstance(node, ast.AnnAssign) and _is_set_type(node.annotation):
            # A field of a class body is an attribute as well.
            found.append(node.target)
            if attributes and isinstance(node.target, ast.Name):
                found.append(ast.Attribute(node.target, node.target.id, ast.Load()))
        elif isinstance(node, ast.Assign) and plain.is_set(node.value):
            found.extend(node.targets)
        elif isinstance(node, ast.arg) and node.annotation and _is_set_type(node.annotation):
            found.append(ast.Name(node.arg, ast.Load()))
    return frozenset(_last_name(target) for target in found if isinstance(target, kind))


def _is_set_type(annotation: ast.expr) -> bool:
    if isinstance(annotation, ast.BinOp):
        return _is_set_type(annotation.left) or _is_set_type(annotation.right)
    return _last_name(
        annotation.value if isinstance(annotation, ast.Subscript) else annotation
    ) in (SET_TYPES)


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def _scopes(tree: ast.Module) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, SCOPES):
            yield node


def _own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a scope without those of the functions inside it."""
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, SCOPES):
            waiting.extend(ast.iter_child_nodes(node))

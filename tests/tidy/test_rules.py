"""The rules themselves: each must bite on a bad example and leave a good one alone."""

from __future__ import annotations

import pytest

from tests.tidy import rules, sets, table
from tests.tidy.source import Module

KNOWN = frozenset(
    (
        "rollq.base.ids",
        "rollq.wire",
        "rollq.wire.frame",
        "rollq.raft",
        "rollq.raft.types",
        "rollq.raft.node",
        "rollq.grid.state",
        "rollq.testing.sim",
    )
)


def module(name: str, text: str) -> Module:
    return Module(name, f"src/{name.replace('.', '/')}.py", text)


@pytest.mark.parametrize(
    ("name", "text", "broken"),
    [
        ("rollq.base.ids", "import rollq.wire.frame", True),
        ("rollq.wire.frame", "from rollq.base.ids import NIL_ID", False),
        ("rollq.wire.frame", "from rollq.wire import buffer", False),
        ("rollq.wire.frame", "from . import buffer", False),
        ("rollq.wire.frame", "from ..grid import state", True),
        ("rollq.grid.state", "from rollq.wire import frame", True),
        ("rollq.grid.state", "def f():\n    from rollq.raft import types", True),
        ("rollq.grid.state", "from rollq.subjects.trie import Trie", False),
        ("rollq.raft.node", "import rollq.grid.state", True),
        ("rollq.store.wal", "from rollq.raft.types import Entry", False),
        ("rollq.store.wal", "from rollq.raft import types", False),
        ("rollq.store.wal", "from rollq.raft import node", True),
        ("rollq.store.wal", "from rollq.raft.node import RaftNode", True),
        ("rollq.roles.member.driver", "import rollq.raft.node, rollq.store.wal", False),
        ("rollq.roles.member.driver", "import rollq.roles.worker.machine", True),
        ("rollq.roles.member.driver", "import rollq.testing.sim", True),
        ("rollq.testing.sim", "import rollq.roles.member.driver", False),
        ("rollq.grid.state", "import rollq", True),
        ("rollq", "from rollq.grid import state", True),
    ],
)
def test_import_direction(name: str, text: str, broken: bool) -> None:
    assert bool(list(rules.import_direction(module(name, text), KNOWN))) is broken


@pytest.mark.parametrize(
    ("name", "text", "broken"),
    [
        ("rollq.raft.node", "import random", True),
        ("rollq.raft.node", "from datetime import datetime", True),
        ("rollq.raft.node", "def f():\n    import os.path", True),
        ("rollq.raft.node", "import heapq, msgspec", False),
        ("rollq.raft.node", "import numpy", True),
        ("rollq.raft.node", "import zstandard", True),
        ("rollq.wire.compression", "import zstandard", False),
        ("rollq.raft.node", "x = open('f')", True),
        ("rollq.raft.node", "x = self.open('f')", False),
    ],
)
def test_purity(name: str, text: str, broken: bool) -> None:
    assert bool(list(rules.purity(module(name, text), KNOWN))) is broken


def test_the_pure_set_is_what_is_named_and_what_that_imports() -> None:
    sources = [
        module("rollq.base.ids", ""),
        module("rollq.roles.worker.machine", "from rollq.roles import redial"),
        module("rollq.roles.redial", "import rollq.roles.pause"),
        module("rollq.roles.pause", ""),
        module("rollq.roles.worker.node", "import rollq.roles.worker.machine"),
        module("rollq.store.record", ""),
        module("rollq.store.files", "import rollq.store.record"),
        module("rollq.testing.clock", "import rollq.base.ids"),
    ]
    known = frozenset(source.name for source in sources)
    impure = {"rollq.roles.worker.node", "rollq.store.files", "rollq.testing.clock"}
    assert rules.pure_set(sources, known) == known - impure


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ("x = hash(y)", True),
        ("x = id(y)", True),
        ("x = job.id", False),
        ("x = 1.5", True),
        ("x = 10 ** 3", False),
        ("x = a / b", True),
        ("x /= 2", True),
        ("x = a // b", False),
        ("x = float(a)", True),
    ],
)
def test_determinism(text: str, broken: bool) -> None:
    assert bool(list(rules.determinism(module("rollq.grid.state", text)))) is broken
    assert not list(rules.determinism(module("rollq.store.wal", text)))


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ("for x in {1, 2}: pass", True),
        ("for x in set(y): pass", True),
        ("for x in frozenset(y): pass", True),
        ("for x in sorted(set(y)): pass", False),
        ("x = [y for y in {z for z in q}]", True),
        ("x = list(set(y))", True),
        ("x = ','.join({a, b})", True),
        ("x = [*{a, b}]", True),
        ("x = len(set(y))", False),
        ("x = y in {1, 2}", False),
        ("x = {1}\nfor y in x: pass", True),
        ("def f():\n    x = set()\n    for y in x: pass", True),
        ("def f():\n    x = set()\ndef g(x):\n    for y in x: pass", False),
        ("def f(x: set[int]):\n    return tuple(x)", True),
        ("def f(x: frozenset[int] | None):\n    return tuple(x)", True),
        ("class A:\n    x: set[int]\n    def f(self):\n        for y in self.x: pass", True),
        ("class A:\n    def f(self):\n        self.x = set()\n        self.x.pop()", True),
        ("class A:\n    def f(self):\n        self.x = {}\n        self.x.pop('k')", False),
        ("for x in a | {1}: pass", True),
        ("for x in {1}.union(b): pass", True),
        ("for x in {'a': 1}: pass", False),
        ("a, b = {1, 2}", True),
    ],
)
def test_set_iterations(text: str, broken: bool) -> None:
    assert bool(list(sets.set_iterations(module("rollq.grid.state", text)))) is broken


def test_lengths() -> None:
    assert not list(rules.file_length(module("rollq.x", "\n" * 500)))
    assert list(rules.file_length(module("rollq.x", "\n" * 501)))
    body = "    pass\n"
    assert not list(rules.function_length(module("rollq.x", "def f():\n" + body * 69)))
    assert list(rules.function_length(module("rollq.x", "def f():\n" + body * 70)))


@pytest.mark.parametrize(
    ("text", "broken"),
    [("", True), ("x = 1", True), ('"""What lives here."""', False), ('"""  """', True)],
)
def test_docstring(text: str, broken: bool) -> None:
    assert bool(list(rules.docstring(module("rollq.x", text)))) is broken


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ("async def f():\n    return 1", True),
        ("async def f():\n    await g()", False),
        ("async def f():\n    async with g(): pass", False),
        ("async def f():\n    return [x async for x in g()]", False),
        ("async def f():\n    async def g():\n        await h()\n    return g", True),
        ('async def f():\n    """Declared in a protocol."""', False),
        ("async def f(): ...", False),
    ],
)
def test_idle_coroutines(text: str, broken: bool) -> None:
    assert bool(list(rules.idle_coroutines(module("rollq.net.x", text)))) is broken


def test_prints() -> None:
    assert list(rules.prints(module("rollq.roles.member.node", "print(1)")))
    assert not list(rules.prints(module("rollq.testing.sim", "print(1)")))
    assert not list(rules.prints(module("rollq.cli.main", "print(1)")))


@pytest.mark.parametrize(
    ("text", "broken"),
    [("# TODO: later", True), ("x = 1  # FIXME", True), ("XXX", True), ("autodoc, todos", False)],
)
def test_leftovers(text: str, broken: bool) -> None:
    assert bool(list(rules.leftovers("x.py", text))) is broken


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ("open('/home/me/x')", True),
        ("see /root/x", True),
        ("`/tmp/rollq`", True),
        ("C:\\Users", True),
        ("https://example.org/home/page", False),
        ("state/home/x", False),
        ("docs/work/x.md", False),
        ("#!/usr/bin/env bash", False),
    ],
)
def test_machine_paths(text: str, broken: bool) -> None:
    assert bool(list(rules.machine_paths("x.py", text))) is broken


def test_rows_are_known_and_go_one_way() -> None:
    for row, allowed in table.MAY_IMPORT.items():
        for target in allowed:
            assert table.row_of(target), target
            back = table.MAY_IMPORT[table.row_of(target)]
            assert not row or not table.is_within(row, back) or row.startswith(target), (
                row,
                target,
            )

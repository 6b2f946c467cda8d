"""Writes what type checkers and editors read of the blocking clients, from the asyncio ones:
`python docs/make_blocking.py`."""

from __future__ import annotations

import ast
import builtins
import inspect
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from rollq.roles.client.blocking import clients as blocking
from rollq.roles.client.blocking.bridge import BRIDGED, given_for, is_public

PATH = Path(blocking.__file__).with_suffix(".pyi")
HEAD = '"""Made by docs/make_blocking.py: change the asyncio classes instead."""\n\n'
OWN = ("__enter__", "__exit__", "__iter__", "__await__")
ITERATOR = ("collections.abc", "Iterator")


def stub() -> str:
    """The whole file, in the project's layout."""
    body = "\n\n".join(map(_class, BRIDGED))
    text = HEAD + _imports(body) + "\n\n" + body
    return _ruff("format", _ruff("check", text, "--fix", "--select", "I"))


def _ruff(what: str, text: str, *options: str) -> str:
    command = [sys.executable, "-m", "ruff", what, "-q", *options]
    command += ["--stdin-filename", str(PATH), "-"]
    return subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, check=True).stdout


def _class(of: type) -> str:
    made = BRIDGED[of]
    lines = [f"class {made.__name__}:", _indented(f'"""{made.__doc__}"""')]
    if issubclass(made, blocking.Running):
        lines.append(_function(of.__init__))
    seen: set[str] = set()
    for owner in (*made.__mro__, *of.__mro__):
        for name, text in _members(owner):
            if name not in seen:
                seen.add(name)
                lines.append(text)
    return "\n".join(lines)


def _members(owner: type) -> Iterator[tuple[str, str]]:
    """The public members that a class defines itself, by name."""
    if owner.__module__ in ("builtins", "abc", "typing") or owner.__name__ == "Bridge":
        return
    of_asyncio = owner.__module__ != blocking.__name__
    for name, hint in inspect.get_annotations(owner).items():
        if is_public(name):
            yield name, _indented(f"@property\ndef {name}(self) -> {given_for(hint)}: ...")
    for name, member in vars(owner).items():
        if isinstance(member, property) and is_public(name) and of_asyncio:
            yield name, _indented("@property") + "\n" + _function(member.fget)
        if isinstance(member, classmethod) and is_public(name):
            yield name, _indented("@classmethod") + "\n" + _function(member.__func__)
        is_own = is_public(name) or (not of_asyncio and name in OWN)
        if inspect.isfunction(member) and not hasattr(member, "__wrapped__") and is_own:
            yield name, _function(member)


def _function(function: object) -> str:
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body  # type: ignore[arg-type]
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    said = ast.get_docstring(node, clean=False)
    returns = ast.parse(given_for(ast.unparse(node.returns or ast.Constant(None))), mode="eval")
    declared = ast.FunctionDef(
        node.name, node.args, [ast.Expr(ast.Constant(...))], [], returns.body, lineno=0
    )
    head = ast.unparse(declared).removesuffix("\n    ...")
    return _indented(head + ("\n" + textwrap.indent(f'"""{said}"""', "    ") if said else " ..."))


def _indented(text: str) -> str:
    first, _, rest = text.partition("\n")
    return f"    {first}\n{rest}" if '"""' in first else textwrap.indent(text, "    ")


def _imports(body: str) -> str:
    used = {node.id for node in ast.walk(ast.parse(body)) if isinstance(node, ast.Name)}
    used -= {*dir(builtins), *(made.__name__ for made in BRIDGED.values())}
    known = {"Iterator": ITERATOR}
    for module in {
        owner.__module__ for of in (*BRIDGED, *BRIDGED.values()) for owner in of.__mro__
    }:
        if module != "builtins":
            known |= _known(module)
    lines: dict[str, list[str]] = {}
    for name in sorted(used):
        home, original = known[name]
        lines.setdefault(home, []).append(name if name == original else f"{original} as {name}")
    return "\n".join(f"from {home} import {', '.join(names)}" for home, names in lines.items())


def _known(module: str) -> dict[str, tuple[str, str]]:
    """Where the names of a module come from."""
    found: dict[str, tuple[str, str]] = {}
    for node in ast.parse(inspect.getsource(sys.modules[module])).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {one.asname or one.name: (node.module, one.name) for one in node.names}
        elif isinstance(node, ast.ClassDef):
            found[node.name] = (module, node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found[node.target.id] = (module, node.target.id)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = (module, node.targets[0].id)
    return found


if __name__ == "__main__":
    PATH.write_text(stub(), encoding="utf-8")

"""Plays text scenarios: a machine is a world and a table of small command handlers.

A folder of scenarios holds `machine.py`, which says how a fresh world is made and what each
command does and prints, beside its `*.txt` files. A new machine needs its folder and nothing
here. `pytest --rewrite` writes what the commands print now into the files, for review of the
diff; without it a difference fails the test and shows both texts.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rollq.base.errors import RollqError
from tests.scenarios.blocks import Block, ScriptError, parse_blocks, rewrite_text

HERE = Path(__file__).parent
WRONG_NAME = "unknown command {!r}; this machine knows: {}"


@dataclass(slots=True, frozen=True)
class Machine:
    """How to make a world, and the commands that it understands."""

    make_world: Callable[[], Any]
    commands: Mapping[str, Callable[[Any, Block], str]]


def find_machines() -> dict[str, Machine]:
    """Every folder here that holds a machine, by name."""
    return {path.parent.name: load_machine(path.parent.name) for path in HERE.glob("*/machine.py")}


def load_machine(name: str) -> Machine:
    """The machine of one folder."""
    machine = importlib.import_module(f"tests.scenarios.{name}.machine").MACHINE
    if not isinstance(machine, Machine):
        raise TypeError(f"tests/scenarios/{name}/machine.py: MACHINE is no Machine")
    return machine


def find_scenarios() -> list[Path]:
    """Every scenario of every machine."""
    return sorted(
        path for folder in HERE.glob("*/machine.py") for path in folder.parent.glob("*.txt")
    )


def play(machine: Machine, text: str) -> dict[int, str]:
    """What each command prints, by the line it stands on. Errors of ours are output, too."""
    world = machine.make_world()
    outputs: dict[int, str] = {}
    for block in parse_blocks(text):
        command = machine.commands.get(block.command)
        if command is None:
            known = ", ".join(sorted(machine.commands))
            raise ScriptError(block.line, WRONG_NAME.format(block.command, known))
        try:
            output = command(world, block)
        except RollqError as error:
            output = f"refused: {error.code.name.lower()}"
        outputs[block.line] = output
    return outputs


def compare(machine: Machine, text: str) -> str:
    """The difference between what a scenario expects and what happens; empty if there is none."""
    played = rewrite(machine, text)
    kept = rewrite_text(text, {b.line: "\n".join(b.expected) for b in parse_blocks(text)})
    lines = difflib.unified_diff(
        kept.splitlines(), played.splitlines(), "expected", "played", lineterm=""
    )
    return "\n".join(lines)


def rewrite(machine: Machine, text: str) -> str:
    """The scenario with what its commands print now."""
    return rewrite_text(text, play(machine, text))

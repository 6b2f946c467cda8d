"""Whether a command that people are told can be typed as it is."""

from __future__ import annotations

import shlex
from typing import Any

import typer

from rollq.cli.main import app

OF_THE_SYSTEM = ("chmod",)


def parse(command: str) -> None:
    """Have the command line read it, without running it; an error says what it cannot take."""
    words = shlex.split(command)
    if words[0] in OF_THE_SYSTEM:
        return
    assert words[0] == "rollq", command
    current: Any = typer.main.get_command(app)
    rest = words[1:]
    context = current.make_context("rollq", ["--help"], resilient_parsing=True)
    while hasattr(current, "commands"):
        _, current, rest = current.resolve_command(context, rest)
    current.make_context(current.name, rest)

"""No secret is an argument: every user of a machine can read the arguments of its processes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import typer

from rollq.cli.main import app

SECRET: Final = re.compile(r"token|passw|secret|passphrase|private|credential|(^|-)key($|-)")
# What sounds like one and is none.
NAMES: Final = {
    "access revoke --key": "a public key",
    "access revoke --token": "the id of a token",
    "batch show key": "what a client calls its batch",
    "jobs --key": "what a client calls its job",
    "submit --key": "what a client calls its job",
    "submit --notify-key": "the name of a secret of the worker's vault",
    "submit --sticky-key": "jobs of one key go to one worker",
    "cron add --sticky-key": "the same",
    "cron add --secret": "the name of a secret",
    "submit --secret": "the name of a secret",
    "watch --key": "what a client calls its job",
}


def options(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    """Every option of a command and of those below it, by how it is called."""
    for name, child in getattr(command, "commands", {}).items():
        yield from options(f"{path} {name}".strip(), child)
    for param in command.params:
        for said in param.opts:
            yield f"{path} {said}", param


def test_options_for_secrets_take_files() -> None:
    sounding = {
        name: param
        for name, param in options("", typer.main.get_command(app))
        if SECRET.search(name.rpartition(" ")[2].lower().lstrip("-"))
    }
    assert {"worker --exec-digests-key", "exec sign --key", *NAMES} <= set(sounding)
    for name, param in sounding.items():
        if name not in NAMES and not getattr(param, "is_flag", False):
            assert param.metavar in ("FILE", "DIR"), f"rollq {name} takes a secret as an argument"

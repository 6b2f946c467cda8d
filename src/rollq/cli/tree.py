"""The commands of `rollq`. Each is imported and built when it is looked up: a start pays for the
command that it runs, and help for all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any, Final

import typer
from typer.models import CommandInfo

from rollq.cli.credentials import with_credentials
from rollq.cli.failures import Commands
from rollq.cli.pages import Command

# The commands and groups in the order of help.
NAMES: Final = (
    *("leader", "worker", "submit", "wait", "fetch", "status", "job", "jobs", "logs", "cancel"),
    *("explain", "client", "clientx", "demo3", "demo", "doctor", "drain", "sql", "report", "init"),
    *("web", "restore", "top", "watch", "groups", "publish", "subscribe", "request", "router"),
    *("dlq", "flow", "queue", "limit", "weight", "cluster", "settings", "hints", "history", "wal"),
    *("blobs", "cache", "pipeline", "tls", "access", "exec", "backup", "metrics", "federation"),
    *("topic", "cron", "batch"),
)
# Where a module cannot have the name of its command, or where another has it.
MODULES: Final = {name: name for name in NAMES} | {"logs": "joblogs", "exec": "execs"}


class Root(Commands):
    """The command `rollq`."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = Tree()

    def list_commands(self, _ctx: Any) -> list[str]:
        """The names, without building what they name."""
        return list(self.commands)


class Tree(Mapping[str, Any]):
    """Commands and groups by name."""

    def __getitem__(self, name: str) -> Any:
        if name not in MODULES:
            raise KeyError(name)
        return built(name)

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)


@cache
def built(name: str) -> Any:
    """A command or a group. Its module has `register(app)` or, if it is a group, its own `app`."""
    module = import_module(f"rollq.cli.{MODULES[name]}")
    branch = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    if hasattr(module, "register"):
        module.register(branch)
    else:
        branch.add_typer(module.app)
    for leaf in leaves(branch):
        leaf.cls = Command
        assert leaf.callback is not None, "every command is a function"
        leaf.callback = with_credentials(leaf.callback)
    return typer.main.get_group(branch).commands[name]


def leaves(branch: typer.Typer) -> Iterator[CommandInfo]:
    """The commands of a group and of the groups in it."""
    yield from branch.registered_commands
    for group in branch.registered_groups:
        assert group.typer_instance is not None
        yield from leaves(group.typer_instance)

"""Every command that talks to a group takes credentials, and uses those that it was given."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from rollq.base.errors import ErrorCode, LocalError
from rollq.cli.credentials import given_credentials, given_directory, with_credentials
from rollq.cli.failures import EXIT_USAGE
from rollq.cli.main import app
from rollq.cli.options import Servers
from rollq.security.files import as_credentials

# Groups of commands, and commands, that talk to a group.
FAR = (
    *("leader", "worker", "submit", "wait", "fetch", "status", "job", "jobs", "logs", "cancel"),
    *("explain", "client", "clientx", "doctor", "dlq", "queue", "cluster", "settings", "hints"),
    *("history", "cache", "pipeline run", "router"),
)


def leaves(command: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    children = getattr(command, "commands", {})
    if not children:
        yield path, command
    for name, child in children.items():
        yield from leaves(child, f"{path} {name}".strip())


def test_commands_that_talk_to_a_group_take_credentials() -> None:
    lack = [
        name
        for name, command in leaves(typer.main.get_command(app))
        if name.startswith(FAR)
        and all("--credentials" not in param.opts for param in command.params)
    ]
    assert lack == []


def test_what_a_command_was_given_is_there_while_it_runs(tmp_path: Path) -> None:
    seen: list[str] = []

    def command(servers: Servers = "") -> None:
        seen.append(given_directory())
        assert given_credentials().directory == str(tmp_path)

    own = typer.Typer()
    own.command()(with_credentials(command))
    done = CliRunner().invoke(own, ["--credentials", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert seen == [str(tmp_path)]
    assert given_directory() == ""


def test_a_directory_that_is_not_there_is_wrong_usage(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["status", "--credentials", str(tmp_path / "none")])
    assert done.exit_code == EXIT_USAGE


def test_tls_needs_a_certificate(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["leader", "0", "--tls", "require"])
    assert done.exit_code == EXIT_USAGE


def test_without_the_option_there_are_no_credentials() -> None:
    assert given_credentials().directory == ""


def test_credentials_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(LocalError) as caught:
        as_credentials(tmp_path / "none")
    assert caught.value.code is ErrorCode.BAD_CREDENTIALS

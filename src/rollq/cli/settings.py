"""`rollq settings`: grid-wide settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rollq.base.errors import ErrorCode, LocalError
from rollq.cli.options import DEFAULT_SERVERS, DEFAULT_TIMEOUT_S, Json, Servers, Timeout

if TYPE_CHECKING:
    from rollq.grid.commands import Settings

EPILOG = """\b
Examples:
  rollq settings show
  rollq settings set max_attempts=3 lease_ms=60000
"""
app = typer.Typer(
    name="settings",
    help="Show and change grid-wide settings.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command(epilog="Example: rollq settings show --json | jq .lease_ms")
def show(
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Show the current settings."""
    from rollq.cli.service import run

    _write(run(_change(servers, timeout, {})), as_json=as_json)


@app.command("set", epilog="Example: rollq settings set max_attempts=3 lease_ms=60000")
def set_(
    pairs: Annotated[
        list[str], typer.Argument(metavar="NAME=VALUE", help="Settings; durations in ms.")
    ],
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Change settings; others keep their values."""
    from rollq.cli.service import run

    _write(run(_change(servers, timeout, _parse(pairs))), as_json=as_json)


def _parse(pairs: list[str]) -> dict[str, int]:
    from rollq.grid.commands import Settings

    changes = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if name not in Settings.__struct_fields__:
            hint = f"use one of: {' '.join(Settings.__struct_fields__)}"
            raise LocalError(ErrorCode.BAD_OPTIONS, f"no setting {name[:64]!r}", hint)
        if not equals or not value.isdecimal():
            hint = f"write {name}=NUMBER, with a whole number that is not negative"
            raise LocalError(ErrorCode.BAD_OPTIONS, f"{pair[:64]!r} gives {name} no number", hint)
        is_switch = isinstance(getattr(Settings(), name), bool)
        changes[name] = value != "0" if is_switch else int(value)
    return changes


async def _change(servers: str, timeout_s: float, changes: dict[str, int]) -> Settings:
    """Apply the changes, if there are any; returns the settings."""
    import msgspec

    from rollq.cli.grid import connected, query_view
    from rollq.grid.commands import Settings

    async with connected(servers, timeout_s) as client:
        settings = await query_view(client, Settings, "settings")
        if changes:
            settings = msgspec.structs.replace(settings, **changes)
            await client.set_settings(settings)
    return settings


def _write(settings: Settings, *, as_json: bool) -> None:
    import msgspec

    from rollq.cli.output import write_fields, write_json

    values = msgspec.structs.asdict(settings)
    if as_json:
        write_json(values)
    else:
        write_fields(values)

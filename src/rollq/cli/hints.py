"""`rollq hints`: what the grid was told of the run times of programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rollq.base.errors import ErrorCode, LocalError
from rollq.cli.options import DEFAULT_SERVERS, DEFAULT_TIMEOUT_S, Json, Servers, Timeout

if TYPE_CHECKING:
    from rollq.roles.client.client import Client

EPILOG = """\b
Examples:
  rollq hints show
  rollq hints use off
  rollq hints clear
"""
app = typer.Typer(
    name="hints",
    help="Look at what the grid was told of run times, switch it off, or forget it.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
)
SWITCH = {"on": True, "off": False}


@app.command(epilog="Example: rollq hints show --json | jq '.hints[].p99_ms'")
def show(
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Show all hints: run times in ms that half, 95 % and 99 % of the runs did not exceed."""
    from rollq.cli.documents import HINT_COLUMNS
    from rollq.cli.grid import asked
    from rollq.cli.output import write_json, write_line, write_table

    document = asked(servers, timeout, _look)
    if as_json:
        write_json(document)
        return
    rows = [list(hint.values()) for hint in document["hints"]]
    write_table(HINT_COLUMNS, rows)
    if not document["use_hints"]:
        write_line("switched off: rollq hints use on")


@app.command(epilog="Example: rollq hints use off")
def use(
    switch: Annotated[str, typer.Argument(metavar="on|off", help="Whether they count.")],
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Let hints count, or not. They stay known; it is the setting use_hints."""
    from rollq.cli.grid import asked
    from rollq.cli.output import write_answer

    wanted = SWITCH.get(switch)
    if wanted is None:
        raise LocalError(ErrorCode.BAD_OPTIONS, f"{switch[:64]!r} is no switch", "use on or off")
    asked(servers, timeout, lambda client: _switch(client, wanted))
    write_answer({"use_hints": wanted}, f"hints are {switch}", as_json=as_json)


@app.command(epilog="Example: rollq hints clear")
def clear(
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Forget all hints."""
    from rollq.cli.grid import asked
    from rollq.cli.output import write_answer

    asked(servers, timeout, lambda client: client.set_hints(()))
    write_answer({"hints": 0}, "no hints", as_json=as_json)


async def _look(client: Client) -> dict[str, Any]:
    from rollq.cli.documents import hint_document

    return {
        "use_hints": (await client.settings()).use_hints,
        "hints": [hint_document(hint) for hint in await client.hints()],
    }


async def _switch(client: Client, wanted: bool) -> None:
    import msgspec

    settings = await client.settings()
    await client.set_settings(msgspec.structs.replace(settings, use_hints=wanted))

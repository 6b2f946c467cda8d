"""`rollq hints`: expected run times of programs."""

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
    help="Show, switch on or off, and clear hints: expected run times of programs.",
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
    """Show all hints: median, 95th and 99th percentile of run times, in ms."""
    from rollq.cli.grid import with_client
    from rollq.cli.output import write_json, write_line, write_table
    from rollq.documents.grid import HINT_COLUMNS

    document = with_client(servers, timeout, _look)
    if as_json:
        write_json(document)
        return
    rows = [list(hint.values()) for hint in document["hints"]]
    write_table(HINT_COLUMNS, rows)
    if not document["use_hints"]:
        write_line("hints are off: switch them on with `rollq hints use on`")


@app.command(epilog="Example: rollq hints use off")
def use(
    switch: Annotated[str, typer.Argument(metavar="on|off", help="Use hints: on or off.")],
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Switch the use of hints on or off (setting use_hints); they are kept."""
    from rollq.cli.grid import with_client
    from rollq.cli.output import write_answer

    wanted = SWITCH.get(switch)
    if wanted is None:
        raise LocalError(
            ErrorCode.BAD_OPTIONS, f"{switch[:64]!r} is neither on nor off", "use on or off"
        )
    with_client(servers, timeout, lambda client: _switch(client, wanted))
    write_answer({"use_hints": wanted}, f"hints are {switch}", as_json=as_json)


@app.command(epilog="Example: rollq hints clear")
def clear(
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Delete all hints."""
    from rollq.cli.grid import with_client
    from rollq.cli.output import write_answer

    with_client(servers, timeout, lambda client: client.set_hints(()))
    write_answer({"hints": 0}, "hints deleted", as_json=as_json)


async def _look(client: Client) -> dict[str, Any]:
    from rollq.documents.grid import hint_document

    return {
        "use_hints": (await client.settings()).use_hints,
        "hints": [hint_document(hint) for hint in await client.hints()],
    }


async def _switch(client: Client, wanted: bool) -> None:
    import msgspec

    settings = await client.settings()
    await client.set_settings(msgspec.structs.replace(settings, use_hints=wanted))

"""`rollq limit`: limits of running jobs and start rates."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rollq.base.errors import ErrorCode, LocalError
from rollq.cli.options import DEFAULT_SERVERS, DEFAULT_TIMEOUT_S, Json, Servers, Timeout

EPILOG = """\b
Examples:
  rollq limit set exec:render --running 8
  rollq limit set key:matlab --running 20
  rollq limit set client:ann --rate 3/s --burst 5
  rollq limit list
  rollq limit remove exec:render
"""
app = typer.Typer(
    name="limit",
    help="Set, list and remove limits of running jobs and of starts.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
)
Name = Annotated[
    str,
    typer.Argument(
        metavar="SCOPE:NAME",
        help="exec:PROGRAM, queue:QUEUE, client:CLIENT, or key:KEY (rollq submit --limit KEY).",
    ),
]
COLUMNS = ("name", "running", "running_max", "rate", "burst", "next start")


@app.command("set", epilog="Example: rollq limit set exec:render --running 8 --rate 3/s --burst 5")
def set_(
    name: Name,
    running: Annotated[
        int,
        typer.Option(
            min=0, metavar="N", help="Jobs to run at once; for a key, tokens in use (0 = no limit)."
        ),
    ] = 0,
    rate: Annotated[
        str,
        typer.Option(
            metavar="N/UNIT",
            help="Starts per time: 3/s, 90/min, 10/h, 5/d.",
            show_default="no limit",
        ),
    ] = "",
    burst: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="N",
            help="Starts allowed at once, if none were used before.",
            show_default="the starts of one second, at least 1",
        ),
    ] = 0,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Set a limit, or replace it. Jobs that already run count, and are not stopped."""
    from rollq.cli.grid import with_client
    from rollq.cli.output import write_answer

    if not running and not rate:
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            "neither --running nor --rate is given",
            "give one or both; `rollq limit remove` removes a limit, `rollq queue pause` stops a "
            "queue",
        )
    if burst and not rate:
        raise LocalError(ErrorCode.BAD_OPTIONS, "--burst requires --rate", "add it")
    with_client(
        servers,
        timeout,
        lambda client: client.set_limit(name, running=running, rate=rate or 0, burst=burst),
    )
    document = {"name": name, "running_max": running or None, "rate": rate or None}
    write_answer(document, f"{name}: limit set", as_json=as_json)


@app.command("list", epilog="Example: rollq limit list --json | jq -r .name")
def list_(
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """List limits: what runs, what may run, and when the next start is due."""
    from rollq.cli.grid import with_client
    from rollq.cli.output import write_json, write_line, write_table
    from rollq.documents.rules import limit_document

    found = [limit_document(one) for one in with_client(servers, timeout, lambda one: one.limits())]
    if as_json:
        for document in found:
            write_json(document)
    elif found:
        write_table(COLUMNS, map(_row, found))
    else:
        write_line("no limits: `rollq limit set` sets one")


@app.command(epilog="Example: rollq limit remove exec:render")
def remove(
    name: Name,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Remove a limit."""
    from rollq.cli.grid import with_client
    from rollq.cli.output import write_answer

    is_removed = with_client(servers, timeout, lambda client: client.remove_limit(name))
    text = f"{name}: {'limit removed' if is_removed else 'has no limit'}"
    write_answer({"name": name, "removed": is_removed}, text, as_json=as_json)


def _row(document: dict[str, Any]) -> list[Any]:
    from rollq.documents.times import when

    due = when(document["due_ms"]) if document["due_ms"] else "now" if document["rate"] else "-"
    most = [document[name] or "-" for name in ("running_max", "rate", "burst")]
    return [document["name"], document["running"], *most, due]

"""`rollq queue`: list, pause and resume queues."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rollq.cli.options import DEFAULT_SERVERS, DEFAULT_TIMEOUT_S, Json, Limit, Servers, Timeout

EPILOG = """\b
Examples:
  rollq queue list
  rollq queue pause render
  rollq queue resume render
"""
app = typer.Typer(
    name="queue",
    help="List, pause and resume queues.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
)
Name = Annotated[str, typer.Argument(metavar="QUEUE", help="Name of the queue.")]


@app.command("list", epilog="Example: rollq queue list --json | jq -r .name")
def list_(
    limit: Limit = 100,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """List queues with job counts by state.

    Failed: the program ran and reported an error. Dead: no attempt completed.
    """
    from rollq.base.outcomes import STATES
    from rollq.cli.output import write_json, write_table
    from rollq.cli.service import run

    found = run(_list(servers, timeout, limit))
    if as_json:
        for document in found:
            write_json(document)
    else:
        columns = ("name", "paused", *STATES)
        write_table(columns, [[one[name] for name in columns] for one in found])


@app.command(epilog="Example: rollq queue pause render")
def pause(
    name: Name,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Pause a queue: start none of its jobs. Running jobs finish; submits are accepted."""
    _order("pause", name, servers, timeout, as_json=as_json)


@app.command(epilog="Example: rollq queue resume render")
def resume(
    name: Name,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Resume a paused queue."""
    _order("resume", name, servers, timeout, as_json=as_json)


def _order(action: str, name: str, servers: str, timeout_s: float, *, as_json: bool) -> None:
    from rollq.cli.grid import asked, queue_name
    from rollq.cli.output import write_answer

    name = queue_name(name)
    asked(
        servers,
        timeout_s,
        lambda client: client.pause(name) if action == "pause" else client.resume(name),
    )
    document = {"queue": name, "paused": action == "pause"}
    write_answer(document, f"queue {name}: {action}d", as_json=as_json)


async def _list(servers: str, timeout_s: float, limit: int) -> list[dict[str, Any]]:
    from rollq.cli.grid import ask, connected
    from rollq.documents.grid import queue_document
    from rollq.grid.views import RawQueueView

    found: list[RawQueueView] = []
    async with connected(servers, timeout_s) as client:
        while len(found) < limit:
            after = found[-1].name.encode() if found else b""
            rows = min(limit - len(found), 1000)
            page = await ask(client, list[RawQueueView], "queues", after, rows)
            found += page
            if len(page) < rows:
                break
    return [queue_document(queue) for queue in found]

"""`rollq queue`: lists, pauses and resumes queues, and sets their placement policies."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rollq.base.errors import ErrorCode, LocalError
from rollq.base.needs import PLACEMENTS, SCORES
from rollq.cli.options import DEFAULT_SERVERS, DEFAULT_TIMEOUT_S, Json, Limit, Servers, Timeout
from rollq.subjects.queues import check_typed

EPILOG = """\b
Examples:
  rollq queue list
  rollq queue pause render
  rollq queue resume render
  rollq queue policy 'render.*' --placement sticky
  rollq queue policies
"""
app = typer.Typer(
    name="queue",
    help="List, pause and resume queues; set how they choose workers.",
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
    from rollq.cli.output import remark_more, write_json, write_table
    from rollq.cli.service import run

    found, has_more = run(_list(servers, timeout, limit))
    if as_json:
        for document in found:
            write_json(document)
    else:
        columns = ("name", "paused", *STATES)
        write_table(columns, [[one[name] for name in columns] for one in found])
    if has_more:
        remark_more(len(found))


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


@app.command(
    epilog="Example: rollq queue policy 'render.*' --placement score --weight cpu=2 --weight held=1"
)
def policy(
    pattern: Annotated[
        str,
        typer.Argument(
            metavar="PATTERN", help="Queues: render, render.*, render.> (all below), > (all)."
        ),
    ],
    placement: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help=f"How to choose among several workers: {', '.join(PLACEMENTS)}.",
            show_default=False,
        ),
    ] = "",
    weight: Annotated[
        list[str] | None,
        typer.Option(
            "--weight",
            metavar="NAME=N",
            help=f"Weight of a score, 0 to 1000: {', '.join(SCORES)}; may be repeated.",
        ),
    ] = None,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove the policy of this pattern.")
    ] = False,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Set how the queues of a pattern choose workers; the most specific pattern applies."""
    from rollq.cli.grid import with_client
    from rollq.cli.output import write_answer

    if remove == bool(placement):
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            "neither --placement nor --remove" if placement == "" else "--placement and --remove",
            f"give one of them; placements are {', '.join(PLACEMENTS)}",
        )
    check_typed(pattern)
    if remove:
        is_removed = with_client(servers, timeout, lambda client: client.remove_policy(pattern))
        text = f"{pattern}: {'policy removed' if is_removed else 'has no policy'}"
        write_answer({"pattern": pattern, "removed": is_removed}, text, as_json=as_json)
        return
    weights = _weights(weight or [])
    with_client(servers, timeout, lambda client: client.set_policy(pattern, placement, weights))
    document = {"pattern": pattern, "placement": placement, "weights": weights}
    write_answer(document, f"{pattern}: {placement}", as_json=as_json)


@app.command(epilog="Example: rollq queue policies --json | jq -r .pattern")
def policies(
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """List how queues choose workers; queues that match no pattern: the least loaded worker."""
    from rollq.cli.grid import with_client
    from rollq.cli.output import write_json, write_line, write_table
    from rollq.documents.rules import policy_document

    found = [
        policy_document(one) for one in with_client(servers, timeout, lambda one: one.policies())
    ]
    if as_json:
        for document in found:
            write_json(document)
    elif found:
        rows = [[one["pattern"], one["placement"], _weights_text(one)] for one in found]
        write_table(("pattern", "placement", "weights"), rows)
    else:
        write_line("no policies: all queues choose the least loaded worker")


def _weights(given: list[str]) -> dict[str, int]:
    weights: dict[str, int] = {}
    for one in given:
        name, _, number = one.partition("=")
        if name not in SCORES or not number.isdecimal() or name in weights:
            raise LocalError(
                ErrorCode.BAD_OPTIONS,
                f"--weight {one[:64]!r}",
                f"write NAME=N once for each of {', '.join(SCORES)}",
            )
        weights[name] = int(number)
    return weights


def _weights_text(document: dict[str, Any]) -> str:
    return " ".join(f"{name}={weight}" for name, weight in document["weights"].items()) or "-"


def _order(action: str, name: str, servers: str, timeout_s: float, *, as_json: bool) -> None:
    from rollq.cli.grid import queue_name, with_client
    from rollq.cli.output import write_answer

    name = queue_name(name)
    with_client(
        servers,
        timeout_s,
        lambda client: client.pause(name) if action == "pause" else client.resume(name),
    )
    document = {"queue": name, "paused": action == "pause"}
    write_answer(document, f"queue {name}: {action}d", as_json=as_json)


async def _list(servers: str, timeout_s: float, limit: int) -> tuple[list[dict[str, Any]], bool]:
    """The first queues, and whether there are more."""
    from rollq.cli.grid import connected, query_view
    from rollq.documents.grid import queue_document
    from rollq.grid.views import RawQueueView

    found: list[RawQueueView] = []
    async with connected(servers, timeout_s) as client:
        while len(found) <= limit:
            after = found[-1].name.encode() if found else b""
            rows = min(limit + 1 - len(found), 1000)
            page = await query_view(client, list[RawQueueView], "queues", after, rows)
            found += page
            if len(page) < rows:
                break
    return [queue_document(queue) for queue in found[:limit]], len(found) > limit

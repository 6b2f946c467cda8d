"""`rollq jobs`: lists jobs."""

from __future__ import annotations

import enum
from typing import Annotated, Any

import typer

from rollq.cli.options import DEFAULT_SERVERS, DEFAULT_TIMEOUT_S, Json, Limit, Servers, Timeout

EPILOG = """\b
Examples:
  rollq jobs --state running
  rollq jobs --queue render --limit 1000 --json | jq -r .id
"""


class StateWord(enum.StrEnum):
    """States of jobs, as in `rollq.base.outcomes`."""

    BLOCKED = "blocked"
    WAITING = "waiting"
    DELAYED = "delayed"
    RUNNING = "running"
    OK = "ok"
    FAILED = "failed"
    DEAD = "dead"
    CANCELLED = "cancelled"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(jobs)


def jobs(
    state: Annotated[
        StateWord | None, typer.Option(help="Only jobs in this state.", show_default=False)
    ] = None,
    queue: Annotated[str, typer.Option(metavar="NAME", help="Only jobs of this queue.")] = "",
    client: Annotated[str, typer.Option(metavar="NAME", help="Only jobs of this client.")] = "",
    exec_name: Annotated[
        str, typer.Option("--exec", metavar="NAME", help="Only jobs of this program.")
    ] = "",
    key: Annotated[str, typer.Option(metavar="KEY", help="Only jobs with this key.")] = "",
    text: Annotated[
        str,
        typer.Option(
            metavar="TEXT",
            help="Only jobs with this text in id, key, program, queue, client or cause of the end.",
        ),
    ] = "",
    limit: Limit = 100,
    oldest: Annotated[bool, typer.Option("--oldest", help="List the oldest first.")] = False,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """List jobs, newest first.

    Tasks of an array are listed once they have started, as ARRAY/NUMBER. Ids are shortened where
    unambiguous; every command accepts short ids. With --json: one JSON object per line, with full
    ids. Output of programs is shown by `rollq job` and `rollq logs`.
    """
    from rollq.cli.grid import queue_name
    from rollq.cli.ids import names_of
    from rollq.cli.output import remark, write_json, write_table
    from rollq.cli.service import run
    from rollq.documents.times import ago
    from rollq.grid.matching import JobFilter

    word = state.value if state else ""
    names = word, queue_name(queue), client, exec_name
    matching = JobFilter(*names, newest=not oldest, key=key, text=text)
    found, has_more = run(_look(servers, timeout, matching, limit))
    if as_json:
        for document in found:
            write_json(document)
    else:
        shown = ("state", "exec", "queue", "client", "attempt")
        write_table(
            ["id", "state", "exec", "queue", "client", "tries", "since"],
            [
                [job, *(one[name] for name in shown), ago(one["changed_ms"])]
                for job, one in zip(names_of(found), found, strict=True)
            ],
            fits=True,
        )
    if has_more:
        remark(f"shown: {len(found)}; there may be more (--limit)")


async def _look(
    servers: str, timeout_s: float, wanted: Any, limit: int
) -> tuple[list[dict[str, Any]], bool]:
    """The first matching jobs, and whether there may be more."""
    import msgspec

    from rollq.cli.grid import connected, query_page
    from rollq.documents.jobs import listed_document
    from rollq.grid.pages import JobPage

    found: list[dict[str, Any]] = []
    async with connected(servers, timeout_s) as grid:
        while len(found) < limit:
            key = msgspec.msgpack.encode(wanted)
            page, _ = await query_page(grid, JobPage, "jobs", key, limit - len(found))
            found += map(listed_document, page.jobs)
            if not page.after:
                return found, False
            wanted = msgspec.structs.replace(wanted, after=page.after)
    return found, True

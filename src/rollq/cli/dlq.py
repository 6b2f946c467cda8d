"""`rollq dlq`: shows, redrives and deletes dead jobs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rollq.base.amounts import counted
from rollq.base.errors import ErrorCode, LocalError, StateError
from rollq.cli.options import (
    DEFAULT_SERVERS,
    DEFAULT_TIMEOUT_S,
    JobIdArgument,
    Json,
    Limit,
    Servers,
    Timeout,
)
from rollq.cli.stdin import is_terminal

if TYPE_CHECKING:
    from rollq.grid.views import RawJobView
    from rollq.roles.client.client import Client

EPILOG = """\b
Examples:
  rollq dlq list
  rollq dlq show 6f9619ff-8b86-d011-b42d-00c04fc964ff
  rollq dlq redrive --all --queue render
  rollq dlq purge 6f9619ff-8b86-d011-b42d-00c04fc964ff
"""
REDRIVE_EPILOG = """\b
Examples:
  rollq dlq redrive --all --queue render
  rollq dlq redrive 6f9619ff --arg --threads --arg 2 --env MODE=slow
"""
app = typer.Typer(
    name="dlq",
    help="Show dead jobs; run them again, or delete them.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
)
Ids = Annotated[list[str] | None, typer.Argument(metavar="ID", help="Ids of dead jobs.")]
All = Annotated[bool, typer.Option("--all", help="All dead jobs instead of those named.")]
Queue = Annotated[str, typer.Option(metavar="NAME", help="With --all: only jobs of this queue.")]
ORDER_ROWS = 500  # jobs per request, which is one log entry


@app.command("list", epilog="Example: rollq dlq list --json | jq -r '.id + \" \" + .end.cause'")
def list_(
    queue: Annotated[str, typer.Option(metavar="NAME", help="Only jobs of this queue.")] = "",
    limit: Limit = 100,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """List dead jobs, oldest first, and why they are dead."""
    from rollq.cli.ids import names_of
    from rollq.cli.output import remark_more, write_json, write_table
    from rollq.cli.service import run
    from rollq.documents.jobs import job_document
    from rollq.documents.times import ago

    views, has_more = run(_collect(servers, timeout, queue, limit))
    found = [job_document(view) for view in views]
    if as_json:
        for document in found:
            write_json(document)
    else:
        write_table(
            ["id", "exec", "queue", "tries", "since", "cause", "detail"],
            [
                [
                    *(job, one["exec"], one["queue"], one["attempt"]),
                    *(ago(one["changed_ms"]), one["end"].get("cause", "")),
                    one["end"].get("detail", ""),
                ]
                for job, one in zip(names_of(found), found, strict=True)
            ],
            fits=True,
        )
    if has_more:
        remark_more(len(found))


@app.command(epilog="Example: rollq dlq show 6f9619ff-8b86-d011-b42d-00c04fc964ff")
def show(
    job_id: JobIdArgument,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Show one dead job with every attempt.

    Exit code 4 if it is not dead, or not known.
    """
    from rollq.cli.ids import with_job_ids
    from rollq.cli.job import show_job

    document = with_job_ids(servers, timeout, [job_id], lambda client, ids: _look(client, *ids))
    show_job(document, as_json=as_json)


async def _look(client: Client, job_id: bytes) -> dict[str, Any]:
    from rollq.base.ids import guid_to_text
    from rollq.cli.grid import unknown_job
    from rollq.cli.job import whole_document
    from rollq.roles.client.results.views import state_of

    view = await client.jobs.view(job_id)
    if view is None:
        raise unknown_job(job_id)
    if view.state != "dead":
        text = guid_to_text(job_id)
        raise StateError(
            ErrorCode.WRONG_STATE,
            f"job {text} is not dead: it is {state_of(view)}",
            f"`rollq job {text}` shows it; `rollq dlq list` lists dead jobs",
        )
    return await whole_document(client, view)


@app.command(epilog=REDRIVE_EPILOG)
def redrive(
    job_id: Ids = None,
    every: All = False,
    queue: Queue = "",
    arg: Annotated[
        list[str] | None,
        typer.Option("--arg", metavar="ARG", help="Argument instead of the old ones; repeatable."),
    ] = None,
    no_args: Annotated[
        bool, typer.Option("--no-args", help="No arguments instead of the old ones.")
    ] = False,
    env: Annotated[
        list[str] | None,
        typer.Option("--env", metavar="NAME=VALUE", help="Set a variable; repeatable."),
    ] = None,
    unset: Annotated[
        list[str] | None,
        typer.Option("--unset", metavar="NAME", help="Remove a variable; repeatable."),
    ] = None,
    to_queue: Annotated[
        str, typer.Option("--to-queue", metavar="NAME", help="Put them into another queue.")
    ] = "",
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Run dead jobs again, with a new set of attempts; attempt numbers go on.

    They keep id, key, owner, options and files. All or nothing: exit code 4 if a named job is not
    dead or unknown. A job that failed is not dead, because its program ran: `rollq submit --like`
    runs it again.
    """
    from rollq.cli.grid import queue_name
    from rollq.cli.submit import environment

    if arg and no_args:
        raise LocalError(ErrorCode.BAD_OPTIONS, "--arg and --no-args are given", "give one of them")
    changed: dict[str, Any] = {
        "args": arg or ([] if no_args else None),
        "env": environment(env or []) | dict.fromkeys(unset or ()),
        "queue": queue_name(to_queue),
    }
    _order("redrive", job_id, every, queue, servers, timeout, as_json, changed)


@app.command(epilog="Example: rollq dlq purge --all --yes")
def purge(
    job_id: Ids = None,
    every: All = False,
    queue: Queue = "",
    yes: Annotated[
        bool, typer.Option("--yes", help="With --all: do not ask for confirmation.")
    ] = False,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Delete dead jobs and their output; this cannot be undone.

    All or nothing: exit code 4 if a named job is not dead or unknown. With --all it asks for
    confirmation; without a terminal, or with --json, it requires --yes.
    """
    if every and not yes:
        if as_json or not is_terminal():
            raise LocalError(
                ErrorCode.BAD_OPTIONS,
                "purge --all requires confirmation, and stdin is not a terminal",
                "add --yes",
            )
        which = f"of queue {queue}" if queue else "of all queues"
        typer.confirm(f"Delete the dead jobs {which}?", abort=True, err=True)
    _order("purge", job_id, every, queue, servers, timeout, as_json)


def _order(
    action: str,
    ids: list[str] | None,
    every: bool,
    queue: str,
    servers: str,
    timeout_s: float,
    as_json: bool,
    changed: dict[str, Any] | None = None,
) -> None:
    from rollq.cli.ids import with_job_ids
    from rollq.cli.output import write_answer

    if bool(ids) is every or (queue and not every):
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            "neither ids nor --all are given, or both",
            "name ids, or use --all (with --queue for one queue)",
        )
    count = with_job_ids(
        servers,
        timeout_s,
        ids or [],
        lambda client, found: _order_all(
            client, action, list(dict.fromkeys(found)), queue, changed or {}
        ),
    )
    done = "redriven" if action == "redrive" else "purged"
    write_answer({action: count}, f"{counted(count, 'job')} {done}", as_json=as_json)


async def _order_all(
    client: Client, action: str, named: list[bytes], queue: str, changed: dict[str, Any]
) -> int:
    from rollq.cli.grid import unknown_job

    ids = named or [view.job_id async for view in _dead(client, queue)]
    act = partial(client.redrive, **changed) if action == "redrive" else client.purge
    count = 0
    try:
        for job_id in named:  # the grid itself skips unknown ids of a purge
            if await client.jobs.view(job_id) is None:
                raise unknown_job(job_id)
        for first in range(0, len(ids), ORDER_ROWS):
            count += await act(*ids[first : first + ORDER_ROWS])
    except StateError as error:
        if named and error.code in (ErrorCode.WRONG_STATE, ErrorCode.UNKNOWN_JOB):
            error.hint = "`rollq dlq list` lists dead jobs, `rollq submit --like` runs others; " + (
                f"{count} named before it are done" if count else "no job was changed"
            )
        raise
    return count


async def _collect(
    servers: str, timeout_s: float, queue: str, limit: int
) -> tuple[list[RawJobView], bool]:
    from rollq.cli.grid import connected, first_rows

    async with connected(servers, timeout_s) as client:
        return await first_rows(_dead(client, queue), limit)


async def _dead(client: Client, queue: str) -> AsyncIterator[RawJobView]:
    """Iterate over the dead jobs of a queue (empty: of all), oldest first."""
    from rollq.cli.grid import PAGE_ROWS, query_page, queue_name
    from rollq.grid.views import DeadPage

    queue = queue_name(queue)
    after = 0
    while True:
        key = after.to_bytes(8, "big")
        page, rows = await query_page(client, DeadPage, "dead", key, PAGE_ROWS)
        for view in page.jobs:
            if queue in ("", view.queue):
                yield view
        if len(page.jobs) < rows:
            return
        after = page.after

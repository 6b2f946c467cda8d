"""`rollq wait`: waits for the end of jobs or arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rollq.cli.options import (
    DEFAULT_SERVERS,
    DEFAULT_TIMEOUT_S,
    JobIdsArgument,
    Json,
    Servers,
    Timeout,
)

if TYPE_CHECKING:
    from rollq.roles.client.client import Client

EPILOG = """\b
Examples:
  rollq wait 6f9619ff-8b86-d011-b42d-00c04fc964ff
  rollq wait 6f9619ff 9ea19921 --any --wait-timeout 60
"""
First = Annotated[bool, typer.Option("--any", help="Return when the first of them has ended.")]
WaitTimeout = Annotated[
    float, typer.Option(min=0, metavar="SECONDS", help="Stop waiting after this time (0 = never).")
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(wait)


def wait(
    job_id: JobIdsArgument,
    first: First = False,
    wait_timeout: WaitTimeout = 0,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Wait until jobs or arrays of any client have ended.

    Prints a line for each as it ends: id, state, exit code or cause; for an array, counts by state.
    Results are still delivered to the clients that submitted the jobs. Exit code 0 if all printed
    jobs are ok, else 1; 124: --wait-timeout expired, the others are still in the grid; 4: unknown
    id. With --json: one JSON object per line.
    """
    from rollq.cli.failures import EXIT_FOUND, report
    from rollq.cli.ids import with_job_ids
    from rollq.cli.waiting import EXIT_WAITED, WaitOverError

    wait_s = wait_timeout or None
    try:
        is_ok = with_job_ids(
            servers,
            timeout,
            job_id,
            lambda client, ids: _wait(client, ids, wait_s, first=first, as_json=as_json),
        )
    except WaitOverError as error:
        report(error, as_json=as_json)
        raise typer.Exit(EXIT_WAITED) from None
    if not is_ok:
        raise typer.Exit(EXIT_FOUND)


async def _wait(
    client: Client, ids: list[bytes], wait_s: float | None, *, first: bool, as_json: bool
) -> bool:
    """Wait; returns whether all that ended succeeded."""
    import asyncio
    from contextlib import aclosing

    from rollq.base.errors import DeadlineError
    from rollq.cli.ending import ends_of
    from rollq.cli.output import write_answer
    from rollq.cli.waiting import WaitOverError

    is_ok = True
    count = 0
    try:
        async with asyncio.timeout(wait_s), aclosing(ends_of(client, ids)) as ends:
            async for end in ends:
                write_answer(end.document, end.line, as_json=as_json)
                is_ok = is_ok and end.is_ok
                count += 1
                if first:
                    break
    except DeadlineError:
        raise
    except TimeoutError:
        raise WaitOverError(
            f"{count} of {len(set(ids))} ended within {wait_s:g} s",
            "the others are still in the grid: `rollq explain` says why, `rollq cancel` ends them",
        ) from None
    return is_ok

"""`rollq drain`: stops assigning jobs to workers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from rollq.base.errors import ErrorCode, LocalError
from rollq.cli.options import DEFAULT_SERVERS, DEFAULT_TIMEOUT_S, Json, Servers, Timeout
from rollq.cli.wait import WaitTimeout

if TYPE_CHECKING:
    from rollq.roles.client.client import Client

EPILOG = """\b
Examples:
  rollq drain node-7
  rollq drain node-7 node-8 --wait --wait-timeout 600
  rollq drain node-7 --undo
"""
Workers = Annotated[
    list[str],
    typer.Argument(
        metavar="WORKER",
        help="Names of workers, or the first 8 digits of ids; a name means all that have it.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(drain)


def drain(
    worker: Workers,
    undo: Annotated[bool, typer.Option("--undo", help="Give them jobs again.")] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Return when none of them runs a job.")
    ] = False,
    wait_timeout: WaitTimeout = 0,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Stop assigning jobs to workers.

    Running jobs finish. Jobs that a worker has fetched but not started go to other workers, which
    does not count as an attempt. Workers stay drained when they reconnect or restart, until --undo.
    Exit code 124: --wait-timeout expired while jobs still ran on them.
    """
    from rollq.cli.failures import report
    from rollq.cli.grid import with_client
    from rollq.cli.output import write_answer
    from rollq.cli.waiting import EXIT_WAITED, WaitOverError

    if undo and wait:
        raise LocalError(ErrorCode.BAD_OPTIONS, "--undo and --wait are given", "give one of them")
    names = ", ".join(worker)
    if undo:
        count = with_client(servers, timeout, lambda client: client.undrain(*worker))
        text = f"{names}: {'no longer drained' if count else 'not drained'}"
    else:
        wait_s = wait_timeout or None
        try:
            asking = partial(_drain, worker, wait=wait, wait_s=wait_s)
            count = with_client(servers, timeout, asking)
        except WaitOverError as error:
            report(error, as_json=as_json)
            raise typer.Exit(EXIT_WAITED) from None
        text = f"{names}: {'drained, no job runs' if wait else 'no new jobs'}"
    document = {"workers": worker, "drained": not undo, "changed": count}
    write_answer(document, text, as_json=as_json)


async def _drain(workers: list[str], client: Client, *, wait: bool, wait_s: float | None) -> int:
    """Drain workers; returns how many were not drained before."""
    import asyncio

    from rollq.base.errors import DeadlineError
    from rollq.cli.waiting import WaitOverError

    count = await client.drain(*workers)
    try:
        async with asyncio.timeout(wait_s):
            if wait:
                await client.drain(*workers, wait=True)
    except DeadlineError:
        raise
    except TimeoutError:
        raise WaitOverError(
            f"{', '.join(workers)}: jobs still run after {wait_s:g} s; no new ones are assigned",
            "`rollq status --workers --json` lists the jobs, `rollq cancel` ends them",
        ) from None
    return count

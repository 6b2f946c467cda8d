"""`rollq cancel`: end jobs."""

from __future__ import annotations

import enum
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from rollq.base.errors import ErrorCode, LocalError
from rollq.cli.options import DEFAULT_SERVERS, DEFAULT_TIMEOUT_S, Json, Servers, Timeout

if TYPE_CHECKING:
    from rollq.cli.choosing import Chosen
    from rollq.roles.client.client import Client

EPILOG = """\b
Examples:
  rollq cancel 6f9619ff-8b86-d011-b42d-00c04fc964ff
  rollq cancel --queue render --state waiting
  rollq cancel --client nightly --yes
"""


class State(enum.StrEnum):
    """Where a job stands that has not ended."""

    BLOCKED = "blocked"
    WAITING = "waiting"
    DELAYED = "delayed"
    RUNNING = "running"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(cancel)


def cancel(
    job_id: Annotated[
        list[str] | None, typer.Argument(metavar="ID", help="Ids of jobs or arrays.")
    ] = None,
    queue: Annotated[str, typer.Option(metavar="NAME", help="All jobs of this queue.")] = "",
    client: Annotated[str, typer.Option(metavar="NAME", help="All jobs of this client.")] = "",
    state: Annotated[
        State | None, typer.Option(help="All jobs in this state.", show_default=False)
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Without ids: do not ask for confirmation.")
    ] = False,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Cancel jobs or arrays: those named, or all that match --queue, --client and --state.

    Waiting jobs end at once. Running jobs are killed by their workers, and end when that is
    confirmed. Without ids it asks for confirmation; without a terminal, or with --json, it requires
    --yes. Exit code 1 if no job was cancelled, or an id is unknown; the known ones are cancelled.
    """
    from rollq.base.amounts import counted
    from rollq.cli.failures import EXIT_FOUND
    from rollq.cli.ids import asked_of
    from rollq.cli.output import remark, write_answer

    if bool(job_id) is bool(queue or client or state):
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            "neither ids nor filters are given, or both",
            "name ids, or use --queue, --client or --state, alone or together",
        )
    unknown: list[str] = []
    if job_id:
        count, unknown = asked_of(servers, timeout, job_id, _cancel_named)
        told = "nothing to cancel: unknown, or already ended"
    else:
        chosen = _choose(queue, client, state, servers=servers, timeout_s=timeout)
        count = _cancel(chosen, servers, timeout, asks=not yes, as_json=as_json)
        told = "nothing to cancel: no job matches"
    told = f"cancelling {counted(count, 'job')}" if count else told
    write_answer({"cancelled": count}, told, as_json=as_json)
    for line in unknown:
        remark(f"rollq: {line}")
    if unknown or not count:
        raise typer.Exit(EXIT_FOUND)


async def _cancel_named(client: Client, ids: list[bytes]) -> tuple[int, list[str]]:
    """How many jobs are cancelled, and which ids nobody knows."""
    from rollq.cli.grid import unknown_job

    unknown = [
        unknown_job(one).message
        for one in ids
        if await client.jobs.view(one) is None and await client.array(one) is None
    ]
    return await client.cancel(*ids), unknown


def _choose(
    queue: str, client_id: str, state: State | None, *, servers: str, timeout_s: float
) -> Chosen:
    from rollq.cli.choosing import choose
    from rollq.cli.grid import asked, queue_name
    from rollq.grid.matching import JobFilter

    wanted = JobFilter("" if state is None else state.value, queue_name(queue), client_id)
    return asked(servers, timeout_s, lambda client: choose(client, wanted))


def _cancel(chosen: Chosen, servers: str, timeout_s: float, *, asks: bool, as_json: bool) -> int:
    """End what was chosen, if that is confirmed; how many jobs that were."""
    from rollq.base.amounts import counted
    from rollq.cli.grid import asked
    from rollq.cli.output import remark

    for line in chosen.left:
        remark(f"rollq: {line}")
    if not chosen.ids:
        return 0
    if asks:
        what = counted(chosen.count, "job")
        if as_json or not sys.stdin.isatty():
            raise LocalError(
                ErrorCode.BAD_OPTIONS,
                f"cancelling {what} requires confirmation, and stdin is not a terminal",
                "add --yes",
            )
        typer.confirm(f"Cancel {what}?", abort=True, err=True)
    return asked(servers, timeout_s, lambda client: client.cancel(*chosen.ids))

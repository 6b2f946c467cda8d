"""`rollq cancel`: cancels jobs."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Annotated

import typer

from rollq.base.errors import ErrorCode, LocalError
from rollq.cli.options import DEFAULT_SERVERS, DEFAULT_TIMEOUT_S, Json, Servers, Timeout
from rollq.cli.stdin import is_terminal

if TYPE_CHECKING:
    from rollq.cli.choosing import MatchedJobs
    from rollq.roles.client.client import Client

EPILOG = """\b
Examples:
  rollq cancel 6f9619ff-8b86-d011-b42d-00c04fc964ff
  rollq cancel --queue render --state waiting
  rollq cancel --client nightly --yes
"""


class State(enum.StrEnum):
    """States of jobs that have not ended."""

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
    from rollq.cli.ids import with_job_ids
    from rollq.cli.output import remark, write_answer

    if bool(job_id) is bool(queue or client or state):
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            "neither ids nor filters are given, or both",
            "name ids, or use --queue, --client or --state, alone or together",
        )
    left: list[str] = []
    if job_id:
        count, left = with_job_ids(servers, timeout, job_id, _cancel_named)
        text = "nothing to cancel" if left else "nothing to cancel: already ended"
    else:
        matched = _choose(queue, client, state, servers=servers, timeout_s=timeout)
        count = _cancel(matched, servers, timeout, asks=not yes, as_json=as_json)
        text = "nothing to cancel: no job matches"
    text = f"cancelling {counted(count, 'job')}" if count else text
    write_answer({"cancelled": count}, text, as_json=as_json)
    for line in left:
        remark(f"rollq: {line}")
    if left or not count:
        raise typer.Exit(EXIT_FOUND)


async def _cancel_named(client: Client, ids: list[bytes]) -> tuple[int, list[str]]:
    """Cancel jobs by id; returns how many, and errors for ids that are unknown or of tasks that
    cannot be cancelled."""
    left = [why for one in ids if (why := await _why_left(client, one))]
    return await client.cancel(*ids), left


async def _why_left(client: Client, job_id: bytes) -> str:
    """Why a job cannot be cancelled; empty if it can, or has ended."""
    from rollq.base.ids import guid_to_text
    from rollq.base.outcomes import ENDED
    from rollq.cli.grid import unknown_job
    from rollq.roles.client.results.views import state_of

    view = await client.jobs.view(job_id)
    if view is None:
        return "" if await client.array(job_id) is not None else unknown_job(job_id).message
    if view.array_id and not view.attempt and state_of(view) not in ENDED:
        return (
            f"task {guid_to_text(job_id)} has not started: only its whole array can be cancelled, "
            f"rollq cancel {guid_to_text(view.array_id)}"
        )
    return ""


def _choose(
    queue: str, client_id: str, state: State | None, *, servers: str, timeout_s: float
) -> MatchedJobs:
    from rollq.cli.choosing import choose
    from rollq.cli.grid import queue_name, with_client
    from rollq.grid.matching import JobFilter

    wanted = JobFilter("" if state is None else state.value, queue_name(queue), client_id)
    return with_client(servers, timeout_s, lambda client: choose(client, wanted))


def _cancel(
    matched: MatchedJobs, servers: str, timeout_s: float, *, asks: bool, as_json: bool
) -> int:
    """Cancel the matching jobs after confirmation; returns how many."""
    from rollq.base.amounts import counted
    from rollq.cli.grid import with_client
    from rollq.cli.output import remark

    for line in matched.left:
        remark(f"rollq: {line}")
    if not matched.ids:
        return 0
    if asks:
        what = counted(matched.count, "job")
        if as_json or not is_terminal():
            raise LocalError(
                ErrorCode.BAD_OPTIONS,
                f"cancelling {what} requires confirmation, and stdin is not a terminal",
                "add --yes",
            )
        typer.confirm(f"Cancel {what}?", abort=True, err=True)
    return with_client(servers, timeout_s, lambda client: client.cancel(*matched.ids))

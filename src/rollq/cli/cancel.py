"""`rollq cancel`: end jobs."""

from __future__ import annotations

import typer

from rollq.cli.options import (
    DEFAULT_SERVERS,
    DEFAULT_TIMEOUT_S,
    JobIdsArgument,
    Json,
    Servers,
    Timeout,
)

EPILOG = """\b
Example:
  rollq cancel 6f9619ff-8b86-d011-b42d-00c04fc964ff
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(cancel)


def cancel(
    job_id: JobIdsArgument,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """End jobs or whole arrays.

    What waits ends at once. What runs is asked to stop, and ends when its worker has stopped it.
    Exit code 1 if there was nothing to end.
    """
    from rollq.cli.amounts import counted
    from rollq.cli.failures import EXIT_FOUND
    from rollq.cli.ids import asked_of
    from rollq.cli.output import write_answer

    count = asked_of(servers, timeout, job_id, lambda client, ids: client.cancel(*ids))
    told = f"cancelling {counted(count, 'job')}"
    told = told if count else "nothing to cancel: unknown, or ended before"
    write_answer({"cancelled": count}, told, as_json=as_json)
    if not count:
        raise typer.Exit(EXIT_FOUND)

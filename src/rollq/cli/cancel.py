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
    from rollq.cli.failures import EXIT_FOUND
    from rollq.cli.grid import job_ids
    from rollq.cli.output import write_json, write_line
    from rollq.cli.service import run

    count = run(_cancel(servers, timeout, job_ids(job_id)))
    if as_json:
        write_json({"cancelled": count})
    else:
        write_line(f"{count} to end" if count else "nothing to end: unknown, or ended before")
    if not count:
        raise typer.Exit(EXIT_FOUND)


async def _cancel(servers: str, timeout_s: float, ids: list[bytes]) -> int:
    from rollq.cli.grid import connected

    async with connected(servers, timeout_s) as client:
        return await client.cancel(*ids)

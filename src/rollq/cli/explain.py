"""`rollq explain`: why a job does not run."""

from __future__ import annotations

import typer

from rollq.cli.options import (
    DEFAULT_SERVERS,
    DEFAULT_TIMEOUT_S,
    JobIdArgument,
    Json,
    Servers,
    Timeout,
)

EPILOG = """\b
Example:
  rollq explain 6f9619ff-8b86-d011-b42d-00c04fc964ff
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(explain)


def explain(
    job_id: JobIdArgument,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Say in words why a job or an array is not running."""
    from rollq.cli.grid import job_ids
    from rollq.cli.output import write_json, write_line
    from rollq.cli.service import run

    (wanted,) = job_ids([job_id])
    why = run(_ask(servers, timeout, wanted))
    if as_json:
        write_json({"id": job_id, "why": why})
    else:
        write_line(why)


async def _ask(servers: str, timeout_s: float, job_id: bytes) -> str:
    from rollq.cli.grid import connected, unknown_job

    async with connected(servers, timeout_s) as client:
        if await client.status(job_id) is None and await client.array(job_id) is None:
            raise unknown_job(job_id)
        return str(await client.explain(job_id))

"""`rollq explain`: why a job does not run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from rollq.cli.options import (
    DEFAULT_SERVERS,
    DEFAULT_TIMEOUT_S,
    JobIdArgument,
    Json,
    Servers,
    Timeout,
)

if TYPE_CHECKING:
    from rollq.roles.client.client import Client

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
    """Explain why a job or array is not running."""
    from rollq.base.ids import guid_to_text
    from rollq.cli.ids import asked_of
    from rollq.cli.output import write_answer

    found, why = asked_of(servers, timeout, [job_id], _why)
    write_answer({"id": guid_to_text(found), "why": why}, why, as_json=as_json)


async def _why(client: Client, ids: list[bytes]) -> tuple[bytes, str]:
    from rollq.cli.grid import unknown_job

    (job_id,) = ids
    if await client.jobs.view(job_id) is None and await client.array(job_id) is None:
        raise unknown_job(job_id)
    return job_id, str(await client.explain(job_id))

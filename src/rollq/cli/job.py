"""`rollq job`: everything that is known of one job or array."""

from __future__ import annotations

from typing import Any

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
Examples:
  rollq job 6f9619ff-8b86-d011-b42d-00c04fc964ff
  rollq job 6f9619ff-8b86-d011-b42d-00c04fc964ff --json | jq -r .end.stdout
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(job)


def job(
    job_id: JobIdArgument,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Show one job or array: state, attempts, result.

    Exit code 4 if the grid does not know it. How the job itself ended does not change the exit
    code of this command.
    """
    from rollq.cli.grid import job_ids
    from rollq.cli.output import write_json
    from rollq.cli.service import run

    (wanted,) = job_ids([job_id])
    document = run(_look(servers, timeout, wanted))
    if as_json:
        write_json(document)
    else:
        show_job(document)


async def _look(servers: str, timeout_s: float, job_id: bytes) -> dict[str, Any]:
    from rollq.cli import documents
    from rollq.cli.grid import connected, unknown_job

    async with connected(servers, timeout_s) as client:
        array = await client.array(job_id)
        if array is not None:
            return {"array": documents.array_document(array)}
        view = await client.status(job_id)
        if view is None:
            raise unknown_job(job_id)
        return documents.job_document(view)


def show_job(document: dict[str, Any]) -> None:
    """A job for people: fields, past attempts, then what the program wrote."""
    from rollq.cli.output import write_fields, write_line

    if "array" in document and isinstance(document["array"], dict):
        write_fields(document["array"])
        return
    end = document.pop("end", {})
    attempts = document.pop("attempts", [])
    document.pop("changed_ms", None)
    streams = {name: end.pop(name, "") for name in ("stdout", "stderr")}
    options = " ".join(f"{name}={value}" for name, value in document.pop("options", {}).items())
    write_fields(document | {"options": options} | end)
    for one in attempts:
        write_line(f"attempt {one['attempt']}: {one['cause']} {one['detail']}".rstrip())
    for name, text in streams.items():
        if text:
            write_line(f"--- {name}")
            write_line(text.rstrip("\n"))

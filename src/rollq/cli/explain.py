"""`rollq explain`: why a job waits, or why it ended."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

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
    from rollq.roles.client.results.views import Explanation

EPILOG = """\b
Examples:
  rollq explain 6f9619ff-8b86-d011-b42d-00c04fc964ff
  rollq explain 6f9619ff --json | jq -r .code
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
    """Explain why a job or array waits, or why it failed, and which commands would help.

    The word in parentheses is stable. Exit code 4 if the job is unknown; the state of the job does
    not change the exit code.
    """
    from rollq.cli.ids import with_job_ids
    from rollq.cli.output import write_json, write_line
    from rollq.documents.jobs import explain_document

    document = explain_document(with_job_ids(servers, timeout, [job_id], _explained))
    if as_json:
        write_json(document)
    else:
        for line in lines_of(document):
            write_line(line)


def lines_of(document: dict[str, Any]) -> list[str]:
    """Format an explanation as lines."""
    from rollq.base.outcomes import DEAD, FAILED
    from rollq.cli.output import alarming, printable
    from rollq.documents.times import ago

    head = f"{document['state']} ({document['code']})"
    head = alarming(head, sys.stdout) if document["state"] in (DEAD, FAILED) else head
    lines = [f"{head}: {printable(document['why'])}"]
    if document["since_ms"]:
        lines.append(f"since {document['since']} ({ago(document['since_ms'])})")
    lines += [
        f"attempt {one['attempt']} on {one['worker']}, {one['ended']}: {printable(one['what'])}"
        for one in document.get("attempts", ())
    ]
    for one in document.get("groups", ()):
        example = f" (as {one['example']})" if one["example"] else ""
        why = printable(one["why"])
        lines.append(f"{one['count']} {one['state']} ({one['code']}): {why}{example}")
    if document["todo"]:
        lines += ["what may help:", *(f"  {command}" for command in document["todo"])]
    return lines


async def _explained(client: Client, ids: list[bytes]) -> Explanation:
    from rollq.cli.grid import unknown_job

    (job_id,) = ids
    explanation = await client.explain(job_id)
    if explanation is None:
        raise unknown_job(job_id)
    return explanation

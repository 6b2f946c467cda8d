"""`rollq job`: everything that is known of one job or array."""

from __future__ import annotations

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
    from rollq.grid.views import JobView
    from rollq.roles.client.client import Client

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
    from rollq.cli.ids import asked_of

    document = asked_of(servers, timeout, [job_id], lambda client, ids: _look(client, *ids))
    show_job(document, as_json=as_json)


async def _look(client: Client, job_id: bytes) -> dict[str, Any]:
    from rollq.cli.documents import array_document
    from rollq.cli.grid import unknown_job

    array = await client.array(job_id)
    if array is not None:
        return {"array": array_document(array)}
    view = await client.job_view(job_id)
    if view is None:
        raise unknown_job(job_id)
    return await whole_document(client, view)


async def whole_document(client: Client, view: JobView) -> dict[str, Any]:
    """One job with the name of its worker, if the grid still knows that."""
    from rollq.cli.documents import job_document
    from rollq.grid.views import WorkerView
    from rollq.roles.client.operator import decode_known

    document = job_document(view)
    if "worker" in document:
        worker = decode_known(await client.query("worker", view.worker_id), WorkerView)
        document["worker_name"] = "" if worker is None else worker.name
    return document


def _request_fields(asked: dict[str, Any]) -> dict[str, str]:
    """What a job was asked to run, as fields for people."""
    from shlex import join

    if "payload_bytes" in asked:
        return {"payload": f"{asked['payload_bytes']} bytes"}
    files = [
        one["name"]
        + (f" ({one['bytes']} bytes)" if "bytes" in one else "")
        + (f" (cache {one['cache']})" if "cache" in one else "")
        for one in asked.get("files", [])
    ]
    fields = {"args": join(asked["args"]), "files": ", ".join(files)}
    fields["env"] = " ".join(asked.get("env", []))
    return fields | ({"cut": "there was more than is shown"} if asked.get("cut") else {})


def show_job(document: dict[str, Any], *, as_json: bool) -> None:
    """A job; for people: fields, past attempts, then what the program wrote."""
    from rollq.cli.output import write_fields, write_json, write_line

    if as_json:
        write_json(document)
        return
    if "array" in document and isinstance(document["array"], dict):
        write_fields(document["array"])
        return
    name = document.pop("worker_name", "")
    if name:
        document["worker"] += f" ({name})"
    end = document.pop("end", {})
    attempts = document.pop("attempts", [])
    document.pop("changed_ms", None)
    streams = {name: end.pop(name, "") for name in ("stdout", "stderr")}
    asked = document.pop("request", None)
    if asked is not None:
        document |= _request_fields(asked)
    options = " ".join(f"{name}={value}" for name, value in document.pop("options", {}).items())
    write_fields(document | {"options": options} | end)
    for one in attempts:
        write_line(f"attempt {one['attempt']}: {one['cause']} {one['detail']}".rstrip())
    for name, text in streams.items():
        if text:
            write_line(f"--- {name}")
            write_line(text.rstrip("\n"))

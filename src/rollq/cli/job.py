"""`rollq job`: shows one job or array."""

from __future__ import annotations

from base64 import b64decode
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rollq.base.amounts import counted, size_text
from rollq.base.errors import ErrorCode, LocalError
from rollq.cli.options import (
    DEFAULT_SERVERS,
    DEFAULT_TIMEOUT_S,
    JobIdArgument,
    Json,
    Servers,
    Timeout,
)

if TYPE_CHECKING:
    from rollq.grid.views import RawJobView
    from rollq.roles.client.client import Client

EPILOG = """\b
Examples:
  rollq job 6f9619ff-8b86-d011-b42d-00c04fc964ff
  rollq job 6f9619ff-8b86-d011-b42d-00c04fc964ff --timeline
  rollq job 6f9619ff-8b86-d011-b42d-00c04fc964ff --follow
  rollq job 6f9619ff-8b86-d011-b42d-00c04fc964ff --json | jq -r .end.exit_code
"""
PARENTS_SHOWN: Final = 5
PLACE_BYTES: Final = 8  # size of the log index that follows an id


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(job)


def job(
    job_id: JobIdArgument,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    timeline: Annotated[
        bool, typer.Option("--timeline", help="Show what happened to it, from the history.")
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Show what happens to it from now on, until its end.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show one job or array: state, request, attempts, result.

    Of long output only the end is shown; `rollq logs` shows all that is kept. Exit code 4 if the
    job is unknown; the outcome of the job does not change the exit code. --timeline reads the
    history, which also has jobs that have expired (by their full id) and can be read from any
    member. --follow prints events and progress, one per line; a program reports progress by
    `rollq.progress` or the file $ROLLQ_PROGRESS.
    """
    from rollq.cli.ids import with_job_ids

    if timeline and follow:
        raise LocalError(
            ErrorCode.BAD_OPTIONS, "--timeline and --follow are given", "give one of them"
        )
    if follow:
        from rollq.cli.jobfollow import follow_job

        with_job_ids(servers, timeout, [job_id], partial(follow_job, as_json=as_json))
        return
    if timeline:
        _show_timeline(servers, timeout, job_id, as_json=as_json)
        return

    document = with_job_ids(servers, timeout, [job_id], lambda client, ids: _look(client, *ids))
    show_job(document, as_json=as_json)


def _show_timeline(servers: str, timeout_s: float, text: str, *, as_json: bool) -> None:
    """Show the events of a job. The history is read backwards until the job was accepted."""
    from rollq.base.ids import guid_to_text
    from rollq.cli.credentials import given_credentials
    from rollq.cli.grid import unknown_job
    from rollq.cli.ids import full_id
    from rollq.cli.output import write_json, write_table
    from rollq.documents.timeline import about, timeline_document
    from rollq.roles.reader.reader import Reader

    job_id = full_id(servers, timeout_s, text)
    events: list[dict[str, Any]] = []
    before = 0
    with Reader(servers, timeout_s=timeout_s, credentials=given_credentials()) as reader:
        while True:
            key = job_id + before.to_bytes(PLACE_BYTES, "big")
            _, value = reader.view("timeline", key)
            part = timeline_document(value)
            events = part["events"] + events
            before = part["before"] or 0
            if not before:
                break
    if not events:
        raise unknown_job(job_id)
    if as_json:
        write_json({"id": guid_to_text(job_id), "whole": part["whole"], "events": events})
    else:
        write_table(
            ["time", "event", "attempt", "worker", "about"],
            [
                [
                    one["at"],
                    one["event"],
                    one.get("attempt", ""),
                    _worker_label(one),
                    about(one),
                ]
                for one in events
            ],
            fits=True,
        )
    if not part["whole"]:
        floor = part["floor"]
        typer.echo(f"history up to index {floor} is gone: the beginning is not shown", err=True)


def _worker_label(event: dict[str, Any]) -> str:
    """The worker of an event: its name, or the first digits of its id."""
    from rollq.cli.ids import SHORT_DIGITS

    worker: str = event.get("worker", "")
    return worker[:SHORT_DIGITS] if worker == event.get("worker_id") else worker


async def _look(client: Client, job_id: bytes) -> dict[str, Any]:
    from rollq.cli.grid import unknown_job
    from rollq.documents.jobs import array_document, progress_document

    array = await client.array(job_id)
    if array is not None:
        return {"array": array_document(array)}
    view = await client.jobs.view(job_id)
    if view is None:
        raise unknown_job(job_id)
    document = await whole_document(client, view)
    progress = await client.progress(job_id) if view.end is None and view.worker_id else None
    if progress is not None:
        document["progress"] = progress_document(progress)
    return document


async def whole_document(client: Client, view: RawJobView) -> dict[str, Any]:
    """A job as a document, with the name of its worker if it is known."""
    from rollq.documents.jobs import job_document
    from rollq.grid.views import RawWorkerView
    from rollq.roles.client.answers import decode_known

    document = job_document(view)
    if "worker" in document:
        worker = decode_known(await client.query("worker", view.worker_id), RawWorkerView)
        document["worker_name"] = "" if worker is None else worker.name
    return document


def _request_fields(request: dict[str, Any]) -> dict[str, str]:
    """The request of a job as labelled fields."""
    from shlex import join

    if "payload_bytes" in request:
        return {"payload": counted(request["payload_bytes"], "byte")}
    files = [
        one["name"]
        + (f" ({counted(one['bytes'], 'byte')})" if "bytes" in one else "")
        + (f" (cache {one['cache']})" if "cache" in one else "")
        for one in request.get("files", [])
    ]
    fields = {"args": join(request["args"]), "input files": ", ".join(files)}
    fields["env"] = " ".join(request.get("env", []))
    return fields | ({"cut": "the request is longer than shown"} if request.get("cut") else {})


def show_job(document: dict[str, Any], *, as_json: bool) -> None:
    """Write a job as text: fields, past attempts, then its output."""
    from rollq.cli.output import write_fields, write_json, write_line

    if as_json:
        write_json(document)
        return
    if "array" in document and isinstance(document["array"], dict):
        array = document["array"]
        write_fields({name: value for name, value in array.items() if name != "delayed"})
        return
    write_fields(job_fields(document))
    for one in document.get("attempts", []):
        write_line(f"attempt {one['attempt']}: {one['cause']} {one['detail']}".rstrip())
    for name in ("stdout", "stderr"):
        if text := document.get("end", {}).get(name, ""):
            write_line(f"--- {name}{_cut_of(document, name)}")
            write_line(text.rstrip("\n"))


def _cut_of(document: dict[str, Any], name: str) -> str:
    """A remark on how much of a stream is shown, if it is not all."""
    end = document["end"]
    if f"{name}_size" not in end:
        return ""
    exact = end.get(f"{name}_base64")
    shown = len(end[name].encode() if exact is None else b64decode(exact))
    size, lost = end[f"{name}_size"], end.get(f"{name}_lost", 0)
    more = f"`rollq logs {document['id']}` shows all"
    if lost:
        more = f"{lost} bytes were not kept"
    return f" (the last {shown} of {size} bytes; {more})"


def job_fields(document: dict[str, Any]) -> dict[str, Any]:
    """A job as labelled fields; unknown or inapplicable ones are left out."""
    end = document.get("end", {})
    name = document.get("worker_name", "")
    fields = {
        **{name: document.get(name) for name in ("id", "state", "exec", "queue", "client", "key")},
        "array": document.get("array"),
        "task": document.get("task"),
        "worker": document.get("worker", "") + (f" ({name})" if name else ""),
        "attempts": document["attempt"] or None,
        "progress": document["progress"]["text"] if "progress" in document else None,
        "changed": document["changed"],
        "after": _after(document.get("parents", [])),
        "delay": f"{document['delay_ms']} ms" if "delay_ms" in document else None,
        "cancel": "requested" if document.get("cancel_requested") and not end else None,
        "fence": document.get("fence"),
        "lease": f"{document['lease_ms']} ms" if "lease_ms" in document else None,
    }
    if "request" in document:
        fields |= _request_fields(document["request"])
        fields["request"] = "changed by a redrive" if "request_changed" in document else None
    else:
        fields["body"] = counted(document["body_bytes"], "byte")
    options = document.get("options", {})
    fields["options"] = " ".join(f"{name}={_option_text(value)}" for name, value in options.items())
    return fields | (_end_fields(document) if end else {})


def _after(parents: list[dict[str, Any]]) -> str:
    """The jobs that it waits for, unmet ones first."""
    ordered = sorted(parents, key=lambda one: bool(one["met"]))
    listed = [f"{one['id']} ({one['condition']}; {one['state']})" for one in ordered]
    more = len(listed) - PARENTS_SHOWN
    return ", ".join(listed[:PARENTS_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _option_text(value: Any) -> str:
    """Format an option as on the command line: zone=a,!spot and cpu=1.5,gpu=1."""
    if isinstance(value, dict):
        return ",".join(f"{name}={one}" for name, one in value.items())
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def value_bytes(end: dict[str, Any]) -> int:
    """The size of a returned value; 0 for text, which is in stdout."""
    if "data_base64" in end:
        return len(b64decode(end["data_base64"]))
    return int(end.get("data_size", 0))


def _end_fields(document: dict[str, Any]) -> dict[str, Any]:
    from rollq.base.outcomes import CANCELLED, canceller_text
    from rollq.roles.client.results.views import cause_text

    end = document["end"]
    has_run = end["exit_code"] is not None
    detail = end.get("detail", "")
    is_canceller = bool(detail) and document["state"] == CANCELLED and not has_run
    is_canceller = is_canceller and "cause" not in end
    peak, value = end["peak_bytes"], value_bytes(end)
    return {
        "exit code": end["exit_code"],
        "signal": end.get("signal_name"),
        "run time": f"{end['run_ms']} ms" if has_run else None,
        "peak memory": size_text(peak) if peak else None,
        "cause": cause_text(end["cause"]) if "cause" in end else None,
        "cancelled by": canceller_text(detail) if is_canceller else None,
        "detail": None if is_canceller else detail,
        "note": end.get("note"),
        "value": f"{counted(value, 'byte')}: rollq logs {document['id']} > FILE" if value else None,
        "output files": ", ".join(end.get("files", [])),
        "result": "confirmed by its client" if end["confirmed"] else "not confirmed by its client",
    }

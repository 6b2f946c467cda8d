"""Jobs, their results, arrays and batches."""

from __future__ import annotations

import base64
import shlex
from typing import Any, Final

import msgspec

from rollq.base.amounts import counted
from rollq.base.ids import guid_to_text
from rollq.base.job_events import JobProgress
from rollq.base.job_secrets import asked_for
from rollq.base.jobs import DEFAULT_OPTIONS, JobOptions
from rollq.base.needs import resource_texts, token_texts
from rollq.base.outcomes import (
    CANCELLED,
    DEAD,
    DELAYED,
    FAILED,
    OK,
    RUNNING,
    WAITING,
    signal_text,
)
from rollq.base.requests import request_document
from rollq.documents.times import when
from rollq.grid.commands import NOBODY
from rollq.grid.views import RawEndView, RawJobView
from rollq.roles.client.results.result import Result, result_message
from rollq.roles.client.results.views import (
    ArrayView,
    BatchView,
    Explanation,
    ParentView,
    cause_word,
    state_of,
)
from rollq.wire.output_messages import STREAMS

SHOWN_APART: Final = ("stdout", "stderr", "stdout_base64", "stderr_base64", "data_base64")


def job_document(view: RawJobView) -> dict[str, Any]:
    """One job."""
    document: dict[str, Any] = {
        "id": guid_to_text(view.job_id),
        "state": state_of(view),
        "exec": view.exec_name,
        "queue": view.queue,
        "client": view.client_id,
        "attempt": view.attempt,
        "changed": when(view.stamp_ms),
        "changed_ms": view.stamp_ms,
        "body_bytes": view.body_bytes,
        "options": _options(view.options),
    }
    if view.request is not None:
        document["request"] = request_document(view.request)
    if view.is_changed:
        document["request_changed"] = True
    if view.key:
        document["key"] = view.key
    if view.worker_id and view.worker_id != NOBODY:
        document["worker"] = guid_to_text(view.worker_id)
    if view.state == "assigned":  # it runs
        document |= {"fence": view.fence, "lease_ms": view.lease_ms}
    if view.delay_ms:
        document["delay_ms"] = view.delay_ms
    if view.cancel_requested:
        document["cancel_requested"] = True
    if view.parents:
        document["parents"] = [
            {"id": one.job_id, "condition": one.condition, "state": one.state, "met": one.is_met}
            for one in map(ParentView.of, view.parents)
        ]
    if view.array_id:
        document["array"] = guid_to_text(view.array_id)
    if view.task is not None:
        document["task"] = view.task
    if view.end is not None:
        document["end"] = _end(view, view.end)
    if view.attempts:
        document["attempts"] = [
            {"attempt": one.attempt, "cause": cause_word(one.cause), "detail": one.detail}
            for one in view.attempts
        ]
    return document


def request_line(exec_name: str, request: dict[str, Any]) -> str:
    """What a job runs, on one line."""
    if "payload_bytes" in request:
        return f"{exec_name} with a payload of {counted(request['payload_bytes'], 'byte')}"
    files = ", ".join(one["name"] for one in request.get("files", ()))
    line = shlex.join((exec_name, *request["args"])) + (" …" if request.get("cut") else "")
    env = " ".join(request.get("env", ()))
    return line + (f", files: {files}" if files else "") + (f", env: {env}" if env else "")


def listed_document(view: RawJobView) -> dict[str, Any]:
    """A job in a list: without the output of its program."""
    document = job_document(view)
    for name in SHOWN_APART:
        document.get("end", {}).pop(name, None)
    return document


def result_document(result: Result) -> dict[str, Any]:
    """A result as its client received it. Of a stream that is not loaded only the end is shown, and
    `stdout_size` is its full size; `aload` loads it, unless `stdout_lost` bytes were not kept. A
    stream that is not UTF-8 has its exact bytes in `stdout_base64`."""
    document: dict[str, Any] = {
        "id": result.id,
        "exec": result.exec_name,
        "state": result.state,
        "status": result.status,
        "exit_code": result.exit_code,
        "signal": result.signal,
        "run_ms": result.run_ms,
        "attempts": result.attempts,
    }
    for name in STREAMS:
        document |= _stream(result, name)
    more = {
        "key": result.key,
        "signal_name": signal_text(result.signal) if result.signal else "",
        "cause": result.cause,
        "detail": result.detail,
        "note": result.note,
        **_data(result),
        "files": sorted(result.outputs),
    }
    return document | {name: value for name, value in more.items() if value}


def _stream(result: Result, name: str) -> dict[str, Any]:
    whole = result.loaded(name)
    end = result.end_of(name)
    data = end.data if whole is None else whole
    document: dict[str, Any] = {name: data.decode(errors="replace")}
    if whole is None and end.offset:
        document[f"{name}_size"] = end.total
        lost = result.stdout_lost if name == "stdout" else result.stderr_lost
        if lost:
            document[f"{name}_lost"] = lost
    try:
        data.decode()
    except UnicodeDecodeError:
        document[f"{name}_base64"] = base64.b64encode(data).decode()
    return document


def _data(result: Result) -> dict[str, Any]:
    """The bytes that a function returned."""
    data = result.loaded("data")
    if data is not None:
        return {"data_base64": base64.b64encode(data).decode()}
    return {"data_size": result.data_size}


def array_document(view: ArrayView) -> dict[str, Any]:
    """One array."""
    return {
        "id": view.array_id,
        "state": array_state(view),
        "exec": view.exec_name,
        "queue": view.queue,
        "client": view.client_id,
        "tasks": view.task_count,
        "running_max": view.running_max,
        "delayed": view.delayed,
        "waiting": view.waiting,
        "open": view.open,
        "running": view.running,
        "ok": view.ok,
        "failed": view.failed,
        "dead": view.dead,
        "cancelled": view.cancelled,
    }


def array_state(view: ArrayView) -> str:
    """The state of an array: when it has ended, the worst of its tasks."""
    if view.waiting or view.open:
        return RUNNING if view.running else DELAYED if view.delayed else WAITING
    # Tasks whose ids belong to older jobs never ran, and are in none of the counts.
    counts = {FAILED: view.failed, DEAD: view.dead}
    bad = next((word for word, count in counts.items() if count), CANCELLED)
    return OK if view.ok == view.task_count else bad


def batch_document(view: BatchView) -> dict[str, Any]:
    """A batch. Its id encodes client and key, which may contain any characters."""
    return {
        "id": batch_id(view.client_id, view.batch_key),
        "key": view.batch_key,
        "client": view.client_id,
        "state": view.state,
        "jobs": view.jobs,
        "entered": view.entered,
        "parts": view.parts,
        "since": when(view.stamp_ms) if view.stamp_ms else None,
        "since_ms": view.stamp_ms or None,
    }


def batch_id(client_id: str, batch_key: str) -> str:
    """The id of a batch, safe for URLs."""
    name = msgspec.msgpack.encode((client_id, batch_key))
    return base64.urlsafe_b64encode(name).decode().rstrip("=")


def batch_of_id(text: str) -> tuple[str, str]:
    """The client and the key of a batch, from its id.

    Raises:
        ValueError: it is not the id of a batch.
    """
    padded = text + "=" * (-len(text) % 4)
    try:
        name = base64.b64decode(padded.encode("ascii"), altchars=b"-_", validate=True)
        return msgspec.msgpack.decode(name, type=tuple[str, str])
    except (ValueError, msgspec.MsgspecError):
        raise ValueError(f"{text[:64]!r} is not the id of a batch") from None


def explain_document(view: Explanation) -> dict[str, Any]:
    """Why a job or array waits, runs, or ended as it did."""
    document: dict[str, Any] = {
        "id": view.job_id,
        "state": view.state,
        "code": view.code,
        "why": view.why,
        "todo": list(view.todo),
        "since": when(view.since_ms),
        "since_ms": view.since_ms,
    }
    if view.attempts:
        document["attempts"] = [
            {
                "attempt": one.attempt,
                "worker": one.worker,
                "what": one.what,
                "ended": when(one.stamp_ms),
                "ended_ms": one.stamp_ms,
            }
            for one in view.attempts
        ]
    if view.groups:
        document["groups"] = [
            {
                "count": one.count,
                "state": one.state,
                "code": one.code,
                "why": one.why,
                "example": one.job_id or None,
            }
            for one in view.groups
        ]
    return document


def _options(options: JobOptions) -> dict[str, Any]:
    """The options that differ from the defaults. Secrets are shown by name: only their worker has
    the values."""
    document = {
        name: getattr(options, name)
        for name in JobOptions.__struct_fields__
        if getattr(options, name) != getattr(DEFAULT_OPTIONS, name)
    }
    if options.secrets:
        document["secrets"] = asked_for(options.secrets)
    if options.resources:
        document["resources"] = resource_texts(options.resources)
    if options.limits:
        document["limits"] = token_texts(options.limits)
    return document


def _end(view: RawJobView, end: RawEndView) -> dict[str, Any]:
    document = result_document(Result(result_message(view)))
    for name in ("id", "exec", "key", "state"):
        document.pop(name, None)
    return document | {"peak_bytes": end.peak_bytes, "confirmed": end.confirmed}


def progress_document(progress: JobProgress) -> dict[str, Any]:
    """The progress that a program reports."""
    return {
        "done": progress.done,
        "total": progress.total,
        "note": progress.note,
        "text": progress.text,
    }

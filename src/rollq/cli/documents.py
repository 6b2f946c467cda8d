"""Views of the grid as documents: ids in text, names in snake case, results opened. The JSON that
`--json` prints is a promise: fields may be added, none is removed or changes its meaning."""

from __future__ import annotations

import base64
import shlex
import time
from typing import Any, Final

import msgspec

from rollq.base.hints import ExecHint
from rollq.base.ids import guid_to_text
from rollq.base.job_secrets import asked_for
from rollq.base.jobs import DEFAULT_OPTIONS, JobOptions
from rollq.base.outcomes import STATES
from rollq.base.requests import request_document
from rollq.cli.amounts import counted
from rollq.grid import views
from rollq.grid.access import AccountView, RoleView
from rollq.grid.commands import NOBODY
from rollq.grid.views import RawEndView, RawJobView, RawWorkerView
from rollq.roles.client.results import Result, result_message
from rollq.roles.client.views import ArrayView, QueueView, cause_word, signal_text, state_of
from rollq.roles.member.status import ClusterView
from rollq.wire.output_messages import STREAMS

SHOWN_APART: Final = ("stdout", "stderr", "stdout_base64", "stderr_base64", "data_base64")
HINT_COLUMNS: Final = ("exec", "p50_ms", "p95_ms", "p99_ms", "count")


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
    if view.array_id:
        document["array"] = guid_to_text(view.array_id)
    if view.end is not None:
        document["end"] = _end(view, view.end)
    if view.attempts:
        document["attempts"] = [
            {"attempt": one.attempt, "cause": cause_word(one.cause), "detail": one.detail}
            for one in view.attempts
        ]
    return document


def request_line(exec_name: str, asked: dict[str, Any]) -> str:
    """What a job was asked to run, on one line."""
    if "payload_bytes" in asked:
        return f"{exec_name} with a payload of {counted(asked['payload_bytes'], 'byte')}"
    files = ", ".join(one["name"] for one in asked.get("files", ()))
    line = shlex.join((exec_name, *asked["args"])) + (" …" if asked.get("cut") else "")
    env = " ".join(asked.get("env", ()))
    return line + (f", files: {files}" if files else "") + (f", env: {env}" if env else "")


def listed_document(view: RawJobView) -> dict[str, Any]:
    """One job of many: a list does not bring what programs wrote."""
    document = job_document(view)
    for name in SHOWN_APART:
        document.get("end", {}).pop(name, None)
    return document


def result_document(result: Result) -> dict[str, Any]:
    """How a job ended, as its client got it. A stream that is not here as a whole is shown by its
    end, and `stdout_size` tells how many bytes there are; after `aload` it is whole. One that is
    not UTF-8 has its exact bytes in `stdout_base64`."""
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
    try:
        data.decode()
    except UnicodeDecodeError:
        document[f"{name}_base64"] = base64.b64encode(data).decode()
    return document


def _data(result: Result) -> dict[str, Any]:
    """What a function returned as bytes."""
    data = result.loaded("data")
    if data is not None:
        return {"data_base64": base64.b64encode(data).decode()}
    return {"data_size": result.data_size}


def array_document(view: ArrayView) -> dict[str, Any]:
    """One array."""
    return {
        "id": view.array_id,
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


def queue_document(told: views.RawQueueView) -> dict[str, Any]:
    """One queue, or the sum of all (without a name)."""
    view = QueueView.of(told)
    document: dict[str, Any] = {"name": view.name, "paused": view.paused} if view.name else {}
    return document | {word: getattr(view, word) for word in STATES}


def worker_document(view: RawWorkerView) -> dict[str, Any]:
    """One worker."""
    return {
        "id": guid_to_text(view.worker_id),
        "name": view.name,
        "slots": view.slots,
        "running": len(view.held),
        "cpu_capped": view.is_capped,
        "layers": list(view.layers),
        "patterns": list(view.patterns),
        "jobs": [guid_to_text(job_id) for job_id in view.held],
    }


def cluster_document(view: ClusterView) -> dict[str, Any]:
    """The group. Member ids are text: they do not fit a number of JavaScript."""
    return {
        "leader": view.leader,
        "leader_id": str(view.leader_id),
        "term": view.term,
        "commit": view.commit,
        "applied": view.applied,
        "last_index": view.last_index,
        "log_hash": view.log_hash.hex(),
        "state_hash": view.state_hash.hex(),
        "members": [
            {
                "id": str(member.member_id),
                "address": member.address,
                "role": member.role,
                "match": member.match,
                "lag": member.lag,
                "active": member.active,
                "state": member.state,
                "clock_skew_ms": member.skew_ms,
            }
            for member in view.members
        ],
        "alarms": [
            {"code": alarm.code, "text": alarm.text, "todo": alarm.todo} for alarm in view.alarms
        ],
    }


def account_document(view: AccountView) -> dict[str, Any]:
    """An account, without anything that could be used to log in."""
    return {
        "name": view.name,
        "disabled": view.is_disabled,
        "roles": list(view.roles),
        "rules": [f"{rule.effect} {rule.action} {rule.resource}" for rule in view.rules],
        "tokens": [{"id": token.id, "expires_ms": token.expires_ms} for token in view.tokens],
        "keys": [key.hex() for key in view.public_keys],
    }


def role_document(view: RoleView) -> dict[str, Any]:
    """A role."""
    return {
        "name": view.name,
        "built_in": view.is_built_in,
        "rules": [f"{rule.effect} {rule.action} {rule.resource}" for rule in view.rules],
    }


def when(stamp_ms: int) -> str:
    """A stamp as people read it, in local time."""
    if not stamp_ms:
        return ""
    clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(stamp_ms / 1000))
    return f"{clock}.{stamp_ms % 1000:03d}"


def ago(document: dict[str, Any]) -> str:
    """How long ago a job changed, in one unit: 12s, 5m, 3h, 2d."""
    seconds = max(0, int(time.time() - document["changed_ms"] / 1000))
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def hint_document(hint: ExecHint) -> dict[str, Any]:
    """How long the runs of a program took."""
    return dict(zip(HINT_COLUMNS, msgspec.structs.astuple(hint), strict=True))


def _options(options: JobOptions) -> dict[str, Any]:
    """What was asked for, without what was not. Secrets are shown by their names: nobody but their
    worker has more."""
    said = {
        name: getattr(options, name)
        for name in JobOptions.__struct_fields__
        if getattr(options, name) != getattr(DEFAULT_OPTIONS, name)
    }
    if options.secrets:
        said["secrets"] = asked_for(options.secrets)
    return said


def _end(view: RawJobView, end: RawEndView) -> dict[str, Any]:
    document = result_document(Result(result_message(view)))
    for name in ("id", "exec", "key", "state"):
        document.pop(name, None)
    return document | {"peak_bytes": end.peak_bytes, "confirmed": end.confirmed}

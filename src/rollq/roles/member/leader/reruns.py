"""Jobs that are run again with a changed request.

The leader changes the request, and not the client: it has values of environment variables, which
are shown to no client."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

import msgspec

from rollq.base.digests import digest_from_text
from rollq.base.environ import check_env
from rollq.base.errors import ErrorCode, RemoteError, StateError
from rollq.base.ids import ClientId, JobId, guid_to_text
from rollq.base.jobs import DEFAULT_OPTIONS, BlobRef, JobOptions
from rollq.base.limits import INLINE_BYTES_MAX
from rollq.base.requests import MARK
from rollq.grid.attempts import files_of
from rollq.grid.commands import RedriveItem
from rollq.grid.refs import caches_of
from rollq.grid.state import DEAD, PREFIX_BYTES, GridState, JobRecord
from rollq.roles.member.leader.admin_arguments import AgainArguments, RedriveChangedArguments
from rollq.subjects.queues import queue_of
from rollq.wire.kept import BODY_MARK
from rollq.wire.messages import SubmitJob
from rollq.wire.models import JobRequest, decode_if_marked

Change: TypeAlias = RedriveChangedArguments | AgainArguments
EMPTY: Final[Mapping[str, object]] = MappingProxyType({})
NOT_KEPT: Final = "submit it anew, with its own arguments"


class RunInputs(NamedTuple):
    """The request of a job: what it runs, with the files that it needs."""

    queue: str
    exec_name: str
    options: JobOptions
    body: bytes
    blobs: tuple[BlobRef, ...]
    caches: tuple[str, ...]


NO_INPUTS: Final = RunInputs(
    queue="", exec_name="", options=DEFAULT_OPTIONS, body=b"", blobs=(), caches=()
)


def inputs_of(state: GridState, job_id: JobId) -> RunInputs:
    """The inputs of a job, or of a task that has not started.

    Raises:
        StateError: UNKNOWN_JOB; WRONG_STATE for an array, or if its request is not complete.
    """
    record = state.jobs.get(job_id)
    if record is not None:
        return _of_record(state, record)
    array = state.arrays.get(job_id[:PREFIX_BYTES])
    if array is None or (array.array_id != job_id and array.number_of(job_id) >= array.task_count):
        raise StateError(ErrorCode.UNKNOWN_JOB, f"{guid_to_text(job_id)}: no such job")
    if array.array_id == job_id:
        raise StateError(
            ErrorCode.WRONG_STATE, f"{guid_to_text(job_id)} is an array", "give the id of a task"
        )
    what = array.queue, array.exec_name, array.options, array.body
    return RunInputs(*what, array.blobs, array.caches)


def redriven(state: GridState, job_id: JobId, change: RedriveChangedArguments) -> RedriveItem:
    """The command that redrives one dead job.

    Raises:
        RollqError: unknown job, not dead, or its request cannot be changed.
    """
    record = state.jobs.get(job_id)
    if record is not None and record.state is not DEAD:  # its request may be dropped already
        text = f"{guid_to_text(job_id)}: the job is not dead"
        raise StateError(ErrorCode.WRONG_STATE, text, "submit one like it")
    queue = queue_of(change.queue) if change.queue else ""
    if not has_request_change(change):
        return RedriveItem(job_id, None, queue)
    inputs = inputs_of(state, job_id)
    return RedriveItem(job_id, changed_body(inputs.body, change), queue)


def like(state: GridState, change: AgainArguments, job_id: JobId, client_id: ClientId) -> SubmitJob:
    """The submit of a copy of a job; a copy of an array task gets its task number.

    Raises:
        RollqError: unknown job, or its request is not complete or cannot be changed.
    """
    inputs = inputs_of(state, change.job_id)
    fields: dict[str, object] = {"JobId": guid_to_text(job_id), "ClientId": client_id}
    array = state.arrays.get(change.job_id[:PREFIX_BYTES])
    if array is not None:
        fields["Task"] = array.number_of(change.job_id)
    body = changed_body(inputs.body, change, fields)
    where = change.queue or inputs.queue, inputs.exec_name
    return SubmitJob(
        job_id, client_id, *where, body, inputs.options, blobs=inputs.blobs, caches=inputs.caches
    )


def has_request_change(change: Change) -> bool:
    """Whether arguments or variables change."""
    return not change.keeps_args or bool(change.env) or bool(change.unset)


def changed_body(body: bytes, change: Change, fields: Mapping[str, object] = EMPTY) -> bytes:
    """The request with changed arguments, variables and fields. Unknown fields stay.

    Raises:
        StateError: WRONG_STATE if the request is not complete.
        RemoteError: BAD_OPTIONS if it has no arguments, or becomes too large; BAD_PAYLOAD for
            invalid variables.
    """
    if body.startswith(MARK):
        raise StateError(
            ErrorCode.WRONG_STATE, "not all of its request is kept: the job has ended", NOT_KEPT
        )
    if body.startswith(BODY_MARK):
        raise StateError(ErrorCode.WRONG_STATE, "its request is too large to be changed", NOT_KEPT)
    if decode_if_marked(body, JobRequest, "JobId") is None:
        if "Task" in fields:
            why = "a task with a payload and no arguments cannot be run again as a job of its own"
            raise RemoteError(ErrorCode.BAD_OPTIONS, why, NOT_KEPT)
        if has_request_change(change):
            raise RemoteError(ErrorCode.BAD_OPTIONS, "it has a payload and no arguments", NOT_KEPT)
        return body
    known = _decode_fields(body)
    made: dict[str, object] = dict(known)
    made.update((name, value) for name, value in fields.items() if value != "")
    if not change.keeps_args:
        made["Args"] = change.args
        made.pop("Call", None)  # text arguments replace values
    if change.env or change.unset:
        env = dict(_decode_env(known.get("Env", b"null")) or {})
        env.update(change.env)
        for name in change.unset:
            env.pop(name, None)
        check_env(env)
        made["Env"] = env
        if not env:
            del made["Env"]
    encoded = msgspec.json.encode(made)
    if len(encoded) > INLINE_BYTES_MAX:
        raise RemoteError(
            ErrorCode.BAD_OPTIONS,
            f"the request would have {len(encoded)} bytes; at most {INLINE_BYTES_MAX} fit",
            "give shorter arguments",
        )
    return encoded


def _of_record(state: GridState, record: JobRecord) -> RunInputs:
    body = state.bodies.load(record.body)
    if not body and record.array is not None:  # an ended task: its array still has the body
        body = record.array.body
    what = record.queue, record.exec_name, record.options, body
    if record.end is None or record.state is DEAD:
        return RunInputs(*what, files_of(record), caches_of(state, record.job_id))
    # An ended job holds no files; their names are only in its request.
    request = None if body.startswith(MARK) else decode_if_marked(body, JobRequest, "JobId")
    files = () if request is None else request.files or ()
    blobs = [
        BlobRef(digest_from_text(file.digest), file.size)
        for file in files
        if isinstance(file.digest, str) and isinstance(file.size, int)
    ]
    caches = dict.fromkeys(file.cache_id for file in files if file.cache_id)
    return RunInputs(*what, tuple(blobs), tuple(caches))


_decode_fields: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_env: Final = msgspec.json.Decoder(dict[str, str] | None).decode

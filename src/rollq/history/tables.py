"""The tables of the state for analytics: columns of each, and fields of results. Pure.

A row is one JSON line with the names of these fields; unset ones are omitted. A column may be
added; none is removed or changes its meaning. Ids are in their text form, times are milliseconds
since 1970 UTC, bytes are base64.

Every table is a snapshot of the state at one log index, without forgotten records. A task of an
array is a row of `jobs` from its first assignment on; tasks that never were assigned are counted in
`arrays` and `queues` alone. Jobs that were accepted with a batch and are on their way into their
queues are in `jobs` and counted in `queues` already. A job keeps its last attempts only,
ATTEMPTS_MAX of them.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from rollq.base.errors import RemoteError
from rollq.base.ids import ClientId, JobId, WorkerId, guid_to_text
from rollq.base.outcomes import exit_code_of, state_word
from rollq.wire.models import JobRequest, JobResult, decode_if_marked

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1

# What a column is beyond its Python type; nothing is checked by it.
Int: TypeAlias = Annotated[int, Meta(extra={"column": "int"})]
Time: TypeAlias = Annotated[int, Meta(extra={"column": "time"})]


class TableRow(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Base of all rows."""


class OfJob(TableRow, frozen=True):
    """Base of rows about a job: which one, and whose."""

    job_id: str = ""
    job_key: str | None = None
    client_id: str = ""
    queue: str = ""
    exec: str = ""
    array_id: str | None = None


class JobTableRow(OfJob, frozen=True):
    """`jobs`: one job, wherever it stands. From `status` on: of jobs that have ended."""

    state: str = ""  # blocked, waiting, delayed, running, ok, failed, dead, cancelled
    stamp: Time = 0  # of the last change of its state
    priority: Int = 0
    attempt: Int = 0  # starts so far
    worker_id: str | None = None  # that runs it, or gave the result
    fence: int = 0
    lease_ms: int = 0
    delay_ms: int = 0
    body_bytes: int = 0
    blob_bytes: int = 0  # of the blobs that it needs; 0 when it can never run again
    status: Int | None = None
    exit_code: Int | None = None
    signal: Int | None = None
    run_ms: int | None = None
    peak_bytes: int | None = None
    output_bytes: int | None = None  # of the blobs that it left
    cause: Int | None = None
    detail: str | None = None
    confirmed: bool | None = None  # its client has the result
    # Its request, as far as it fits; nothing of a payload.
    args: tuple[str, ...] | None = None
    files: tuple[str, ...] = ()  # names
    env: tuple[str, ...] = ()  # names


class AttemptRow(OfJob, frozen=True):
    """`attempts`: one attempt of a job, lost, running, or with a result."""

    attempt: Int = 0
    fence: int = 0  # 0: of a lost one it is not kept
    worker_id: str | None = None
    outcome: str = ""  # ok, failed, cancelled, running, lease_lost, worker_down, nacked, retried
    stamp: Time = 0  # when it ended; of one that runs, when it was assigned
    cause: Int = 0
    exit_code: Int | None = None
    signal: Int | None = None
    run_ms: int | None = None
    peak_bytes: int | None = None
    detail: str | None = None


class OutputTableRow(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A file that a job left, kept as a blob; smaller ones are in the archive."""

    name: str
    digest: str  # in hex
    size: int = 0


OUTPUTS: Final = "array<struct<name:string,digest:string,size:bigint>>"  # `OutputTableRow`s in SQL


class ResultRow(OfJob, frozen=True):
    """`results`: how a job ended, and what it said. `stdout` and `stderr` are the ends of what a
    program wrote, or the text or JSON that a function returned; `payload` is what a function
    returned if it was bytes, or a result that is not a JobResult."""

    state: str = ""  # ok, failed, dead, cancelled
    stamp: Time = 0
    attempt: Int = 0
    worker_id: str | None = None
    status: Int = 0
    exit_code: Int | None = None  # 128 + n of signal n; none if no program came to an end
    signal: Int = 0
    run_ms: int = 0
    peak_bytes: int = 0
    cause: Int = 0
    detail: str | None = None
    stdout: str | None = None
    stderr: str | None = None
    note: str | None = None
    payload: bytes | None = None
    archive: bytes | None = None  # a ZIP of the smaller outputs
    outputs: tuple[OutputTableRow, ...] = ()
    output_bytes: int = 0  # of these, and of streams that are kept as a whole


class DeadRow(OfJob, frozen=True):
    """`dlq`: a dead job with all that a redrive needs."""

    stamp: Time = 0
    priority: Int = 0
    attempt: Int = 0
    cause: Int = 0
    cause_name: str = ""
    exit_code: Int | None = None
    run_ms: int = 0
    detail: str | None = None
    stdout: str | None = None  # of the last attempt, if it gave any
    stderr: str | None = None
    args: tuple[str, ...] | None = None  # absent: the body is no JobRequest
    body: bytes = b""


class WorkerTableRow(TableRow, frozen=True):
    """`workers`: one that is up, or gone for less than its grace."""

    worker_id: str = ""
    name: str = ""
    incarnation: int = 0
    patterns: tuple[str, ...] = ()
    slots: Int = 0
    held: int = 0  # its jobs


class QueueRow(TableRow, frozen=True):
    """`queues`: how many jobs stand where. `queued` counts tasks that never were assigned too."""

    queue: str = ""
    paused: bool = False
    queued: int = 0
    delayed: int = 0
    assigned: int = 0
    done: int = 0
    dead: int = 0
    cancelled: int = 0
    failed: int = 0  # of those that are done: their program did not end well
    tasks_waiting: int = 0  # of those that are queued: tasks that have no row in `jobs`
    # the same in the words of `jobs`: queued, assigned, and done without those that failed
    waiting: int = 0
    running: int = 0
    ok: int = 0
    blocked: int = 0


class ArrayTableRow(TableRow, frozen=True):
    """`arrays`: one array, by what its tasks do."""

    array_id: str = ""
    client_id: str = ""
    queue: str = ""
    exec: str = ""
    stamp: Time = 0
    priority: Int = 0
    task_count: int = 0
    running_max: int = 0
    delayed: bool = False
    waiting: int = 0  # never assigned yet
    open: int = 0  # assigned at least once and not ended
    running: int = 0
    done: int = 0
    dead: int = 0
    cancelled: int = 0
    body_bytes: int = 0
    blob_bytes: int = 0  # of what each task needs
    ok: int = 0  # of those that are done
    failed: int = 0  # of those that are done: their program did not end well


TABLES: Final[dict[str, type[TableRow]]] = {
    "jobs": JobTableRow,
    "attempts": AttemptRow,
    "results": ResultRow,
    "dlq": DeadRow,
    "workers": WorkerTableRow,
    "queues": QueueRow,
    "arrays": ArrayTableRow,
}


class EndedJob(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """How a job ended, with its result as it is. A field may be appended with a default."""

    job_id: JobId
    job_key: str
    client_id: ClientId
    queue: str
    exec_name: str
    array_id: JobId
    state: str  # done, dead, cancelled
    stamp_ms: int
    attempt: int
    worker_id: WorkerId
    status: int
    exit_code: int
    signal: int
    run_ms: int
    peak_bytes: int
    cause: int
    detail: str
    result: bytes
    output_bytes: int


def result_row(ended: EndedJob) -> ResultRow:
    """A row of `results`."""
    said = said_in(ended.result)
    code = exit_code_of(ended.state, ended.exit_code, ended.signal, ended.run_ms)
    return ResultRow(
        guid_to_text(ended.job_id),
        ended.job_key or None,
        ended.client_id,
        ended.queue,
        ended.exec_name,
        id_text(ended.array_id),
        state_word(ended.state, ended.status),
        ended.stamp_ms,
        ended.attempt,
        id_text(ended.worker_id),
        ended.status,
        None if code is None else int32(code),
        int32(ended.signal),
        int64(ended.run_ms),
        int64(ended.peak_bytes),
        ended.cause,
        ended.detail or None,
        said.stdout,
        said.stderr,
        None if isinstance(said.note, UnsetType) else said.note,
        None if isinstance(said.data, UnsetType) else said.data,
        said.output_archive,
        ()
        if isinstance(said.outputs, UnsetType)
        else tuple([OutputTableRow(one.name, one.digest, one.size) for one in said.outputs]),
        ended.output_bytes,
    )


def said_in(result: bytes) -> JobResult:
    """The fields of a result; bytes that are not a JobResult are its data."""
    try:
        said = decode_if_marked(result, JobResult, "Status") if result else None
    except RemoteError:
        said = None
    if said is not None:
        return said
    return JobResult(
        "", None, exec_name=None, status="", stdout=None, stderr=None, data=result or UNSET
    )


def args_in(body: bytes) -> tuple[str, ...] | None:
    """The arguments of a job; None if its body is none that has any."""
    try:
        request = decode_if_marked(body, JobRequest, "JobId")
    except RemoteError:
        return None
    return None if request is None else request.args or ()


def id_text(guid: bytes) -> str | None:
    """An id as text; nothing for no id."""
    return guid_to_text(guid) if guid and any(guid) else None


def int32(value: int) -> int:
    """A number of a peer, clamped to its column. Exit codes of Windows are 32 bits, unsigned."""
    if -INT32_MAX <= value <= INT32_MAX:
        return value
    if INT32_MAX < value < 2**32:
        return value - 2**32
    return INT32_MAX if value > 0 else -INT32_MAX - 1


def int64(value: int) -> int:
    """A number of a peer, clamped to its column."""
    if -INT64_MAX <= value <= INT64_MAX:
        return value
    return INT64_MAX if value > 0 else -INT64_MAX - 1

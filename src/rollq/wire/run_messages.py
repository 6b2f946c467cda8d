"""Messages about runs: jobs that share everything but their columns.

They are used between peers with the feature `runs`, in place of one message per job, and are
equivalent to those messages in the order of the columns. Ids are concatenated, 16 bytes each; a
*position* counts the jobs of a run from 0. Payloads larger than INLINE_BYTES_MAX are never part of
a run: they are sent in single messages.
"""

from __future__ import annotations

import itertools
from itertools import repeat
from typing import Annotated, Any, Final, TypeAlias

import msgspec

from rollq.base import limits as most
from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.ids import GUID_BYTES, NIL_ID
from rollq.base.jobs import BlobRef, JobOptions
from rollq.base.staged import KEY_END, ids_of
from rollq.wire.fields import (
    Blobs,
    CacheIds,
    ClientId,
    Count,
    Duration,
    ErrorNumber,
    ExecName,
    ExitCode,
    JobStatus,
    Keyword,
    Line,
    MessageId,
    Number,
    SignalNumber,
    Subject,
    WorkerName,
)
from rollq.wire.messages import AckJob, AssignJob, ClientMessage, MemberMessage, WorkerMessage
from rollq.wire.rules import Bytes, Int, Many, OutOfBoundsError, Struct, Text

IdColumn: TypeAlias = Annotated[bytes, Bytes(GUID_BYTES * most.RUN_JOBS_MAX, GUID_BYTES)]
Payloads: TypeAlias = Annotated[
    tuple[bytes, ...], Many(most.RUN_JOBS_MAX, Bytes(most.INLINE_BYTES_MAX))
]
# Joined as in `base.staged`; empty: no job has one.
KeyColumn: TypeAlias = Annotated[
    str, Text(most.RUN_JOBS_MAX * (most.JOB_KEY_BYTES_MAX + len(KEY_END)))
]
# Of each job; empty: no job has any.
BlobColumn: TypeAlias = Annotated[
    tuple[Blobs, ...],
    Many(most.RUN_JOBS_MAX, Many(most.BLOBS_PER_JOB_MAX, Struct(BlobRef))),
]
Attempts: TypeAlias = Annotated[tuple[int, ...], Many(most.RUN_JOBS_MAX, Int(0, 2**31 - 1))]
RunTimes: TypeAlias = Annotated[tuple[int, ...], Many(most.RUN_JOBS_MAX, Int(0, most.RUN_MS_MAX))]
Positions: TypeAlias = Annotated[
    tuple[int, ...], Many(most.RUN_JOBS_MAX, Int(0, most.RUN_JOBS_MAX - 1))
]
TaskNumber: TypeAlias = Annotated[int, Int(-1, most.ARRAY_TASKS_MAX)]


class SubmitRun(ClientMessage, frozen=True, gc=False, tag=50):
    """Submit jobs, each on its own. Answered by one RunAccepted; by Error, if the shared fields are
    refused."""

    request_id: MessageId
    client_id: ClientId
    subject: Subject
    exec_name: ExecName
    job_ids: IdColumn
    bodies: Payloads
    options: JobOptions | None = None
    caches: CacheIds = ()
    keys: KeyColumn = ""
    blobs: BlobColumn = ()


class RefusedJob(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A job of a run that was refused, with the fields of Error."""

    position: Annotated[int, Int(0, most.RUN_JOBS_MAX - 1)]
    code: ErrorNumber
    message: Line
    hint: Line = ""
    retryable: bool = False


Refusals: TypeAlias = Annotated[tuple[RefusedJob, ...], Many(most.RUN_JOBS_MAX, Struct(RefusedJob))]


class RunAccepted(MemberMessage, frozen=True, gc=False, tag=51):
    """The jobs of a SubmitRun are committed, except the refused ones. `count`: the number accepted,
    now or before; `known`: those accepted before; `ended`: those of `known` that have ended."""

    request_id: MessageId
    count: Count
    known: Positions = ()
    ended: Positions = ()
    refused: Refusals = ()


class AssignRun(MemberMessage, frozen=True, gc=False, tag=52):
    """Run these attempts. Fence and task number are those of the first one; the others are
    consecutive."""

    job_ids: IdColumn
    attempt: Count
    fence: Number
    lease_ms: Duration
    subject: Subject
    exec_name: ExecName
    bodies: Payloads
    options: JobOptions | None = None
    client_id: ClientId = ""
    task_number: TaskNumber = -1  # -1: they are no tasks
    blobs: BlobColumn = ()
    expect_ms: Duration = 0


class AckRun(WorkerMessage, frozen=True, gc=False, tag=53):
    """These attempts ended."""

    acks: Annotated[tuple[AckJob, ...], Many(most.RUN_JOBS_MAX, Struct(AckJob), 1)]


class AcksTaken(MemberMessage, frozen=True, gc=False, tag=54):
    """These acks or nacks are committed, or (at these positions) were stale."""

    job_ids: IdColumn
    attempts: Attempts
    stale: Positions = ()


class ResultRun(MemberMessage, frozen=True, gc=False, tag=55):
    """These jobs ended, all in the same way."""

    job_ids: IdColumn
    results: Payloads
    outcome: Keyword
    status: JobStatus = 0
    exec_name: ExecName = ""
    exit_code: ExitCode = 0
    signal: SignalNumber = 0
    attempt: Count = 0
    cause: Count = 0
    detail: Line = ""
    client_id: ClientId = ""
    worker: WorkerName = ""
    run_ms: RunTimes = ()  # empty: 0 each
    keys: KeyColumn = ""
    blobs: BlobColumn = ()


def assignments_of(run: AssignRun) -> list[AssignJob]:
    """The single assignments of a run."""
    count = len(run.bodies)
    return list(
        map(
            AssignJob,
            ids_of(run.job_ids),
            repeat(run.attempt),
            range(run.fence, run.fence + count),
            repeat(run.lease_ms),
            repeat(run.subject),
            repeat(run.exec_name),
            run.bodies,
            repeat(run.options),
            repeat(run.client_id),
            repeat(-1) if run.task_number < 0 else itertools.count(run.task_number),
            run.blobs or repeat(()),
            repeat(run.expect_ms),
        )
    )


def check_columns(message: SubmitRun | AssignRun | AcksTaken | ResultRun) -> None:
    """Check that the columns of a run have a value for each job, and positions are in range.

    Raises:
        OutOfBoundsError: a column or position is invalid.
        RemoteError: BAD_ID, for a nil id.
    """
    kind, ids = type(message), message.job_ids
    count = len(ids) // GUID_BYTES
    if len(ids) != count * GUID_BYTES:
        raise _disagrees(kind, "job_ids", "whole ids of 16 bytes")
    if NIL_ID in ids and NIL_ID in ids_of(ids):
        raise RemoteError(
            ErrorCode.BAD_ID, f"{kind.__name__}.job_ids: an id names nothing", "send new Guids"
        )
    for name, may_be_empty in COLUMNS[kind]:
        length = len(getattr(message, name))
        if length != count and (length or not may_be_empty):
            raise _disagrees(kind, name, f"one for each of {count} jobs")
    if isinstance(message, AcksTaken):
        if message.stale and max(message.stale) >= count:
            raise _disagrees(kind, "stale", f"positions below {count}")
    elif isinstance(message, SubmitRun | ResultRun) and message.keys:
        _check_keys(kind, message.keys, count)


def _check_keys(kind: type[msgspec.Struct], joined: str, count: int) -> None:
    keys = joined.split(KEY_END)
    if len(keys) != count:
        raise _disagrees(kind, "keys", f"one for each of {count} jobs, or none")
    if max(map(len, map(str.encode, keys))) > most.JOB_KEY_BYTES_MAX:
        raise _disagrees(kind, "keys", f"at most {most.JOB_KEY_BYTES_MAX} bytes each")


def _disagrees(kind: type[msgspec.Struct], name: str, wanted: str) -> OutOfBoundsError:
    return OutOfBoundsError(
        ErrorCode.BAD_PAYLOAD,
        f"{kind.__name__}.{name} does not fit the jobs of the run",
        f"send {wanted}",
    )


# The columns of each message, and whether an empty one is valid.
COLUMNS: Final[dict[type[Any], tuple[tuple[str, bool], ...]]] = {
    SubmitRun: (("bodies", False), ("blobs", True)),
    AssignRun: (("bodies", False), ("blobs", True)),
    AcksTaken: (("attempts", False),),
    ResultRun: (("results", False), ("run_ms", True), ("blobs", True)),
}

"""Submits of a client, split into parts for groups, and the merged answers. Pure.

The jobs of a run may go to several groups, some of them later than others: each part is a run of
its own. The answers to all parts are merged into the answer to the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, TypeAlias

from msgspec import structs

from rollq.base.errors import ErrorCode
from rollq.base.ids import GUID_BYTES, JobId, MessageId
from rollq.base.staged import KEY_END, ids_of, join_keys
from rollq.wire.messages import Accepted, Error, SubmitArray, SubmitBulk, SubmitJob
from rollq.wire.run_messages import RefusedJob, ResultRun, RunAccepted, SubmitRun

Submit: TypeAlias = SubmitJob | SubmitRun | SubmitBulk | SubmitArray


@dataclass(slots=True, eq=False)
class PendingSubmit:
    """A submit with unfinished jobs.

    Attributes:
        message: As sent by the client; None: it is not kept, and cannot be sent again.
        request_id: Correlates the answer.
        job_ids: Of its jobs; of an array its own id.
        unit: The id under which it is placed as a whole; None: each job by itself.
        left: How many results are pending.
        size_bytes: Of its bodies.
        unanswered: Jobs (or the one unit) that no group has answered.
        is_answered: The client has been answered.
    """

    message: Submit | None
    request_id: MessageId
    job_ids: Sequence[JobId]
    unit: JobId | None
    left: int
    size_bytes: int
    unanswered: int
    is_answered: bool = False
    is_kept: bool = False  # its bytes are reserved in the budget
    count: int = 0
    known: list[int] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    refused: list[RefusedJob] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class SubmitPart:
    """A part of a request that was sent to one group and is unanswered."""

    request: PendingSubmit
    positions: Sequence[int]
    group: int


def request_of(message: Submit) -> PendingSubmit:
    """The request of a submit message."""
    if type(message) is SubmitJob:
        job_id = message.job_id
        return PendingSubmit(message, job_id, (job_id,), None, 1, len(message.body), 1)
    if type(message) is SubmitRun:
        job_ids = tuple(ids_of(message.job_ids))
        size = sum(map(len, message.bodies))
        count = len(job_ids)
        return PendingSubmit(message, message.request_id, job_ids, None, count, size, count)
    if type(message) is SubmitBulk:
        items = message.items
        size = sum(len(item.body) for item in items)
        ids = tuple(item.job_id for item in items)
        return PendingSubmit(
            message, message.request_id, ids, message.request_id, len(ids), size, 1
        )
    assert type(message) is SubmitArray
    array_id = message.array_id
    size = len(message.body)
    return PendingSubmit(message, array_id, (array_id,), array_id, message.task_count, size, 1)


def part_of_run(run: SubmitRun, request_id: MessageId, positions: Sequence[int]) -> SubmitRun:
    """A run of some of the jobs, in order."""
    count = len(run.bodies)
    if len(positions) == count:
        return structs.replace(run, request_id=request_id)
    ids = list(ids_of(run.job_ids))
    keys = run.keys.split(KEY_END) if run.keys else []
    return structs.replace(
        run,
        request_id=request_id,
        job_ids=b"".join(_pick(ids, positions)),
        bodies=_pick(run.bodies, positions),
        keys=join_keys(_pick(keys, positions)) if keys else "",
        blobs=_pick(run.blobs, positions) if run.blobs else (),
    )


def part_of_results(run: ResultRun, positions: Sequence[int]) -> ResultRun:
    """A run of some of the results, in order."""
    ids = [run.job_ids[at * GUID_BYTES : (at + 1) * GUID_BYTES] for at in positions]
    keys = run.keys.split(KEY_END) if run.keys else []
    return structs.replace(
        run,
        job_ids=b"".join(ids),
        results=_pick(run.results, positions),
        run_ms=_pick(run.run_ms, positions) if run.run_ms else (),
        keys=join_keys(_pick(keys, positions)) if keys else "",
        blobs=_pick(run.blobs, positions) if run.blobs else (),
    )


def record_refused(request: PendingSubmit, positions: Iterable[int], error: Error) -> None:
    """Record jobs of a run that were refused."""
    for position in positions:
        request.refused.append(
            RefusedJob(position, error.code, error.message, error.hint, error.retryable)
        )


def answer_of(request: PendingSubmit) -> RunAccepted | Accepted | Error:
    """The merged answer once all parts are answered. A submit that is not a run gets here only if
    its results came before its answer."""
    message = request.message
    if message is not None and type(message) is not SubmitRun:
        return Accepted(request.request_id, len(request.job_ids), known=True)
    refused = sorted(request.refused, key=lambda one: one.position)
    count = len(request.job_ids)
    if len(refused) == count and len({(one.code, one.message) for one in refused}) == 1:
        one = refused[0]
        return Error(request.request_id, one.code, one.message, one.hint, one.retryable)
    return RunAccepted(
        request.request_id,
        request.count,
        tuple(sorted(request.known)),
        tuple(sorted(request.ended)),
        tuple(refused),
    )


def has_files(message: Submit | None) -> bool:
    """Whether a submit refers to blobs, which only its group has; true if its message is not
    kept."""
    if isinstance(message, SubmitBulk):
        return any(item.blobs for item in message.items)
    return message is None or bool(message.blobs)


def already_pending(job_id: JobId) -> Error:
    """The error for a job that is submitted while an earlier submit of its id is unanswered."""
    return Error(
        job_id, int(ErrorCode.ID_CONFLICT), "this id is being submitted already", retryable=True
    )


def _pick(column: Sequence[object], positions: Sequence[int]) -> tuple[Any, ...]:
    if not positions:
        return ()
    first, count = positions[0], len(positions)
    if positions[-1] - first == count - 1:  # ascending, so contiguous
        return tuple(column[first : first + count])
    return tuple(itemgetter(*positions)(column))

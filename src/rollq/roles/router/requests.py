"""Submits of a client on their way through a router, and their answers put together. Pure.

The jobs of a run may go to several groups, some of them at another time than the rest: each part is
a run of its own. What the groups answer to the parts is the answer to the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TypeAlias

from msgspec import structs

from rollq.base.errors import ErrorCode
from rollq.base.ids import GUID_BYTES, JobId, MessageId
from rollq.base.staged import KEY_END, ids_of, join_keys
from rollq.wire.messages import Accepted, Error, SubmitArray, SubmitBulk, SubmitJob
from rollq.wire.run_messages import RefusedJob, ResultRun, RunAccepted, SubmitRun

Submit: TypeAlias = SubmitJob | SubmitRun | SubmitBulk | SubmitArray


@dataclass(slots=True, eq=False)
class Request:
    """A submit of which not all jobs have ended.

    Attributes:
        message: What the client sent; None: it is not kept any more, and cannot be sent again.
        request_id: What its answer names.
        job_ids: Of its jobs; of an array its own id.
        unit: Under which it is placed as a whole; None: each job by itself.
        left: How many results are to come.
        size_bytes: Of its bodies.
        unanswered: Jobs (or the one unit) that no group has answered.
        was_told: Its answer has been given.
    """

    message: Submit | None
    request_id: MessageId
    job_ids: Sequence[JobId]
    unit: JobId | None
    left: int
    size_bytes: int
    unanswered: int
    was_told: bool = False
    is_kept: bool = False  # its bytes are counted among those that are
    count: int = 0
    known: list[int] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    refused: list[RefusedJob] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Part:
    """What of a request was sent to a group under one id, and has no answer yet."""

    request: Request
    positions: Sequence[int]
    group: int


def request_of(message: Submit) -> Request:
    """A submit as it comes."""
    if type(message) is SubmitJob:
        job_id = message.job_id
        return Request(message, job_id, (job_id,), None, 1, len(message.body), 1)
    if type(message) is SubmitRun:
        job_ids = tuple(ids_of(message.job_ids))
        size = sum(map(len, message.bodies))
        count = len(job_ids)
        return Request(message, message.request_id, job_ids, None, count, size, count)
    if type(message) is SubmitBulk:
        items = message.items
        size = sum(len(item.body) for item in items)
        ids = tuple(item.job_id for item in items)
        return Request(message, message.request_id, ids, message.request_id, len(ids), size, 1)
    assert type(message) is SubmitArray
    array_id = message.array_id
    size = len(message.body)
    return Request(message, array_id, (array_id,), array_id, message.task_count, size, 1)


def part_of_run(run: SubmitRun, request_id: MessageId, positions: Sequence[int]) -> SubmitRun:
    """Some jobs of a run as one, in their order."""
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
    """Some results of a run as one, in their order."""
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


def note_refused(request: Request, positions: Iterable[int], error: Error) -> None:
    """These jobs of a run were refused."""
    for position in positions:
        request.refused.append(
            RefusedJob(position, error.code, error.message, error.hint, error.retryable)
        )


def answer_of(request: Request) -> RunAccepted | Accepted | Error:
    """The answer to a request whose parts are all answered; to one that is no run it was accepted
    before, as its results say."""
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
    """Whether a submit refers to blobs, which its group has; and so one that is not known."""
    if isinstance(message, SubmitBulk):
        return any(item.blobs for item in message.items)
    return message is None or bool(message.blobs)


def under_way(job_id: JobId) -> Error:
    """What is said of a job that is submitted while its id waits for an answer."""
    return Error(
        job_id, int(ErrorCode.ID_CONFLICT), "this id is being submitted already", retryable=True
    )


def _pick(column: Sequence[object], positions: Sequence[int]) -> tuple:  # type: ignore[type-arg]
    if not positions:
        return ()
    first, count = positions[0], len(positions)
    if positions[-1] - first == count - 1:  # they rise, so they are one piece
        return tuple(column[first : first + count])
    return tuple(itemgetter(*positions)(column))

"""Effects: what the shell of the elected leader must send. Followers produce them too and drop
them.

Effects are about runs: jobs that share what is not in a column. A single job is a run of one. Every
effect is idempotent at its receiver (job id + attempt), because a new leader derives from the state
what is still owed (`outbox`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import TypeAlias

import msgspec

from rollq.base.errors import ErrorCode
from rollq.base.ids import GUID_BYTES, ClientId, JobId, WorkerId
from rollq.base.jobs import BlobRef, JobOptions
from rollq.base.staged import KEY_END, ids_of
from rollq.grid.events import Event
from rollq.grid.state import EndRecord


class SendAssign(msgspec.Struct, frozen=True, gc=False):
    """Send a worker an attempt of each of these jobs."""

    worker_id: WorkerId
    job_ids: bytes  # one behind another
    attempt: int
    fence: int  # of the first job; the others are consecutive
    lease_ms: int
    client_id: ClientId
    queue: str
    exec_name: str
    bodies: tuple[bytes, ...]
    options: JobOptions
    task_number: int = -1  # of the first task of an array; the others are consecutive; -1: no tasks
    blobs: tuple[tuple[BlobRef, ...], ...] = ()  # blobs that each job needs; empty: none


class SendCancel(msgspec.Struct, frozen=True, gc=False):
    """Tell a worker to stop an attempt: cancelled, or not the worker's any more."""

    worker_id: WorkerId
    job_id: JobId
    attempt: int
    fence: int


class SendResult(msgspec.Struct, frozen=True, gc=False):
    """Send a client the results of its jobs; or of `count` tasks of an array, from this one on."""

    client_id: ClientId
    job_ids: bytes  # one behind another
    exec_name: str
    outcome: str  # done | dead | cancelled
    ends: tuple[EndRecord, ...]  # shared with the jobs: read before the next entry is applied
    attempt: int = 0
    count: int = 1  # number of tasks; above 1 there is one id
    keys: str = ""  # the jobs' keys: a column as in `base.staged`
    worker_id: WorkerId = b""  # the worker that gave the results


class SendDrain(msgspec.Struct, frozen=True, gc=False):
    """Tell a worker that it was drained or undrained."""

    worker_id: WorkerId
    is_drained: bool


class SendKept(msgspec.Struct, frozen=True, gc=False):
    """Send messages that were appended to a topic to its subscribers."""

    topic: str
    index: int  # of the first message; the others are consecutive
    subjects: tuple[str, ...]
    payloads: tuple[bytes, ...]
    reply_to: tuple[str, ...]  # empty: no message has one
    stamp_ms: int


class TellTopic(msgspec.Struct, frozen=True, gc=False):
    """Check the subscriptions of a topic: it was created, changed or removed, or an account lost
    the right to read it."""

    topic: str


Effect: TypeAlias = SendAssign | SendCancel | SendResult | SendDrain | SendKept | TellTopic


def each_effect(effects: Iterable[Effect]) -> Iterator[Effect]:
    """The effects, split into one job each."""
    for effect in effects:
        if isinstance(effect, SendAssign) and len(effect.job_ids) > GUID_BYTES:
            yield from _each_assignment(effect)
        elif isinstance(effect, SendResult) and len(effect.job_ids) > GUID_BYTES:
            yield from _each_result(effect)
        else:
            yield effect


def _each_assignment(effect: SendAssign) -> Iterator[SendAssign]:
    for at, job_id in enumerate(ids_of(effect.job_ids)):
        yield SendAssign(
            effect.worker_id,
            job_id,
            effect.attempt,
            effect.fence + at,
            effect.lease_ms,
            effect.client_id,
            effect.queue,
            effect.exec_name,
            effect.bodies[at : at + 1],
            effect.options,
            -1 if effect.task_number < 0 else effect.task_number + at,
            effect.blobs[at : at + 1] if any(effect.blobs[at : at + 1]) else (),
        )


def _each_result(effect: SendResult) -> Iterator[SendResult]:
    keys = effect.keys.split(KEY_END) if effect.keys else repeat("")
    for job_id, end, key in zip(ids_of(effect.job_ids), effect.ends, keys, strict=False):
        yield SendResult(
            effect.client_id,
            job_id,
            effect.exec_name,
            effect.outcome,
            (end,),
            effect.attempt,
            keys=key,
            worker_id=effect.worker_id,
        )


class Done(msgspec.Struct, frozen=True, gc=False):
    """The command was executed. `count`: the number of jobs affected."""

    count: int = 1


class Duplicate(msgspec.Struct, frozen=True, gc=False):
    """The command was applied before (idempotent repetition). `ended`: the job has ended; `count`:
    the number of jobs affected then."""

    ended: bool = False
    count: int = 1


class Refused(msgspec.Struct, frozen=True, gc=False):
    """The command changed nothing; the reason."""

    code: ErrorCode
    message: str = ""
    job_id: JobId = b""


class RunDone(msgspec.Struct, frozen=True, gc=False):
    """A run was executed for `count` of its jobs; the outcomes of the others are by position."""

    count: int
    others: tuple[tuple[int, Duplicate | Refused], ...] = ()


class Kept(msgspec.Struct, frozen=True, gc=False):
    """A topic appended `count` messages; the first has this index."""

    index: int
    count: int


Outcome: TypeAlias = Done | Duplicate | Refused | RunDone | Kept


class Applied(msgspec.Struct, gc=False):
    """The result of applying one entry: one outcome per command, in order; events; effects."""

    index: int
    stamp_ms: int
    outcomes: list[Outcome]
    events: list[Event]  # ordinal = position in this list
    effects: list[Effect]

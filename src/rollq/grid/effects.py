"""What the elected leader's shell must now do. Followers make them too and drop them.

Effects speak of runs: jobs that share what is not in a column. A lone job is a run of one.
Every effect is idempotent at its receiver (job id + attempt), because a new leader derives again
from state what is still owed (`outbox`).
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
    """Tell a worker to run an attempt of each of these jobs."""

    worker_id: WorkerId
    job_ids: bytes  # one behind another
    attempt: int
    fence: int  # of the first; those of the others count on from it
    lease_ms: int
    client_id: ClientId
    queue: str
    exec_name: str
    bodies: tuple[bytes, ...]
    options: JobOptions
    task_number: int = -1  # of an array, of the first; the others count on; -1: no tasks
    blobs: tuple[tuple[BlobRef, ...], ...] = ()  # what each needs; empty: nobody needs any


class SendCancel(msgspec.Struct, frozen=True, gc=False):
    """Tell a worker to end an attempt: cancelled by somebody, or not its own any more."""

    worker_id: WorkerId
    job_id: JobId
    attempt: int
    fence: int


class SendResult(msgspec.Struct, frozen=True, gc=False):
    """Tell a client how its jobs ended; or so many tasks of an array, from this one on."""

    client_id: ClientId
    job_ids: bytes  # one behind another
    exec_name: str
    outcome: str  # done | dead | cancelled
    ends: tuple[EndRecord, ...]  # the jobs' own: read them before the next entry is applied
    attempt: int = 0
    count: int = 1  # tasks that each id stands for; above 1 there is one id
    keys: str = ""  # what their owner calls them: a column as in `base.staged`
    worker_id: WorkerId = b""  # who gave the results


class SendDrain(msgspec.Struct, frozen=True, gc=False):
    """Tell a worker that it gets no new jobs, or does again."""

    worker_id: WorkerId
    is_drained: bool


class SendKept(msgspec.Struct, frozen=True, gc=False):
    """Hand messages that a topic has taken to whoever listens."""

    topic: str
    index: int  # of the first; the others count on from it
    subjects: tuple[str, ...]
    payloads: tuple[bytes, ...]
    reply_to: tuple[str, ...]  # empty: no message has one
    stamp_ms: int


class TellTopic(msgspec.Struct, frozen=True, gc=False):
    """Look again at who reads this topic: it was made, changed or removed, or somebody is not to
    read it any more."""

    topic: str


Effect: TypeAlias = SendAssign | SendCancel | SendResult | SendDrain | SendKept | TellTopic


def each_effect(effects: Iterable[Effect]) -> Iterator[Effect]:
    """The same with one job each."""
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
    """The command did what it asked for. `count`: how many jobs it touched."""

    count: int = 1


class Known(msgspec.Struct, frozen=True, gc=False):
    """The command was applied before (idempotent repeat). `ended`: the job has its result;
    `count`: how many jobs it touched then."""

    ended: bool = False
    count: int = 1


class Refused(msgspec.Struct, frozen=True, gc=False):
    """The command changed nothing, and why."""

    code: ErrorCode
    message: str = ""
    job_id: JobId = b""


class RunDone(msgspec.Struct, frozen=True, gc=False):
    """A run was done for `count` of its jobs, and for the others as their positions say."""

    count: int
    others: tuple[tuple[int, Known | Refused], ...] = ()


class Kept(msgspec.Struct, frozen=True, gc=False):
    """A topic took `count` messages; the first has this index."""

    index: int
    count: int


Outcome: TypeAlias = Done | Known | Refused | RunDone | Kept


class Applied(msgspec.Struct, gc=False):
    """What applying one entry gave: one outcome a command, in order; facts; duties."""

    index: int
    stamp_ms: int
    outcomes: list[Outcome]
    events: list[Event]  # ordinal = position in this list
    effects: list[Effect]

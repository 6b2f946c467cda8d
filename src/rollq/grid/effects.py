"""What the elected leader's shell must now do. Followers make them too and drop them.

Every effect is idempotent at its receiver (job id + attempt), because a new leader derives again
from state what is still owed (`outbox`).
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from rollq.base.errors import ErrorCode
from rollq.base.ids import ClientId, JobId, WorkerId
from rollq.base.jobs import BlobRef, JobOptions
from rollq.grid.events import Event
from rollq.grid.state import EndRecord


class SendAssign(msgspec.Struct, frozen=True, gc=False):
    """Tell a worker to run an attempt."""

    worker_id: WorkerId
    job_id: JobId
    attempt: int
    fence: int
    lease_ms: int
    client_id: ClientId
    queue: str
    exec_name: str
    body: bytes
    options: JobOptions
    task_number: int = -1  # of an array; -1: not a task
    blobs: tuple[BlobRef, ...] = ()  # what it needs


class SendCancel(msgspec.Struct, frozen=True, gc=False):
    """Tell a worker to end an attempt: cancelled by somebody, or not its own any more."""

    worker_id: WorkerId
    job_id: JobId
    attempt: int
    fence: int


class SendResult(msgspec.Struct, frozen=True, gc=False):
    """Tell a client how its job ended; or so many tasks of an array, from this one on."""

    client_id: ClientId
    job_id: JobId
    exec_name: str
    outcome: str  # done | dead | cancelled
    end: EndRecord  # the job's own: read it before the next entry is applied
    attempt: int = 0
    count: int = 1
    key: str = ""  # what its owner calls it
    worker_id: WorkerId = b""  # who gave the result


Effect: TypeAlias = SendAssign | SendCancel | SendResult


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


Outcome: TypeAlias = Done | Known | Refused


class Applied(msgspec.Struct, gc=False):
    """What applying one entry gave: one outcome a command, in order; facts; duties."""

    index: int
    stamp_ms: int
    outcomes: list[Outcome]
    events: list[Event]  # ordinal = position in this list
    effects: list[Effect]

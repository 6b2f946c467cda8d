"""Events and instructions of the worker's machine. Only records.

Frequent events and instructions come in runs: all messages of one read, all ends in one turn of the
loop, all results of one write. A run may have one element.

An attempt is named by its whole `AttemptRef`: a job that was forgotten and submitted again with the
same id starts at attempt 1 again, and only the fence differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from rollq.base.errors import RollqError
from rollq.base.jobs import AttemptRef, BlobRef, Status
from rollq.base.needs import WorkerLoad
from rollq.roles.dialogue import (
    Connect,
    Connected,
    Disconnect,
    Disconnected,
    Record,
    Started,
    Tick,
)
from rollq.wire.messages import AssignJob, MemberMessage, WorkerMessage
from rollq.wire.subject_messages import Publish

__all__ = [
    "CallWaits",
    "CallsEnded",
    "Connect",
    "Connected",
    "CpuBusy",
    "CpuOk",
    "Disconnect",
    "Disconnected",
    "DrainRequested",
    "DropInputs",
    "Event",
    "Exit",
    "FailJob",
    "Finished",
    "ForgetResults",
    "InputsFailed",
    "InputsReady",
    "Instruction",
    "KillJob",
    "LoadMeasured",
    "MessageReceived",
    "PrepareInputs",
    "ProgramsFound",
    "PublishRequested",
    "ResultStored",
    "SendToMember",
    "SlotsFreed",
    "StartCalls",
    "StartFailed",
    "StartJobs",
    "Started",
    "StopRequested",
    "StoreResults",
    "StoredResult",
    "Tick",
    "TurnOver",
    "UploadFailed",
    "UploadOutputs",
]


class StoredResult(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The end of an attempt in the worker's durable table, until the grid has taken it. Append
    fields only with a default; nothing else may change."""

    ref: AttemptRef
    lease_ms: int
    status: int = Status.OK
    result: bytes = b""
    exit_code: int = 0
    signal: int = 0
    run_ms: int = 0
    peak_bytes: int = 0
    blobs: tuple[BlobRef, ...] = ()  # outputs, uploaded before
    fetched_bytes: int = 0  # of its inputs: fetched for it
    held_bytes: int = 0  # of its inputs: stored already


# --- events


class MessageReceived(Record, frozen=True):
    """Messages arrived on the open connection, in this order."""

    messages: Sequence[MemberMessage]


class TurnOver(Record, frozen=True):
    """All events of a turn are handled: credit is granted now."""


class InputsReady(Record, frozen=True):
    """The inputs of these attempts are complete: they may be started."""

    refs: Sequence[AttemptRef]


class InputsFailed(Record, frozen=True):
    """The inputs of an attempt cannot be prepared here."""

    ref: AttemptRef
    error: RollqError


class SlotsFreed(Record, frozen=True):
    """Executions ended, each with its run time in milliseconds. `Finished` or `StartFailed`
    follows: outputs may have to be uploaded first."""

    runs: Sequence[tuple[AttemptRef, float]]


class CallsEnded(Record, frozen=True):
    """Calls of the line ended without waiting, each after `ran_ms` on average."""

    results: Sequence[StoredResult]
    ran_ms: float


class CallWaits(Record, frozen=True):
    """A call of the line waits: it takes the slot. The rest of the line was not started, and is not
    started any more."""

    ref: AttemptRef
    rest: Sequence[AttemptRef]  # in the order of the line


class Finished(Record, frozen=True):
    """Results of executions that ended by themselves, at a limit, or (status CANCELLED) by a
    kill."""

    results: Sequence[StoredResult]


class StartFailed(Record, frozen=True):
    """An execution could not be started, or its outputs not be stored. With `not_started` nothing
    was tried: the program is missing here."""

    ref: AttemptRef
    detail: str = ""
    not_started: bool = False


class ResultStored(Record, frozen=True):
    """Results of `StoreResults` are durable, or outputs of `UploadOutputs` are uploaded: acks may
    be sent."""

    refs: Sequence[AttemptRef]


class UploadFailed(Record, frozen=True):
    """Outputs of `UploadOutputs` are lost: only another attempt can make them again."""

    ref: AttemptRef
    detail: str


class CpuOk(Record, frozen=True):
    """The CPU load is below the cap."""


class CpuBusy(Record, frozen=True):
    """The CPU load is above the cap: hold back credit."""


class LoadMeasured(Record, frozen=True):
    """The load of the host, for the next heartbeat."""

    load: WorkerLoad


class ProgramsFound(Record, frozen=True):
    """The available programs, at the start and after changes."""

    names: frozenset[str]
    ships: bool = False  # whether shipped programs may run, too


class PublishRequested(Record, frozen=True):
    """Publish a message if there is a leader; at most once."""

    message: Publish


class DrainRequested(Record, frozen=True):
    """Finish what runs, accept nothing new, then leave."""


class StopRequested(Record, frozen=True):
    """Leave now. Running attempts are lost; waiting ones are returned."""


Event: TypeAlias = (
    Started
    | Connected
    | Disconnected
    | MessageReceived
    | TurnOver
    | InputsReady
    | InputsFailed
    | SlotsFreed
    | CallsEnded
    | CallWaits
    | Finished
    | StartFailed
    | ResultStored
    | UploadFailed
    | CpuOk
    | CpuBusy
    | LoadMeasured
    | Tick
    | ProgramsFound
    | PublishRequested
    | DrainRequested
    | StopRequested
)


# --- instructions


class SendToMember(Record, frozen=True):
    """Send messages on the open connection, in this order."""

    messages: list[WorkerMessage]


class PrepareInputs(Record, frozen=True):
    """Prepare the inputs of these attempts; answer each with `InputsReady`, `InputsFailed` or
    `StartFailed`."""

    jobs: list[tuple[AssignJob, AttemptRef]]


class DropInputs(Record, frozen=True):
    """These attempts do not start: cancel their preparation, remove their inputs. No answer."""

    refs: list[AttemptRef]


class StartJobs(Record, frozen=True):
    """Start these attempts; answer each with `Finished` or `StartFailed`, and with `SlotsFreed`
    before if its slot is free earlier."""

    jobs: list[tuple[AssignJob, AttemptRef]]


class StartCalls(Record, frozen=True):
    """Add these calls to the line, to run one after the other. Answer with `CallsEnded` for those
    that ended, and with `CallWaits` for the first that waits; if a result is not ready at the end
    of its call, answer as for `StartJobs`."""

    jobs: list[tuple[AssignJob, AttemptRef]]


class FailJob(Record, frozen=True):
    """No worker can run this job: make a result with the cause; answer with `Finished`."""

    job: AssignJob
    ref: AttemptRef
    detail: str


class KillJob(Record, frozen=True):
    """Kill the whole process tree of an execution, or cancel the upload of its outputs; answered as
    any other end."""

    ref: AttemptRef


class StoreResults(Record, frozen=True):
    """Store these durably; answer with `ResultStored`. The acks wait for it."""

    results: list[StoredResult]


class ForgetResults(Record, frozen=True):
    """The grid has taken these results, or does not need them: delete them from the table."""

    refs: list[AttemptRef]


class UploadOutputs(Record, frozen=True):
    """The group lacks blobs of this result: upload them again; answer with `ResultStored` or
    `UploadFailed`."""

    result: StoredResult


class Exit(Record, frozen=True):
    """Drained: end the process."""


Instruction: TypeAlias = (
    SendToMember
    | PrepareInputs
    | DropInputs
    | StartJobs
    | StartCalls
    | FailJob
    | KillJob
    | StoreResults
    | ForgetResults
    | UploadOutputs
    | Connect
    | Disconnect
    | Exit
)

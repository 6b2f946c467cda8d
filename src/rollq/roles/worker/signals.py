"""What the worker's machine hears (events) and asks its shell to do (instructions). Only records.

Whatever every job needs comes as a run: all that one read brought, all that ended in one turn of
the loop, all that one write made durable. A run may be as short as one.

An attempt is named by its whole `AttemptRef`: a job that was forgotten and submitted again under
the same id starts at attempt 1 once more, and only the fence tells the two apart.
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
    """How an attempt ended, as the worker's durable table keeps it until the grid has taken it.
    Fields may be appended with a default; nothing else may change."""

    ref: AttemptRef
    lease_ms: int
    status: int = Status.OK
    result: bytes = b""
    exit_code: int = 0
    signal: int = 0
    run_ms: int = 0
    peak_bytes: int = 0
    blobs: tuple[BlobRef, ...] = ()  # outputs that were uploaded before it ended
    fetched_bytes: int = 0  # of its inputs: brought for it
    held_bytes: int = 0  # of its inputs: here already


# --- events


class MessageReceived(Record, frozen=True):
    """Messages came on the open connection, in this order."""

    messages: Sequence[MemberMessage]


class TurnOver(Record, frozen=True):
    """Everything that came together has been handled: credit for all of it is granted now."""


class InputsReady(Record, frozen=True):
    """The inputs of these attempts lie in their directories: they may be started."""

    refs: Sequence[AttemptRef]


class InputsFailed(Record, frozen=True):
    """The inputs of an attempt cannot be had here."""

    ref: AttemptRef
    error: RollqError


class SlotsFreed(Record, frozen=True):
    """Executions are over, each with its run time in milliseconds. How they ended follows as
    `Finished` or `StartFailed`: what they wrote may have to be uploaded first."""

    runs: Sequence[tuple[AttemptRef, float]]


class CallsEnded(Record, frozen=True):
    """Calls of the line ended without waiting, each after `ran_ms` in the mean."""

    results: Sequence[StoredResult]
    ran_ms: float


class CallWaits(Record, frozen=True):
    """A call of the line did not end at once: the slot is its own now. The rest of the line was
    not begun, and is not begun any more."""

    ref: AttemptRef
    rest: Sequence[AttemptRef]  # in the order of the line


class Finished(Record, frozen=True):
    """How executions ended: by themselves, at a limit, or (status CANCELLED) because they were
    killed."""

    results: Sequence[StoredResult]


class StartFailed(Record, frozen=True):
    """An execution could not be started, or its outputs not be kept. With `not_started` nothing
    was tried: the program is not here."""

    ref: AttemptRef
    detail: str = ""
    not_started: bool = False


class ResultStored(Record, frozen=True):
    """Results that `StoreResults` named are durable, or what `UploadOutputs` named is uploaded:
    acks may leave."""

    refs: Sequence[AttemptRef]


class UploadFailed(Record, frozen=True):
    """What `UploadOutputs` named is lost: only another attempt can make it anew."""

    ref: AttemptRef
    detail: str


class CpuOk(Record, frozen=True):
    """The CPU is under its cap: credit may go back."""


class CpuBusy(Record, frozen=True):
    """The CPU is at its cap: keep credit back."""


class LoadMeasured(Record, frozen=True):
    """How busy the computer is: for the next heartbeat."""

    load: WorkerLoad


class ProgramsFound(Record, frozen=True):
    """What can be run here, at the start and whenever it changes."""

    names: frozenset[str]
    ships: bool = False  # programs that come with their jobs, too


class PublishRequested(Record, frozen=True):
    """Publish this, if there is a leader to say it to: it is at most once."""

    message: Publish


class DrainRequested(Record, frozen=True):
    """Finish what runs, take nothing new, then leave."""


class StopRequested(Record, frozen=True):
    """Leave now. What runs is lost to this worker; what has not begun goes back."""


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
    """Send these on the open connection, in this order."""

    messages: list[WorkerMessage]


class PrepareInputs(Record, frozen=True):
    """Bring the inputs of these attempts, each into a directory; answer each with `InputsReady`,
    `InputsFailed` or `StartFailed`."""

    jobs: list[tuple[AssignJob, AttemptRef]]


class DropInputs(Record, frozen=True):
    """These attempts will not start here: stop bringing their inputs, remove what was brought.
    Nothing is answered."""

    refs: list[AttemptRef]


class StartJobs(Record, frozen=True):
    """Run these attempts now; answer each with `Finished` or `StartFailed`, and if its slot is free
    before that, with `SlotsFreed` first."""

    jobs: list[tuple[AssignJob, AttemptRef]]


class StartCalls(Record, frozen=True):
    """Call these one after the other, behind those that stand in line already. Answer with
    `CallsEnded` for those that ended, and with `CallWaits` for the first that did not; one whose
    result is not known when it ends is answered as by `StartJobs`."""

    jobs: list[tuple[AssignJob, AttemptRef]]


class FailJob(Record, frozen=True):
    """No worker can run this job: make a result that says why; answer with `Finished`."""

    job: AssignJob
    ref: AttemptRef
    detail: str


class KillJob(Record, frozen=True):
    """End this execution's whole process tree, or the upload of what it left; it is answered as
    any other end."""

    ref: AttemptRef


class StoreResults(Record, frozen=True):
    """Make these durable; answer with `ResultStored`. The acks wait for it."""

    results: list[StoredResult]


class ForgetResults(Record, frozen=True):
    """The grid has taken them, or does not want them: they may go from the durable table."""

    refs: list[AttemptRef]


class UploadOutputs(Record, frozen=True):
    """The group lacks blobs that this result refers to: upload them again; answer with
    `ResultStored` or `UploadFailed`."""

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

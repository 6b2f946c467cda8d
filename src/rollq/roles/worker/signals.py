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

from rollq.base.jobs import AttemptRef, BlobRef, Status
from rollq.roles.dialogue import (
    Connect,
    Connected,
    Disconnect,
    Disconnected,
    Record,
    Started,
    Tick,
)
from rollq.wire.messages import AssignJob, SessionMessage

__all__ = [
    "Connect",
    "Connected",
    "CpuBusy",
    "CpuOk",
    "Disconnect",
    "Disconnected",
    "DrainRequested",
    "Event",
    "Exit",
    "Finished",
    "ForgetResults",
    "Instruction",
    "KillJob",
    "ProgramsFound",
    "Received",
    "Send",
    "StartFailed",
    "StartJobs",
    "Started",
    "StoreResults",
    "Stored",
    "StoredResult",
    "Tick",
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


class Received(Record, frozen=True):
    """Messages came on the open connection, in this order."""

    messages: Sequence[SessionMessage]


class Finished(Record, frozen=True):
    """Executions ended: by themselves, at a limit, or (status CANCELLED) because they were
    killed."""

    results: Sequence[StoredResult]


class StartFailed(Record, frozen=True):
    """An execution could not be started: no such program, no room. With `not_started` nothing was
    tried: the program is not here, or its turn did not come."""

    ref: AttemptRef
    detail: str = ""
    not_started: bool = False


class Stored(Record, frozen=True):
    """Results that `StoreResults` named are durable: acks may leave. Told once more if an ack was
    refused because the group lacked what it refers to, and has it now."""

    refs: Sequence[AttemptRef]


class CpuOk(Record, frozen=True):
    """The CPU is under its cap: credit may go back."""


class CpuBusy(Record, frozen=True):
    """The CPU is at its cap: keep credit back."""


class ProgramsFound(Record, frozen=True):
    """What can be run here, at the start and whenever it changes."""

    names: frozenset[str]
    ships: bool = False  # programs that come with their jobs, too


class DrainRequested(Record, frozen=True):
    """Finish what runs, take nothing new, then leave."""


Event: TypeAlias = (
    Started
    | Connected
    | Disconnected
    | Received
    | Finished
    | StartFailed
    | Stored
    | CpuOk
    | CpuBusy
    | Tick
    | ProgramsFound
    | DrainRequested
)


# --- instructions


class Send(Record, frozen=True):
    """Send these on the open connection, in this order."""

    messages: list[SessionMessage]


class StartJobs(Record, frozen=True):
    """Run these attempts; answer each with `Finished` or `StartFailed`."""

    jobs: list[tuple[AssignJob, AttemptRef]]


class KillJob(Record, frozen=True):
    """End this execution's whole process tree; answer with `Finished`."""

    ref: AttemptRef


class StoreResults(Record, frozen=True):
    """Make these durable; answer with `Stored`. The acks wait for it."""

    results: list[StoredResult]


class ForgetResults(Record, frozen=True):
    """The grid has taken them, or does not want them: they may go from the durable table."""

    refs: list[AttemptRef]


class Exit(Record, frozen=True):
    """Drained: end the process."""


Instruction: TypeAlias = (
    Send | StartJobs | KillJob | StoreResults | ForgetResults | Connect | Disconnect | Exit
)

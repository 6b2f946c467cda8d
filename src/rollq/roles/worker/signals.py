"""What the worker's machine hears (events) and asks its shell to do (instructions). Only records.

An attempt is named by its whole `AttemptRef`: a job that was forgotten and submitted again under
the same id starts at attempt 1 once more, and only the fence tells the two apart.

Nobody changes a record after it was made. They are not frozen, because that makes each three
times as dear to make, and every job takes a dozen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from rollq.base.jobs import AttemptRef, Status
from rollq.roles.dialogue import (
    Connect,
    Connected,
    Disconnect,
    Disconnected,
    Received,
    Send,
    Started,
    Tick,
)
from rollq.wire.messages import AssignJob

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
    "ForgetResult",
    "Instruction",
    "KillJob",
    "Received",
    "Send",
    "StartFailed",
    "StartJob",
    "Started",
    "StoreResult",
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


# --- events


@dataclass(slots=True)
class Finished:
    """An execution ended: by itself, at a limit, or (status CANCELLED) because it was killed."""

    ref: AttemptRef
    status: int = Status.OK
    result: bytes = b""
    exit_code: int = 0
    signal: int = 0
    run_ms: int = 0
    peak_bytes: int = 0


@dataclass(slots=True)
class StartFailed:
    """An execution could not be started: no such program, no room."""

    ref: AttemptRef
    detail: str = ""


@dataclass(slots=True)
class Stored:
    """The result that `StoreResult` named is durable."""

    ref: AttemptRef


@dataclass(slots=True)
class CpuOk:
    """The CPU is under its cap: credit may go back."""


@dataclass(slots=True)
class CpuBusy:
    """The CPU is at its cap: keep credit back."""


@dataclass(slots=True)
class DrainRequested:
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
    | DrainRequested
)


# --- instructions


@dataclass(slots=True)
class StartJob:
    """Run this attempt; answer with `Finished` or `StartFailed`."""

    job: AssignJob
    ref: AttemptRef


@dataclass(slots=True)
class KillJob:
    """End this execution's whole process tree; answer with `Finished`."""

    ref: AttemptRef


@dataclass(slots=True)
class StoreResult:
    """Make this durable; answer with `Stored`. The ack waits for it."""

    record: StoredResult


@dataclass(slots=True)
class ForgetResult:
    """The grid has taken it, or does not want it: it may go from the durable table."""

    ref: AttemptRef


@dataclass(slots=True)
class Exit:
    """Drained: end the process."""


Instruction: TypeAlias = (
    Send | StartJob | KillJob | StoreResult | ForgetResult | Connect | Disconnect | Exit
)

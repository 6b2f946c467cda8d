"""Events and instructions of the machine of several groups. Only records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from rollq.base.ids import JobId

# --- events


@dataclass(slots=True, frozen=True)
class GroupStarted:
    """The client was started. `now_ms` is monotonic."""

    now_ms: int


@dataclass(slots=True, frozen=True)
class GroupAdded:
    """A group was added to the table."""

    group: int


@dataclass(slots=True, frozen=True)
class GroupRemoved:
    """A group was removed from the table."""

    group: int


@dataclass(slots=True, frozen=True)
class JobsSubmitted:
    """The application submits jobs for one subject."""

    job_ids: Sequence[JobId]
    subject: str = ""


@dataclass(slots=True, frozen=True)
class Pin:
    """These jobs cannot be sent again: they must not move to another group."""

    job_ids: Sequence[JobId]


@dataclass(slots=True, frozen=True)
class JobAbandoned:
    """The application has abandoned a job."""

    job_id: JobId


@dataclass(slots=True, frozen=True)
class GroupUp:
    """The session with a group's leader is open."""

    group: int


@dataclass(slots=True, frozen=True)
class GroupDown:
    """The session with a group is lost."""

    group: int
    now_ms: int


@dataclass(slots=True, frozen=True)
class GroupAccepted:
    """A group has accepted jobs."""

    group: int
    job_ids: Sequence[JobId]


@dataclass(slots=True, frozen=True)
class GroupEnded:
    """A group sent the result of a job."""

    group: int
    job_id: JobId
    is_cancelled: bool = False


@dataclass(slots=True, frozen=True)
class GroupRefused:
    """A group refused a job."""

    group: int
    job_id: JobId


@dataclass(slots=True, frozen=True)
class MultiTick:
    """Time passes. `now_ms` is monotonic."""

    now_ms: int


Event: TypeAlias = (
    GroupStarted
    | GroupAdded
    | GroupRemoved
    | JobsSubmitted
    | Pin
    | JobAbandoned
    | GroupUp
    | GroupDown
    | GroupAccepted
    | GroupEnded
    | GroupRefused
    | MultiTick
)


# --- instructions


@dataclass(slots=True, frozen=True)
class AssignToGroup:
    """Submit the jobs to this group."""

    job_ids: tuple[JobId, ...]
    group: int


@dataclass(slots=True, frozen=True)
class StopSending:
    """Stop sending these submits to this group."""

    job_ids: tuple[JobId, ...]
    group: int


@dataclass(slots=True, frozen=True)
class CancelCopies:
    """Cancel these jobs in this group, which is up: they ended or run in another one."""

    job_ids: tuple[JobId, ...]
    group: int


@dataclass(slots=True, frozen=True)
class DeliverResult:
    """Deliver the result of this event."""

    job_id: JobId


@dataclass(slots=True, frozen=True)
class DeliverRefusal:
    """The refusal of this event is the response to the submit."""

    job_id: JobId


@dataclass(slots=True, frozen=True)
class CloseGroupSession:
    """A removed group has no jobs any more: close its session."""

    group: int


Instruction: TypeAlias = (
    AssignToGroup | StopSending | CancelCopies | DeliverResult | DeliverRefusal | CloseGroupSession
)

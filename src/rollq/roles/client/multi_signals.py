"""What the machine of several groups hears (events) and asks of its shell (instructions). Only
records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from rollq.base.ids import JobId

# --- events


@dataclass(slots=True, frozen=True)
class GroupStarted:
    """The sessions begin to look for their leaders. `now_ms` is monotonic."""

    now_ms: int


@dataclass(slots=True, frozen=True)
class GroupAdded:
    """A group has come, and is in the table."""

    group: int


@dataclass(slots=True, frozen=True)
class GroupRemoved:
    """A group is no longer one of ours, and not in the table any more."""

    group: int


@dataclass(slots=True, frozen=True)
class Submitted:
    """The application has jobs for one subject."""

    job_ids: Sequence[JobId]
    subject: str = ""


@dataclass(slots=True, frozen=True)
class Stay:
    """These jobs cannot be sent again: they stay with the group that has them."""

    job_ids: Sequence[JobId]


@dataclass(slots=True, frozen=True)
class Withdrawn:
    """The application does not want it any more."""

    job_id: JobId


@dataclass(slots=True, frozen=True)
class Up:
    """A leader of the group has welcomed us."""

    group: int


@dataclass(slots=True, frozen=True)
class Down:
    """The session with the group is lost."""

    group: int
    now_ms: int


@dataclass(slots=True, frozen=True)
class GroupAccepted:
    """A group has taken jobs."""

    group: int
    job_ids: Sequence[JobId]


@dataclass(slots=True, frozen=True)
class Ended:
    """A group sent the result of a job."""

    group: int
    job_id: JobId
    is_cancelled: bool = False


@dataclass(slots=True, frozen=True)
class GroupRefused:
    """A group will not take a job."""

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
    | Submitted
    | Stay
    | Withdrawn
    | Up
    | Down
    | GroupAccepted
    | Ended
    | GroupRefused
    | MultiTick
)


# --- instructions


@dataclass(slots=True, frozen=True)
class GroupPlace:
    """Submit the jobs to this group."""

    job_ids: tuple[JobId, ...]
    group: int


@dataclass(slots=True, frozen=True)
class TakeBack:
    """Do not send these submits to this group any more."""

    job_ids: tuple[JobId, ...]
    group: int


@dataclass(slots=True, frozen=True)
class CancelCopies:
    """Cancel these jobs in this group, which is up: they ended or run elsewhere."""

    job_ids: tuple[JobId, ...]
    group: int


@dataclass(slots=True, frozen=True)
class Accept:
    """The result at hand is the one that counts."""

    job_id: JobId


@dataclass(slots=True, frozen=True)
class Reject:
    """The refusal at hand is the job's answer."""

    job_id: JobId


@dataclass(slots=True, frozen=True)
class Leave:
    """A group that was removed has nothing of ours any more: end the session."""

    group: int


Instruction: TypeAlias = GroupPlace | TakeBack | CancelCopies | Accept | Reject | Leave

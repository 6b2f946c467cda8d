"""A client of several groups as a pure machine: which group gets which job. No IO, no clock.

Laws kept here:
- a job is with one group at a time, and waits here while none is up;
- after the start the first jobs wait until all groups are up, for MULTI_GATHER_MS at most: whoever
  answers first would get them all;
- a group is given MULTI_AHEAD jobs beyond those that it accepted; the rest waits here, and a group
  that comes up gets its share of it;
- what is with a group that vanished stays its own for a grace; then it goes to another group under
  the same id, and the copy left behind is cancelled when its group is back;
- a job does not go to a group where its copy was cancelled: it would only come back cancelled;
- the first result of a job counts, whichever group it comes from; later ones are dropped.

Across groups this is at-least-once: a group that was cut off may have run the job too.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeAlias

from rollq.base.ids import JobId
from rollq.base.limits import (
    MULTI_AHEAD,
    MULTI_COPIES_MAX,
    MULTI_GATHER_MS,
    MULTI_GRACE_MS,
)


class Policy(enum.StrEnum):
    """How a group is chosen among those that are up."""

    ROUND_ROBIN = "round-robin"
    LEAST_INFLIGHT = "least-inflight"


# --- events


@dataclass(slots=True, frozen=True)
class GroupStarted:
    """The sessions begin to look for their leaders. `now_ms` is monotonic."""

    now_ms: int


@dataclass(slots=True, frozen=True)
class Submitted:
    """The application has a job."""

    job_id: JobId


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
    """A group has taken a job."""

    group: int
    job_id: JobId


@dataclass(slots=True, frozen=True)
class Ended:
    """A group sent a result."""

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
    | Submitted
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
    """Submit the job to this group."""

    job_id: JobId
    group: int


@dataclass(slots=True, frozen=True)
class TakeBack:
    """Do not send this submit to this group any more."""

    job_id: JobId
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


Instruction: TypeAlias = GroupPlace | TakeBack | CancelCopies | Accept | Reject


@dataclass(slots=True)
class GroupState:
    """One group: whether it can be reached, and what it has."""

    is_up: bool = False
    grace_until_ms: int | None = None  # set while it is gone and still owns its jobs
    inflight: dict[JobId, None] = field(default_factory=dict)
    unanswered: dict[JobId, None] = field(default_factory=dict)  # of these, not accepted yet
    copies: dict[JobId, None] = field(default_factory=dict)  # left behind, to be cancelled


class MultiMachine:
    """Pending jobs, and who has the others. `handle` is the only mutator."""

    def __init__(self, group_count: int, policy: Policy = Policy.ROUND_ROBIN) -> None:
        self.groups = [GroupState() for _ in range(group_count)]
        self._policy = policy
        self._pending: dict[JobId, None] = {}  # with no group, in the order of their coming
        self._owner: dict[JobId, int] = {}
        self._spent: dict[JobId, tuple[int, ...]] = {}  # groups that cancelled a copy of it
        self._next = 0
        self._gather_until_ms: int | None = None  # set while the first jobs wait for all groups
        self._out: list[Instruction] = []

    def handle(self, event: Event) -> list[Instruction]:
        """Take one event; what the shell must now do, in order."""
        out: list[Instruction] = []
        self._out = out
        HANDLERS[type(event)](self, event)
        return out

    @property
    def pending_count(self) -> int:
        """Jobs that no group has."""
        return len(self._pending)

    def group_of(self, job_id: JobId) -> GroupState | None:
        """The group that has a job, if it can be reached."""
        owner = self._owner.get(job_id)
        return self.groups[owner] if owner is not None and self.groups[owner].is_up else None

    def owner_of(self, job_id: JobId) -> int | None:
        """The number of the group that has a job."""
        return self._owner.get(job_id)

    def is_open(self, job_id: JobId) -> bool:
        """Whether a job was submitted here and has not ended."""
        return job_id in self._owner or job_id in self._pending

    def _on_started(self, event: GroupStarted) -> None:
        self._gather_until_ms = event.now_ms + MULTI_GATHER_MS

    def _on_submitted(self, event: Submitted) -> None:
        self._pending[event.job_id] = None
        number = self._choose(event.job_id)
        if number is not None:
            self._place(event.job_id, number)

    def _on_accepted(self, event: GroupAccepted) -> None:
        if self.groups[event.group].unanswered.pop(event.job_id, self) is None:
            self._place_pending()

    def _on_withdrawn(self, event: Withdrawn) -> None:
        owner = self._close(event.job_id)
        if owner is not None:
            self._drop_copy(event.job_id, owner)
            self._place_pending()

    def _on_up(self, event: Up) -> None:
        group = self.groups[event.group]
        group.is_up = True
        group.grace_until_ms = None
        if all(one.is_up for one in self.groups):
            self._gather_until_ms = None
        # What nobody else has taken meanwhile goes on where it was.
        for job_id in [one for one in group.copies if one in self._pending]:
            self._place(job_id, event.group)
        if group.copies:
            self._out.append(CancelCopies(tuple(group.copies), event.group))
            for job_id in group.copies:
                if job_id in self._owner:
                    self._spent[job_id] = (*self._spent.get(job_id, ()), event.group)
            group.copies.clear()
        self._place_pending()

    def _on_down(self, event: Down) -> None:
        group = self.groups[event.group]
        group.is_up = False
        group.grace_until_ms = event.now_ms + MULTI_GRACE_MS

    def _on_tick(self, event: MultiTick) -> None:
        if self._gather_until_ms is not None and event.now_ms >= self._gather_until_ms:
            self._gather_until_ms = None
        for number, group in enumerate(self.groups):
            until_ms = group.grace_until_ms
            if until_ms is not None and event.now_ms >= until_ms:
                group.grace_until_ms = None
                self._reclaim(number)
        self._place_pending()

    def _on_ended(self, event: Ended) -> None:
        job_id = event.job_id
        owner = self._owner.get(job_id)
        # Nobody asks any more, or it is the echo of our own cancelling of a copy.
        if not self.is_open(job_id) or (event.is_cancelled and owner != event.group):
            return
        self._close(job_id)
        self.groups[event.group].copies.pop(job_id, None)
        self._out.append(Accept(job_id))
        if owner is not None and owner != event.group:
            self._drop_copy(job_id, owner)
        self._place_pending()

    def _on_refused(self, event: GroupRefused) -> None:
        if self._owner.get(event.job_id) == event.group:
            self._close(event.job_id)
            self._out.append(Reject(event.job_id))
            self._place_pending()

    # --- helpers

    def _choose(self, job_id: JobId) -> int | None:
        """The group that a job goes to."""
        if self._gather_until_ms is not None:
            return None
        spent = self._spent.get(job_id, ())
        fit = [n for n, group in enumerate(self.groups) if _room(group) and n not in spent]
        if not fit:
            return None
        chosen = min(fit, key=lambda number: (number - self._next) % len(self.groups))
        if self._policy is Policy.LEAST_INFLIGHT:
            chosen = min(fit, key=lambda number: (len(self.groups[number].inflight), number))
        self._next = (chosen + 1) % len(self.groups)
        return chosen

    def _place_pending(self) -> None:
        room = sum(map(_room, self.groups))
        if not self._pending or not room:
            return
        # No more than can be placed are looked at, but for those that not every group may have.
        for job_id in list(islice(self._pending, room + len(self._spent))):
            number = self._choose(job_id)
            if number is not None:
                self._place(job_id, number)

    def _place(self, job_id: JobId, number: int) -> None:
        group = self.groups[number]
        del self._pending[job_id]
        group.copies.pop(job_id, None)
        group.inflight[job_id] = None
        group.unanswered[job_id] = None
        self._owner[job_id] = number
        self._out.append(GroupPlace(job_id, number))

    def _close(self, job_id: JobId) -> int | None:
        """Forget a job; returns the group that had it."""
        self._pending.pop(job_id, None)
        self._spent.pop(job_id, None)
        owner = self._owner.pop(job_id, None)
        if owner is not None:
            del self.groups[owner].inflight[job_id]
            self.groups[owner].unanswered.pop(job_id, None)
        return owner

    def _reclaim(self, number: int) -> None:
        """Its grace is over: its jobs go before those that came later."""
        inflight = self.groups[number].inflight
        for job_id in inflight:
            del self._owner[job_id]
            self._out.append(TakeBack(job_id, number))
            self._remember_copy(job_id, number)
        self._pending = {**inflight, **self._pending}
        self.groups[number].inflight = {}
        self.groups[number].unanswered = {}

    def _drop_copy(self, job_id: JobId, number: int) -> None:
        """The group's copy is of no use any more: cancel it now, or when the group is back."""
        self._out.append(TakeBack(job_id, number))
        if self.groups[number].is_up:
            self._out.append(CancelCopies((job_id,), number))
        else:
            self._remember_copy(job_id, number)

    def _remember_copy(self, job_id: JobId, number: int) -> None:
        copies = self.groups[number].copies
        copies[job_id] = None
        if len(copies) > MULTI_COPIES_MAX:
            del copies[next(iter(copies))]


def _room(group: GroupState) -> int:
    """How many jobs a group may be given now."""
    return max(0, MULTI_AHEAD - len(group.unanswered)) if group.is_up else 0


HANDLERS: dict[type, Callable[[MultiMachine, Any], None]] = {
    GroupStarted: MultiMachine._on_started,
    GroupAccepted: MultiMachine._on_accepted,
    Submitted: MultiMachine._on_submitted,
    Withdrawn: MultiMachine._on_withdrawn,
    Up: MultiMachine._on_up,
    Down: MultiMachine._on_down,
    Ended: MultiMachine._on_ended,
    GroupRefused: MultiMachine._on_refused,
    MultiTick: MultiMachine._on_tick,
}


def share(total: int, group_count: int) -> int:
    """One group's part of a total cap; 0 is no cap. Never more than the total, unless there are
    more groups than that: nobody is left with nothing."""
    return max(1, total // group_count) if total > 0 else 0

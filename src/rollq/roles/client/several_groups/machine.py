"""A client of several groups as a state machine: assigns jobs to groups. No IO, no clock.

Invariants:
- a job is assigned to one group of its route at a time, and is pending while none of them is up;
- after the start, jobs are pending until all groups are up, for MULTI_GATHER_MS at most: otherwise
  the first group to connect would get them all;
- a group gets at most MULTI_AHEAD jobs that it has not accepted yet. The rest is pending, and a
  group that comes up gets its share of it;
- jobs of a lost group move to other groups under the same ids: unanswered ones after
  MULTI_AWAY_MS, accepted ones after MULTI_GRACE_MS. The copy is cancelled when its group is
  reachable again. Jobs of a removed group move at once;
- jobs that cannot be sent again (`Pin`) do not move;
- a job does not return to a group where its copy was cancelled: it would end as cancelled;
- the first result of a job counts, whichever group sends it; later ones are dropped.

Across groups this is at-least-once: a group that was cut off may have run the job too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from rollq.base.ids import JobId
from rollq.base.limits import (
    MULTI_AHEAD,
    MULTI_COPIES_MAX,
    MULTI_GATHER_MS,
    MULTI_GRACE_MS,
)
from rollq.base.router_limits import MULTI_AWAY_MS
from rollq.roles.client.several_groups.routes import GroupTable, Policy, RouteState
from rollq.roles.client.several_groups.signals import (
    AssignToGroup,
    CancelCopies,
    CloseGroupSession,
    DeliverRefusal,
    DeliverResult,
    Event,
    GroupAccepted,
    GroupAdded,
    GroupDown,
    GroupEnded,
    GroupRefused,
    GroupRemoved,
    GroupStarted,
    GroupUp,
    Instruction,
    JobAbandoned,
    JobsSubmitted,
    MultiTick,
    Pin,
    StopSending,
)


@dataclass(slots=True)
class GroupJobs:
    """The state of one group."""

    is_up: bool = False
    is_leaving: bool = False  # removed, but it has jobs that cannot move
    away_until_ms: int | None = None  # while it is lost: when its unanswered jobs move
    grace_until_ms: int | None = None  # while it is lost: when its accepted jobs move
    inflight: dict[JobId, None] = field(default_factory=dict)
    unanswered: dict[JobId, None] = field(default_factory=dict)  # of these, not accepted yet
    copies: dict[JobId, None] = field(default_factory=dict)  # moved to others, to be cancelled here


class MultiMachine:
    """Pending jobs, and the assignment of the others. Only `handle` changes state.

    Args:
        table: The groups and the routes; may be shared by several machines.
    """

    def __init__(self, table: GroupTable) -> None:
        self.groups = {number: GroupJobs() for number in table.names}
        self._table = table
        # Unassigned jobs in the order of submission, by route.
        self._pending: dict[RouteState, dict[JobId, None]] = {}
        self._owner: dict[JobId, int] = {}
        self._route_of: dict[JobId, RouteState] = {}  # routes of open jobs, except the default one
        self._cancelled_in: dict[
            JobId, tuple[int, ...]
        ] = {}  # groups that cancelled a copy of the job
        self._pinned: dict[JobId, None] = {}
        self._gather_until_ms: int | None = None  # while jobs wait for all groups to come up
        self._out: list[Instruction] = []

    def handle(self, event: Event) -> list[Instruction]:
        """Handle one event; returns the instructions for the shell, in order."""
        out: list[Instruction] = []
        self._out = out
        number = getattr(event, "group", None)
        if number is not None and number not in self.groups and type(event) is not GroupAdded:
            return out  # a late event of a removed group
        HANDLERS[type(event)](self, event)
        return out

    def discard(self) -> None:
        """This machine is not used any more: subtract its jobs from the load of the shared
        table."""
        for number, group in self.groups.items():
            self._table.load[number] -= len(group.inflight)
            group.inflight = {}

    @property
    def pending_count(self) -> int:
        """The number of unassigned jobs."""
        return sum(map(len, self._pending.values()))

    def group_of(self, job_id: JobId) -> GroupJobs | None:
        """The group that a job is assigned to, if it can be reached."""
        owner = self._owner.get(job_id)
        return self.groups[owner] if owner is not None and self.groups[owner].is_up else None

    def owner_of(self, job_id: JobId) -> int | None:
        """The number of the group that a job is assigned to."""
        return self._owner.get(job_id)

    def is_open(self, job_id: JobId) -> bool:
        """Whether a job was submitted here and has not ended."""
        return job_id in self._owner or any(job_id in queue for queue in self._pending.values())

    # --- groups

    def _on_started(self, event: GroupStarted) -> None:
        self._gather_until_ms = event.now_ms + MULTI_GATHER_MS

    def _on_added(self, event: GroupAdded) -> None:
        self.groups[event.group] = GroupJobs()

    def _on_removed(self, event: GroupRemoved) -> None:
        number = event.group
        group = self.groups[number]
        group.is_leaving = True
        moved = self._movable(group.inflight)
        self._reclaim(number, moved)
        if group.is_up and group.copies:
            self._out.append(CancelCopies(tuple(group.copies), number))
        group.copies.clear()
        self._close_if_empty(number)
        self._end_gathering()
        self._place_pending()

    def _on_up(self, event: GroupUp) -> None:
        group = self.groups[event.group]
        group.is_up = True
        group.away_until_ms = group.grace_until_ms = None
        self._end_gathering()
        # Jobs that are still pending return to this group.
        for queue in self._pending.values() if group.copies else ():
            kept = tuple([job_id for job_id in group.copies if job_id in queue])
            if kept:
                self._place(kept, event.group, queue)
        if group.copies:
            self._out.append(CancelCopies(tuple(group.copies), event.group))
            for job_id in group.copies:
                if job_id in self._owner:
                    self._cancelled_in[job_id] = (*self._cancelled_in.get(job_id, ()), event.group)
            group.copies.clear()
        self._place_pending()

    def _end_gathering(self) -> None:
        if all(group.is_up or group.is_leaving for group in self.groups.values()):
            self._gather_until_ms = None

    def _on_down(self, event: GroupDown) -> None:
        group = self.groups[event.group]
        group.is_up = False
        group.away_until_ms = event.now_ms + MULTI_AWAY_MS
        group.grace_until_ms = event.now_ms + MULTI_GRACE_MS

    def _on_tick(self, event: MultiTick) -> None:
        if self._gather_until_ms is not None and event.now_ms >= self._gather_until_ms:
            self._gather_until_ms = None
        for number, group in self.groups.items():
            away_ms, grace_ms = group.away_until_ms, group.grace_until_ms
            if away_ms is not None and event.now_ms >= away_ms:
                group.away_until_ms = None
                self._reclaim(number, self._movable(group.unanswered))
            if grace_ms is not None and event.now_ms >= grace_ms:
                group.grace_until_ms = None
                self._reclaim(number, self._movable(group.inflight))
        self._place_pending()

    # --- jobs

    def _on_submitted(self, event: JobsSubmitted) -> None:
        route = self._table.route_for(event.subject)
        if route is not self._table.default:
            self._route_of.update(dict.fromkeys(event.job_ids, route))
        self._pending.setdefault(route, {}).update(dict.fromkeys(event.job_ids))
        self._place_pending()

    def _on_pin(self, event: Pin) -> None:
        owner = self._owner
        self._pinned.update(dict.fromkeys(one for one in event.job_ids if one in owner))

    def _on_accepted(self, event: GroupAccepted) -> None:
        unanswered = self.groups[event.group].unanswered
        before = len(unanswered)
        for job_id in event.job_ids:
            unanswered.pop(job_id, None)
        if len(unanswered) < before:
            self._place_pending()

    def _on_abandoned(self, event: JobAbandoned) -> None:
        owner = self._close(event.job_id)
        if owner is not None:
            self._drop_copy(event.job_id, owner)
            self._close_if_empty(owner)
            self._place_pending()

    def _on_ended(self, event: GroupEnded) -> None:
        job_id = event.job_id
        owner = self._owner.get(job_id)
        # From a copy that this client cancelled, or the job was abandoned.
        if (event.is_cancelled and owner != event.group) or not (
            owner is not None or self.is_open(job_id)
        ):
            return
        had_room = owner is not None and job_id in self.groups[owner].unanswered
        self._close(job_id)
        self.groups[event.group].copies.pop(job_id, None)
        self._table.ended[event.group] += 1
        self._out.append(DeliverResult(job_id))
        if owner is not None and owner != event.group:
            self._drop_copy(job_id, owner)
        if owner is not None:
            self._close_if_empty(owner)
        if had_room:
            self._place_pending()

    def _on_refused(self, event: GroupRefused) -> None:
        if self._owner.get(event.job_id) == event.group:
            self._close(event.job_id)
            self._out.append(DeliverRefusal(event.job_id))
            self._close_if_empty(event.group)
            self._place_pending()

    # --- helpers

    def _place_pending(self) -> None:
        if self._gather_until_ms is not None or not self._pending:
            return
        for route, queue in list(self._pending.items()):
            rooms = self._rooms(route)
            if rooms and self._cancelled_in:
                self._place_restricted(route, queue, rooms)
            if rooms and queue:
                self._share_out(route, queue, rooms)
            if not queue:
                del self._pending[route]

    def _rooms(self, route: RouteState) -> dict[int, int]:
        """How many jobs each group of a route can take now; groups that can take none are left
        out."""
        rooms: dict[int, int] = {}
        for number in route.weights:
            group = self.groups.get(number)
            if group is not None and group.is_up and not group.is_leaving:
                room = MULTI_AHEAD - len(group.unanswered)
                if room > 0:
                    rooms[number] = room
        return rooms

    def _place_restricted(
        self, route: RouteState, queue: dict[JobId, None], rooms: dict[int, int]
    ) -> None:
        """Assign the jobs at the front of the queue that some groups must not get."""
        for job_id in self._ahead(queue, sum(rooms.values()))[1]:
            cancelled_in = self._cancelled_in[job_id]
            fit = {number: 1 for number in rooms if number not in cancelled_in}
            for number in self._shares(route, fit, 1):
                self._place((job_id,), number, queue)
                rooms[number] -= 1
                if not rooms[number]:
                    del rooms[number]

    def _share_out(
        self, route: RouteState, queue: dict[JobId, None], rooms: dict[int, int]
    ) -> None:
        fit, _ = self._ahead(queue, sum(rooms.values()))
        coming = iter(fit)
        for number, count in self._shares(route, rooms, len(fit)).items():
            self._place(tuple(islice(coming, count)), number, queue)

    def _ahead(self, queue: Iterable[JobId], count: int) -> tuple[list[JobId], list[JobId]]:
        """Up to `count` jobs from the front of a queue that every group may get, and the jobs
        between them that some groups must not get."""
        fit: list[JobId] = []
        others: list[JobId] = []
        for job_id in queue:
            if len(fit) >= count:
                break
            (others if job_id in self._cancelled_in else fit).append(job_id)
        return fit, others

    def _shares(self, route: RouteState, rooms: dict[int, int], count: int) -> dict[int, int]:
        load = self._table.load
        is_least = self._table.policy is Policy.LEAST_INFLIGHT
        return route.shares(rooms, count, load.__getitem__ if is_least else None)

    def _place(self, job_ids: tuple[JobId, ...], number: int, queue: dict[JobId, None]) -> None:
        group = self.groups[number]
        for job_id in job_ids:
            del queue[job_id]
            if group.copies:
                group.copies.pop(job_id, None)
        placed = dict.fromkeys(job_ids)
        group.inflight.update(placed)
        group.unanswered.update(placed)
        self._owner.update(dict.fromkeys(job_ids, number))
        self._table.load[number] += len(job_ids)
        self._out.append(AssignToGroup(job_ids, number))

    def _close(self, job_id: JobId) -> int | None:
        """Remove a job; returns the group that it was assigned to."""
        self._cancelled_in.pop(job_id, None)
        self._pinned.pop(job_id, None)
        route = self._route_of.pop(job_id, self._table.default)
        owner = self._owner.pop(job_id, None)
        if owner is None:
            queue = self._pending.get(route, {})
            queue.pop(job_id, None)
            if not queue:
                self._pending.pop(route, None)
            return None
        group = self.groups[owner]
        del group.inflight[job_id]
        group.unanswered.pop(job_id, None)
        self._table.load[owner] -= 1
        return owner

    def _movable(self, job_ids: Iterable[JobId]) -> tuple[JobId, ...]:
        staying = self._pinned
        return tuple(one for one in job_ids if one not in staying)

    def _reclaim(self, number: int, job_ids: tuple[JobId, ...]) -> None:
        """Take jobs back from a group; they become pending again, before all others."""
        if not job_ids:
            return
        group = self.groups[number]
        back: dict[RouteState, dict[JobId, None]] = {}
        for job_id in job_ids:
            del self._owner[job_id]
            del group.inflight[job_id]
            group.unanswered.pop(job_id, None)
            self._remember_copy(job_id, number)
            back.setdefault(self._route_of.get(job_id, self._table.default), {})[job_id] = None
        self._table.load[number] -= len(job_ids)
        self._out.append(StopSending(job_ids, number))
        for route, queue in back.items():
            self._pending[route] = {**queue, **self._pending.get(route, {})}

    def _drop_copy(self, job_id: JobId, number: int) -> None:
        """Cancel a group's copy of a job, now or when the group is reachable again."""
        self._out.append(StopSending((job_id,), number))
        if self.groups[number].is_up:
            self._out.append(CancelCopies((job_id,), number))
        else:
            self._remember_copy(job_id, number)

    def _remember_copy(self, job_id: JobId, number: int) -> None:
        copies = self.groups[number].copies
        copies[job_id] = None
        if len(copies) > MULTI_COPIES_MAX:
            del copies[next(iter(copies))]

    def _close_if_empty(self, number: int) -> None:
        group = self.groups[number]
        if group.is_leaving and not group.inflight:
            del self.groups[number]
            self._out.append(CloseGroupSession(number))


HANDLERS: dict[type, Callable[[MultiMachine, Any], None]] = {
    GroupStarted: MultiMachine._on_started,
    GroupAdded: MultiMachine._on_added,
    GroupRemoved: MultiMachine._on_removed,
    GroupAccepted: MultiMachine._on_accepted,
    JobsSubmitted: MultiMachine._on_submitted,
    Pin: MultiMachine._on_pin,
    JobAbandoned: MultiMachine._on_abandoned,
    GroupUp: MultiMachine._on_up,
    GroupDown: MultiMachine._on_down,
    GroupEnded: MultiMachine._on_ended,
    GroupRefused: MultiMachine._on_refused,
    MultiTick: MultiMachine._on_tick,
}


def share(total: int, group_count: int) -> int:
    """One group's part of a total parallelism; 0 means no limit. At least 1, so with more groups
    than `total` the sum exceeds it."""
    return max(1, total // group_count) if total > 0 else 0

"""Checker of schedules: every instant is processed once, in order and not before its time, and
creates a job or not, according to the schedule's rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rollq.base.ids import JobId
from rollq.base.schedule_limits import MISSED_AFTER_MS, MISSED_STEPS_MAX
from rollq.base.schedules import ALL, CANCEL, LAST, SKIP, firing_key, jitter_of
from rollq.grid import events as facts
from rollq.grid.commands import Command
from rollq.grid.effects import Applied
from rollq.grid.events import Event
from rollq.grid.schedule_commands import (
    FireSchedule,
    PauseSchedule,
    PutSchedule,
    RemoveSchedule,
    ResumeSchedule,
    ScheduleSpec,
)
from rollq.grid.schedules import schedule_of
from rollq.grid.state import GridState
from rollq.raft.types import Entry
from rollq.testing.checkers.base import LogChecker

if TYPE_CHECKING:
    from rollq.testing.sim_member import SimMember

EVERY_MINUTE: Final = "* * * * *"  # the only cron line whose instants the model knows, in UTC
MINUTE_MS: Final = 60_000
OVERDUE_MS: Final = 3_000  # a healed group has fired by then, even if it must propose again
BY_HAND: Final = " by hand"
ENDINGS: Final = (
    *(facts.JOB_ACKED, facts.JOB_DEAD, facts.JOB_EXPIRED, facts.JOB_CANCELLED),
    *(facts.JOB_PURGED, facts.JOB_FORGOTTEN),
)
STARTS: Final = (facts.SCHEDULE_FIRED, facts.SCHEDULE_SKIPPED, facts.SCHEDULE_REFUSED)


@dataclass(slots=True)
class ScheduleGhost:
    """A schedule in the model, built from commands."""

    spec: ScheduleSpec
    version: int
    next_ms: int
    paused: bool = False

    @property
    def period_ms(self) -> int:
        """The time between two instants."""
        return self.spec.every_ms or MINUTE_MS

    def fires_ms(self, due_ms: int) -> int:
        """When an instant is to be fired."""
        return due_ms + jitter_of(self.spec.name, due_ms, self.spec.jitter_ms)


class SchedulesKept(LogChecker):
    """A model of schedules, of their firings, and of the jobs they created."""

    name = "every instant once"

    def __init__(self) -> None:
        super().__init__()
        self.ghosts: dict[str, ScheduleGhost] = {}
        self.open: dict[JobId, None] = {}  # unfinished jobs of schedules
        self.fired_count = 0
        self._fired: dict[tuple[str, int], int] = {}  # log index, by name and instant
        self._last: dict[str, JobId] = {}  # the latest job of each schedule
        self._cancelled: dict[JobId, None] = {}  # including requested cancellations
        self._due: list[tuple[str, str]] = []  # firings without an event yet: key, overlap
        self._stamp_ms = 0

    def overdue(self, time_ms: int) -> list[str]:
        """Schedules whose next firing is overdue at this time of the group."""
        return [
            name
            for name, ghost in self.ghosts.items()
            if not ghost.paused and ghost.fires_ms(ghost.next_ms) + OVERDUE_MS < time_ms
        ]

    def on_apply(self, member: SimMember, entry: Entry, applied: Applied, state: GridState) -> None:
        """Record the time of the entry."""
        self._stamp_ms = applied.stamp_ms
        super().on_apply(member, entry, applied, state)

    # --- commands

    def on_command(self, index: int, command: Command, count: int) -> None:
        """A schedule was changed, or fired."""
        if isinstance(command, PutSchedule):
            before = self.ghosts.get(command.spec.name)
            is_paused = before is not None and before.paused
            self._begin(ScheduleGhost(command.spec, index, command.next_ms, is_paused))
        elif isinstance(command, ResumeSchedule):
            ghost = self.ghosts[command.name]
            # A resume that was decided for another version keeps the next instant.
            next_ms = command.next_ms if command.version == ghost.version else ghost.next_ms
            self._begin(ScheduleGhost(ghost.spec, index, next_ms))
        elif isinstance(command, PauseSchedule):
            self.ghosts[command.name].paused = True
        elif isinstance(command, RemoveSchedule):
            del self.ghosts[command.name]
        elif isinstance(command, FireSchedule) and count:
            self._take(index, command)

    def _begin(self, ghost: ScheduleGhost) -> None:
        """Continue with the first instant after the command was made."""
        spec, next_ms = ghost.spec, ghost.next_ms
        if next_ms > self._stamp_ms + ghost.period_ms:
            self.fail(f"{spec.name} begins {next_ms - self._stamp_ms} ms from now")
        if spec.cron and next_ms % MINUTE_MS:
            self.fail(f"{next_ms} is no instant of {spec.name}")
        self.ghosts[spec.name] = ghost

    def _take(self, index: int, command: FireSchedule) -> None:
        name, due_ms, fire_ms = command.name, command.due_ms, command.fire_ms
        ghost = self.ghosts.get(name)
        if ghost is None or ghost.paused or ghost.version != command.version:
            self.fail(f"{name} fires by a decision that was void at {index}")
            return
        if due_ms != ghost.next_ms:
            self.fail(f"{name} takes {due_ms} at {index}, and its next instant is {ghost.next_ms}")
        passed, rest_ms = divmod(command.next_ms - due_ms, ghost.period_ms)
        newest_ms = command.next_ms - ghost.period_ms
        if rest_ms or passed < 1 or fire_ms not in (0, newest_ms):
            self.fail(f"{name} goes from {due_ms} to {command.next_ms} and fires {fire_ms}")
        if ghost.fires_ms(newest_ms) > self._stamp_ms:
            self.fail(f"{name} takes {newest_ms} at {self._stamp_ms}, before it has come")
        if command.missed != passed - bool(fire_ms):
            self.fail(f"{name} passes over {passed} instants and counts {command.missed} as missed")
        if command.missed:
            self._check_missed(ghost, command, passed)
        ghost.next_ms = command.next_ms
        if fire_ms:
            known = self._fired.setdefault((name, fire_ms), index)
            if known != index:
                self.fail(f"{name} fires {fire_ms} at {index}, which it did at {known}")
            self._due.append((firing_key(name, fire_ms), ghost.spec.overlap))

    def _check_missed(self, ghost: ScheduleGhost, command: FireSchedule, passed: int) -> None:
        """Only late instants are skipped, according to the catch-up rule."""
        rule, name = ghost.spec.catch_up, command.name
        late_ms = self._stamp_ms - ghost.fires_ms(command.next_ms - ghost.period_ms)
        if rule == ALL or late_ms <= MISSED_AFTER_MS:
            self.fail(f"{name} passes over {passed}, {late_ms} ms late, by the rule {rule!r}")
        if rule == LAST and not command.fire_ms and passed < MISSED_STEPS_MAX:
            self.fail(f"{name} fires none of {passed}, by the rule {rule!r}")

    # --- events

    def on_entry(self, member: SimMember, applied: Applied, state: GridState) -> None:
        """Each firing of the entry has one event, and keeps its overlap rule."""
        for event in facts.each_of(applied.events):
            if event.kind in STARTS:
                self._told(event)
            elif event.kind == facts.SCHEDULE_REMOVED:
                self._last.pop(schedule_of(event), None)
            elif event.job_id in self.open:
                self._follow(event)
        if self._due:
            self.fail(f"nothing is told of {self._due[0][0]} at {applied.index}")

    def _told(self, event: Event) -> None:
        name = schedule_of(event)
        if event.detail != name + BY_HAND:
            key, overlap = self._due.pop(0) if self._due else ("nothing", "")
            if event.detail.split(" ")[0] != key:
                self.fail(f"{event.kind} of {event.detail} was told, and {key} was due")
            self._check_overlap(event.kind, key, overlap, self._last.get(name, b""))
        if event.kind == facts.SCHEDULE_FIRED:
            self.fired_count += 1
            self._last[name] = event.job_id
            self.open[event.job_id] = None

    def _check_overlap(self, kind: str, key: str, overlap: str, last_id: JobId) -> None:
        is_open = last_id in self.open
        if kind == facts.SCHEDULE_SKIPPED and (overlap != SKIP or not is_open):
            self.fail(f"{key} was skipped, by the rule {overlap!r}; a job before: {is_open}")
        if kind == facts.SCHEDULE_FIRED and is_open:
            if overlap == SKIP:
                self.fail(f"{key} was fired, and the job before has not ended")
            if overlap == CANCEL and last_id not in self._cancelled:
                self.fail(f"{key} was fired, and the job before was not cancelled")

    def _follow(self, event: Event) -> None:
        if event.kind == facts.JOB_CANCEL_REQUESTED:
            self._cancelled[event.job_id] = None
        elif event.kind in ENDINGS:
            self.open.pop(event.job_id, None)

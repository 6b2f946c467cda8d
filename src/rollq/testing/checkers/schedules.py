"""Checker of schedules: every instant is taken once, in its order and not before its time, and each
makes a job or none by the rule of its schedule."""

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

EVERY_MINUTE: Final = "* * * * *"  # the one cron line whose instants are known here, in UTC
MINUTE_MS: Final = 60_000
OVERDUE_MS: Final = 3_000  # a healed group has fired by then, also if it must propose it again
BY_HAND: Final = " by hand"
ENDINGS: Final = (
    *(facts.JOB_ACKED, facts.JOB_DEAD, facts.JOB_EXPIRED, facts.JOB_CANCELLED),
    *(facts.JOB_PURGED, facts.JOB_FORGOTTEN),
)
STARTS: Final = (facts.SCHEDULE_FIRED, facts.SCHEDULE_SKIPPED, facts.SCHEDULE_REFUSED)


@dataclass(slots=True)
class ScheduleGhost:
    """A schedule as the commands tell it."""

    spec: ScheduleSpec
    version: int
    next_ms: int
    paused: bool = False

    @property
    def period_ms(self) -> int:
        """Between two of its instants."""
        return self.spec.every_ms or MINUTE_MS

    def fires_ms(self, due_ms: int) -> int:
        """When an instant is fired."""
        return due_ms + jitter_of(self.spec.name, due_ms, self.spec.jitter_ms)


class SchedulesKept(LogChecker):
    """Its own account of schedules, of what they fired, and of the jobs that came of it."""

    name = "every instant once"

    def __init__(self) -> None:
        super().__init__()
        self.ghosts: dict[str, ScheduleGhost] = {}
        self.open: dict[JobId, None] = {}  # jobs of schedules that have not ended
        self.fired_count = 0
        self._fired: dict[tuple[str, int], int] = {}  # by name and instant, ever: at which index
        self._last: dict[str, JobId] = {}  # the job that a schedule made last
        self._cancelled: dict[JobId, None] = {}  # or asked to be
        self._due: list[tuple[str, str]] = []  # what the entry must tell of: key and overlap rule
        self._stamp_ms = 0

    def overdue(self, time_ms: int) -> list[str]:
        """Schedules whose instant has come some time ago, by the time of the group."""
        return [
            name
            for name, ghost in self.ghosts.items()
            if not ghost.paused and ghost.fires_ms(ghost.next_ms) + OVERDUE_MS < time_ms
        ]

    def applied(self, member: SimMember, entry: Entry, applied: Applied, state: GridState) -> None:
        """Note what time it was."""
        self._stamp_ms = applied.stamp_ms
        super().applied(member, entry, applied, state)

    # --- what was decided

    def done(self, index: int, command: Command, count: int) -> None:
        """A schedule was changed, or fires."""
        if isinstance(command, PutSchedule):
            before = self.ghosts.get(command.spec.name)
            is_paused = before is not None and before.paused
            self._begin(ScheduleGhost(command.spec, index, command.next_ms, is_paused))
        elif isinstance(command, ResumeSchedule):
            ghost = self.ghosts[command.name]
            # Decided for another version: it goes on with the instant that it has.
            next_ms = command.next_ms if command.version == ghost.version else ghost.next_ms
            self._begin(ScheduleGhost(ghost.spec, index, next_ms))
        elif isinstance(command, PauseSchedule):
            self.ghosts[command.name].paused = True
        elif isinstance(command, RemoveSchedule):
            del self.ghosts[command.name]
        elif isinstance(command, FireSchedule) and count:
            self._take(index, command)

    def _begin(self, ghost: ScheduleGhost) -> None:
        """It goes on with the first instant from when it was asked for."""
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
        """Passed over is only what is late, as the catch-up rule says."""
        rule, name = ghost.spec.catch_up, command.name
        late_ms = self._stamp_ms - ghost.fires_ms(command.next_ms - ghost.period_ms)
        if rule == ALL or late_ms <= MISSED_AFTER_MS:
            self.fail(f"{name} passes over {passed}, {late_ms} ms late, by the rule {rule!r}")
        if rule == LAST and not command.fire_ms and passed < MISSED_STEPS_MAX:
            self.fail(f"{name} fires none of {passed}, by the rule {rule!r}")

    # --- what came of it

    def followed(self, member: SimMember, applied: Applied, state: GridState) -> None:
        """Each firing of the entry is told of once, and its overlap rule is kept."""
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

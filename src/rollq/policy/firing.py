"""Which schedules are due: the leader checks, and proposes that they fire.

An instant fires once, however often it is proposed (`grid.schedules`): repeated proposals, and
those of a deposed leader, do no harm. Times are the group's.
"""

from __future__ import annotations

from collections.abc import Iterable

from rollq.base.errors import RemoteError
from rollq.base.schedule_limits import (
    FIRE_AGAIN_MS,
    INSTANTS_PER_TURN_MAX,
    MISSED_AFTER_MS,
    MISSED_STEPS_MAX,
)
from rollq.base.schedules import ALL, NONE, jitter_of
from rollq.base.stamp import Calendar
from rollq.grid.events import SCHEDULE_KINDS, Event
from rollq.grid.schedule_commands import FireSchedule
from rollq.grid.schedule_records import ScheduleRecord
from rollq.grid.schedules import schedule_of
from rollq.grid.state import GridState
from rollq.policy.timers import Timers


class Firing:
    """The timers of all schedules, on one leader."""

    def __init__(self, calendar: Calendar) -> None:
        self._calendar = calendar
        self._timers: Timers[str] = Timers()

    def gain(self, state: GridState) -> None:
        """Leadership is gained: set the timers of all schedules."""
        self._timers.clear()
        for record in state.schedules.by_name.values():
            self._set(record)

    def step_down(self) -> None:
        """Leadership is lost."""
        self._timers.clear()

    def observe(self, events: Iterable[Event], state: GridState) -> None:
        """Update the timers of schedules that an entry changed."""
        for event in events:
            if event.kind in SCHEDULE_KINDS:
                name = schedule_of(event)
                record = state.schedules.by_name.get(name)
                if record is None or record.paused:
                    self._timers.cancel(name)
                else:
                    self._set(record)

    def due(self, state: GridState, time_ms: int, count_max: int) -> list[FireSchedule]:
        """Firings that are due, of up to `count_max` schedules, or fewer if those have missed more
        than INSTANTS_PER_TURN_MAX instants: the others stay due."""
        firings: list[FireSchedule] = []
        left = INSTANTS_PER_TURN_MAX
        while len(firings) < count_max and left > 0 and self._timers.may_be_due(time_ms):
            for name in self._timers.pop_due(time_ms, 1):
                record = state.schedules.by_name.get(name)
                if record is None:
                    continue
                self._timers.set(name, time_ms + FIRE_AGAIN_MS)
                left -= 1
                try:
                    firings.append(self.firing(record, time_ms))
                except RemoteError:
                    # Unknown time zone. Another leader may know it, and this one after an update of
                    # its zone data: the instant stays due.
                    continue
                left -= firings[-1].missed
        return firings

    def firing(self, record: ScheduleRecord, time_ms: int) -> FireSchedule:
        """The command for a due instant: it fires or, if it was missed, the catch-up rule decides
        for it and for the missed instants after it.

        Raises:
            RemoteError: the calendar does not know the zone.
        """
        due_ms = record.next_ms
        if record.spec.catch_up == ALL or not self._is_missed(record, due_ms, time_ms):
            next_ms = self.next_ms(record, due_ms)
            return FireSchedule(
                record.name, version=record.version, due_ms=due_ms, fire_ms=due_ms, next_ms=next_ms
            )
        newest_ms, count = due_ms, 1
        next_ms = self.next_ms(record, due_ms)
        while self._is_missed(record, next_ms, time_ms) and count < MISSED_STEPS_MAX:
            newest_ms, count = next_ms, count + 1
            next_ms = self.next_ms(record, next_ms)
        if self._is_missed(record, next_ms, time_ms) or record.spec.catch_up == NONE:
            return FireSchedule(
                record.name,
                version=record.version,
                due_ms=due_ms,
                fire_ms=0,
                next_ms=next_ms,
                missed=count,
            )
        what = record.name, record.version, due_ms, newest_ms
        return FireSchedule(*what, next_ms, count - 1)

    def next_ms(self, record: ScheduleRecord, after_ms: int) -> int:
        """The instant of a schedule that follows `after_ms`.

        Raises:
            RemoteError: the calendar does not know the zone.
        """
        if record.spec.every_ms:
            return after_ms + record.spec.every_ms
        return self._calendar.next_ms(record.spec.cron, record.spec.zone, after_ms)

    def _set(self, record: ScheduleRecord) -> None:
        if not record.paused:
            self._timers.set(record.name, fires_ms(record, record.next_ms))

    def _is_missed(self, record: ScheduleRecord, due_ms: int, time_ms: int) -> bool:
        return fires_ms(record, due_ms) + MISSED_AFTER_MS < time_ms


def fires_ms(record: ScheduleRecord, due_ms: int) -> int:
    """When an instant is fired: with its jitter."""
    return due_ms + jitter_of(record.name, due_ms, record.spec.jitter_ms)

"""Bugs of schedules."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from rollq.grid import apply as grid_apply
from rollq.grid import schedules
from rollq.grid.effects import Applied
from rollq.grid.schedule_commands import FireSchedule
from rollq.grid.state import GridState
from rollq.policy.firing import Firing
from rollq.testing.bugs.registry import mutant


@mutant("firing_is_taken_twice", grid_apply.HANDLERS, "FireSchedule", scheduled=True)
def _taken_twice(old: Any) -> Any:
    def fire_schedule(state: GridState, command: FireSchedule, out: Applied) -> Any:
        record = state.schedules.by_name.get(command.name)
        if record is not None and record.next_ms > command.due_ms:  # this instant has been taken
            state.schedules.next_sum += command.due_ms - record.next_ms
            record.next_ms = command.due_ms
        return old(state, command, out)

    return fire_schedule


@mutant("resume_knows_no_put", grid_apply.HANDLERS, "ResumeSchedule", scheduled=True)
def _knows_no_put(old: Any) -> Any:
    return lambda state, command, out: old(state, replace(command, version=0), out)


@mutant(
    "firing_is_lost_at_change_of_leader",
    Firing,
    "gain",
    scheduled=True,
    faults=("crash_kill", "isolate_leader"),
)
def _lost_with_leader(old: Any) -> Any:
    return lambda self, state: self.step_down()


@mutant("missed_instants_are_not_told", Firing, "firing", scheduled=True, faults=("clock_jump",))
def _not_told(old: Any) -> Any:
    return lambda self, record, time_ms: replace(old(self, record, time_ms), missed=0)


@mutant("overlap_is_not_looked_at", schedules, "SKIP", scheduled=True, faults=())
def _overlaps(old: Any) -> Any:
    return "never"

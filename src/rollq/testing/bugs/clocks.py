"""Bugs of time: durations that follow an adjusted wall clock."""

from __future__ import annotations

from typing import Any

from rollq.roles.member.group_clock import GroupClock
from rollq.testing.bugs.registry import mutant


@mutant(
    "group_time_follows_the_wall",
    GroupClock,
    "now_ms",
    faults=("clock_jump", "isolate_leader", "transfer"),
)
def _follows_the_wall(old: Any) -> Any:
    return lambda self: self._clock.wall_ms()

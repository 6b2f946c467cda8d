"""The group's time: it is monotonic, and leaps do not count for durations.

Stamps of entries come from the group's clock, which every leader continues from the last stamp and
advances by its own monotonic clock. If it is behind the wall clocks (there was no leader for a
while, or clocks were set) the leader may move it forward (`AdvanceTime`). The leap is recorded, so
that durations that started before it are not shortened.
"""

from __future__ import annotations

from rollq.base.limits import LEAP_MS_MAX, LEAP_MS_MIN, LEAPS_KEPT_MAX
from rollq.grid.admission import refused_bounds
from rollq.grid.commands import AdvanceTime
from rollq.grid.effects import Applied, Outcome
from rollq.grid.outcomes import DONE_ONE, DUPLICATE_OPEN
from rollq.grid.state import GridState, Leap


def advance_time(state: GridState, command: AdvanceTime, out: Applied) -> Outcome:
    """Move the group's time forward; running durations are not shortened."""
    leap_ms = command.to_ms - state.time_ms
    if leap_ms > LEAP_MS_MAX:
        return refused_bounds(f"to_ms is more than {LEAP_MS_MAX} ms ahead")
    if leap_ms < LEAP_MS_MIN:
        return DUPLICATE_OPEN  # it has advanced meanwhile
    leaps = state.leaps
    leaps.append(Leap(state.time_ms, leap_ms))
    if len(leaps) > LEAPS_KEPT_MAX:
        # Merge two leaps: a duration that began between them counts as if it began before both.
        first, second = leaps[0], leaps[1]
        leaps[:2] = [Leap(second.at_ms, first.leap_ms + second.leap_ms)]
    for limit in state.limits.values():
        if limit.due_us > state.time_ms * 1_000:
            limit.due_us += leap_ms * 1_000
    state.time_ms = command.to_ms
    return DONE_ONE


def elapsed_ms(state: GridState, stamp_ms: int, now_ms: int) -> int:
    """The time from a stamp until `now_ms`, both of the group, without leaps."""
    leapt_ms = 0
    for leap in state.leaps:
        if leap.at_ms < now_ms:
            leapt_ms += max(0, min(leap.leap_ms, leap.at_ms + leap.leap_ms - stamp_ms))
    return max(0, now_ms - stamp_ms - leapt_ms)


def began_before_ms(state: GridState, now_ms: int, duration_ms: int) -> int:
    """The stamp before which everything is older than `duration_ms`."""
    stamp_ms = now_ms - duration_ms
    for leap in reversed(state.leaps):
        if stamp_ms > leap.at_ms + leap.leap_ms:
            break
        stamp_ms -= leap.leap_ms
    return stamp_ms

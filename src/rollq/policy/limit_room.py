"""How much room a limit has, beside running attempts and decisions that are not applied.
Arithmetic.

The clock of a rate (`LimitRecord.due_us`) is advanced by entries that assign, at their stamps.
Decisions under way will be stamped no earlier than now, so they count as if they started now: a
start that is within the rate here is within it whenever its entry is stamped. (While a leap of the
group's time is under way, "now" is when it was asked for: `GroupClock.rates_ms`.) Stamps are whole
milliseconds, and so are all comparisons.
"""

from __future__ import annotations

from rollq.base.limits import RUN_JOBS_MAX
from rollq.grid.limits import due_of, interval_of
from rollq.grid.state import LimitRecord


def fits(limit: LimitRecord, tokens: int, *, reserved: int, starts: int, now_ms: int) -> bool:
    """Whether one more start is within a limit, beside `reserved` tokens of `starts` decisions."""
    if limit.running_max and limit.running + reserved + tokens > limit.running_max:
        return False
    if not limit.rate:
        return True
    base_us = max(limit.due_us, now_ms * 1_000) + _under_way_us(limit, reserved, starts)
    return (base_us - _ahead_us(limit, tokens)) // 1_000 <= now_ms


def starts_within(
    limit: LimitRecord, tokens: int, *, reserved: int, starts: int, now_ms: int
) -> int:
    """How many starts of `tokens` each are within a limit; call only if at least one is."""
    count = RUN_JOBS_MAX
    if limit.running_max:
        count = (limit.running_max - limit.running - reserved) // tokens
    if limit.rate:
        now_us = now_ms * 1_000
        base_us = max(limit.due_us, now_us) + _under_way_us(limit, reserved, starts)
        left_us = now_us + 999 - (base_us - _ahead_us(limit, tokens))
        count = min(count, 1 + left_us // interval_of(limit, tokens))
    return count


def due_ms(limit: LimitRecord, tokens: int) -> int:
    """When a start is within the rate, if nothing else starts before; 0: at any time."""
    return due_of(limit, tokens) // 1_000


def is_too_large(limit: LimitRecord, tokens: int) -> bool:
    """Whether a start needs more tokens than the limit ever has."""
    return 0 < limit.running_max < tokens


def _under_way_us(limit: LimitRecord, reserved: int, starts: int) -> int:
    """How far decisions under way will advance the clock of a rate; each rounds up separately."""
    return interval_of(limit, reserved) + starts if reserved else 0


def _ahead_us(limit: LimitRecord, tokens: int) -> int:
    """How far the clock of a rate may be ahead of the time at a start: the unused burst."""
    return interval_of(limit, limit.burst) - interval_of(limit, min(tokens, limit.burst))

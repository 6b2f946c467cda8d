"""Bugs of limits and rates."""

from __future__ import annotations

from typing import Any

from rollq.grid import moves
from rollq.policy import at_once
from rollq.policy.holds import Holds
from rollq.policy.limits import Limits
from rollq.testing.bugs.registry import mutant


@mutant("limit_counts_only_what_is_applied", Limits, "reserve", limited=True)
def _reserve_nothing(old: Any) -> Any:
    return lambda self, item, count: ()


@mutant("run_goes_beyond_a_limit", Holds, "room_like", limited=True, ahead=64)
def _unlimited_run(old: Any) -> Any:
    return lambda self, item: self.room(item.client)


@mutant("rate_is_not_kept_in_the_state", moves, "take_tokens", limited=True)
def _clock_stands(old: Any) -> Any:
    def take_tokens(state: Any, record: Any, count: int, stamp_ms: int) -> None:
        due_us = [limit.due_us for limit in state.limits.values()]
        old(state, record, count, stamp_ms)
        for limit, before_us in zip(state.limits.values(), due_us, strict=True):
            limit.due_us = before_us

    return take_tokens


@mutant("room_wakes_nobody", Limits, "tokens_freed", limited=True)
def _nobody_called(old: Any) -> Any:
    return lambda self, keys: None


@mutant("job_that_starts_at_once_meets_no_limit", at_once, "limits_of", limited=True, ahead=64)
def _unlimited_start(old: Any) -> Any:
    return lambda *arguments: ()

"""Job rates, from two samples of a member's counters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rollq.base.counters import Family

ACCEPTED = "rollq_jobs_accepted_total"
STARTED = "rollq_attempts_started_total"
ENDED = "rollq_jobs_ended_total"
OLDEST = "rollq_queue_oldest_seconds"
NOT_WELL = ("failed", "dead")


class Totals(NamedTuple):
    """Counts of jobs since the member was started."""

    accepted: float = 0
    started: float = 0
    ended: float = 0
    failed: float = 0  # ended as failed or dead


def totals_in(families: Iterable[Family]) -> Totals:
    """The totals among the counters of a member."""
    by_name = {family.name: family.samples for family in families}
    ended = {one.labels[0]: one.value for one in by_name.get(ENDED, ())}
    return Totals(
        sum(one.value for one in by_name.get(ACCEPTED, ())),
        sum(one.value for one in by_name.get(STARTED, ())),
        sum(ended.values()),
        sum(ended.get(how, 0) for how in NOT_WELL),
    )


def oldest_in(families: Iterable[Family]) -> dict[str, float]:
    """Age of the oldest waiting job in seconds, by queue."""
    for family in families:
        if family.name == OLDEST:
            return {one.labels[0]: one.value for one in family.samples}
    return {}


def rates_of(before: Totals | None, after: Totals, seconds: float) -> dict[str, float | None]:
    """Jobs per second between two samples. None if unknown: there is no earlier sample, or it is
    from another member or another start."""
    if before is None or seconds <= 0 or any(b > a for b, a in zip(before, after, strict=True)):
        return dict.fromkeys(Totals._fields)
    return {
        name: round((getattr(after, name) - getattr(before, name)) / seconds, 2)
        for name in Totals._fields
    }

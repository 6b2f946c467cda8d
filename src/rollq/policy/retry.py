"""The retry schedule: how long a job waits before its next attempt.

The leader draws the jitter and writes the delay into the command; nothing replicated draws.
"""

from __future__ import annotations

from typing import Final

from rollq.base.stamp import Jitter
from rollq.grid.commands import LostAttempt
from rollq.grid.state import GridState, JobRecord

JITTER_PERCENT: Final = 20
# 2**40 ms is 35 years: beyond every maximum, so that no attempt number makes a huge integer.
DOUBLINGS_MAX: Final = 40


def backoff_ms(attempt: int, base_ms: int, max_ms: int, jitter: Jitter) -> int:
    """The wait after attempt number `attempt` (from 1) was lost.

    Doubles from `base_ms` with each attempt up to `max_ms`, then ± 20 % so that jobs lost together
    do not come back together. Integers only: the same draw gives the same delay everywhere.
    """
    doublings = min(max(attempt - 1, 0), DOUBLINGS_MAX)
    wait_ms = min(base_ms << doublings, max_ms)
    spread_ms = wait_ms * JITTER_PERCENT // 100
    return wait_ms - spread_ms + jitter.draw(0, 2 * spread_ms + 1)


def lost_attempt(state: GridState, job: JobRecord, jitter: Jitter) -> LostAttempt:
    """The running attempt of a job as given up, with the wait before the next.

    Starts before a redrive do not count: the schedule begins anew, as the attempts do.
    """
    settings = state.settings
    starts = job.attempt - (job.past.starts_base if job.past is not None else 0)
    base_ms = job.options.retry_base_ms or settings.retry_base_ms
    delay_ms = backoff_ms(starts, base_ms, settings.retry_max_ms, jitter)
    return LostAttempt(job.job_id, job.attempt, delay_ms)

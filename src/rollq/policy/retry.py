"""The retry schedule: how long a job waits before its next attempt.

The leader draws the jitter and writes the delay into the command; replicated code draws nothing.
"""

from __future__ import annotations

from typing import Final

from rollq.base.stamp import Jitter
from rollq.grid.commands import LostAttempt
from rollq.grid.moves import starts_of
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


def lost_attempt(
    state: GridState, job: JobRecord, jitter: Jitter, *, not_started: bool = False
) -> LostAttempt:
    """The running attempt of a job as lost, with the wait before the next."""
    delay_ms = retry_delay_ms(state, job, jitter)
    return LostAttempt(job.job_id, job.attempt, delay_ms, not_started)


def retry_delay_ms(state: GridState, job: JobRecord, jitter: Jitter) -> int:
    """How long a job waits if its running attempt is lost.

    Only attempts that count make it longer: the schedule begins anew with a redrive.
    """
    return backoff_ms(starts_of(job), *_bounds_of(state, job), jitter)


def give_back_delay_ms(state: GridState, job: JobRecord, jitter: Jitter) -> int:
    """How long a job waits that its worker returned without having started it.

    The first time it goes to another worker at once; after that it waits as after lost attempts, so
    that a job that no worker can start does not bounce between workers.
    """
    before = job.past.not_started if job.past is not None else 0
    return backoff_ms(before, *_bounds_of(state, job), jitter) if before else 0


def _bounds_of(state: GridState, job: JobRecord) -> tuple[int, int]:
    settings = state.settings
    return job.options.retry_base_ms or settings.retry_base_ms, settings.retry_max_ms

"""What hints change: how long a lease is, and which run time a worker expects. Reads the state.

Hints never weaken a guarantee: a lease is at least the setting and at most ten times that, and a
job that names its own lease keeps it.
"""

from __future__ import annotations

from typing import Final

from rollq.grid.state import GridState

RUNS_PER_LEASE: Final = 3  # of the longest usual run
LEASE_TIMES_MAX: Final = 10


def lease_ms_of(state: GridState, exec_name: str) -> int:
    """The lease of a job that names none. A worker that runs something long may be silent for
    longer before it counts as gone."""
    usual_ms = state.settings.lease_ms
    hint = state.hints.get(exec_name) if state.settings.use_hints else None
    if hint is None:
        return usual_ms
    return min(max(RUNS_PER_LEASE * hint.p99_ms, usual_ms), LEASE_TIMES_MAX * usual_ms)


def expect_ms_of(state: GridState, exec_name: str) -> int:
    """How long a worker should expect a run to take; 0: unknown."""
    hint = state.hints.get(exec_name) if state.settings.use_hints else None
    return 0 if hint is None else max(hint.p95_ms, 1)

"""What hints change: leases, and what workers expect."""

import pytest

from rollq.base.hints import ExecHint
from rollq.grid.commands import Settings
from rollq.grid.state import GridState
from rollq.policy.hints import expect_ms_of, lease_ms_of


def told(p95_ms: int, p99_ms: int, *, use: bool = True) -> GridState:
    state = GridState()
    state.settings = Settings(lease_ms=30_000, use_hints=use)
    state.hints["exe"] = ExecHint("exe", 0, p95_ms, p99_ms)
    return state


@pytest.mark.parametrize(
    ("p99_ms", "lease_ms"),
    [(0, 30_000), (9_999, 30_000), (20_000, 60_000), (100_000, 300_000), (10**9, 300_000)],
)
def test_a_lease_follows_long_runs_within_bounds(p99_ms: int, lease_ms: int) -> None:
    assert lease_ms_of(told(0, p99_ms), "exe") == lease_ms


def test_without_a_hint_or_when_they_are_off_the_setting_counts() -> None:
    assert lease_ms_of(told(1, 20_000), "other") == 30_000
    assert lease_ms_of(told(1, 20_000, use=False), "exe") == 30_000
    assert expect_ms_of(told(7, 20_000), "other") == 0
    assert expect_ms_of(told(7, 20_000, use=False), "exe") == 0


def test_a_worker_expects_the_usual_longest_run() -> None:
    assert expect_ms_of(told(7, 20_000), "exe") == 7
    assert expect_ms_of(told(0, 0), "exe") == 1

"""A quarter of an hour of a cluster's life: nothing grows, and what would grow is noticed."""

from __future__ import annotations

import pytest

from rollq.testing.checkers.base import Violation
from rollq.testing.endurance import SAMPLES, SWITCHES, LongRun, SizeSamples, switched_off

HOURS = 0.25


def test_nothing_grows_and_much_was_done() -> None:
    run = LongRun(seed=1, hours=HOURS)
    run.run_all()
    assert run.ledger.ended_count > 1_000
    assert run.faults["crash_kill"] + run.faults["crash_power"] > 5
    for name in ("history bytes", "wal files", "snapshots files", "GridState.jobs"):
        assert all(sample[name] for sample in run.samples.samples[2:]), f"{name} was not measured"


def test_a_log_that_is_never_compacted_is_noticed() -> None:
    with switched_off("compaction"), pytest.raises(Violation, match="wal files: at most"):
        LongRun(seed=1, hours=HOURS).run_all()


def test_every_switch_breaks_something_that_is_there() -> None:
    for name in SWITCHES:
        with switched_off(name):
            pass


def test_growth_is_what_the_second_half_has_more_of() -> None:
    half = SAMPLES // 2
    steady = [{"rows": 1_000 + place % 3} for place in range(SAMPLES)]
    assert SizeSamples(steady).grown() == []
    start = [{"rows": 5_000}, *steady[1:]]  # what a start needs does not hide growth
    rising = [{"rows": 100 * place} for place in range(SAMPLES)]
    assert SizeSamples(start).grown() == []
    assert len(SizeSamples(rising).grown()) == 1
    late = [*steady[:-1], {"rows": 1_000, "leak": 100}]
    assert SizeSamples(late).grown() == ["leak: at most 0 in the first half, 100 in the second"]
    few = [*({"rows": 3} for _ in range(half)), *({"rows": 6} for _ in range(half))]
    assert SizeSamples(few).grown() == []

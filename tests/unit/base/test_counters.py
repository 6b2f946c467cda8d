"""Histograms count every value once, in the range that it falls in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rollq.base.counters import JOB_MS, MS_PER_S, Histogram, histogram

VALUES = st.lists(st.integers(0, 10_000_000), min_size=1)


@given(VALUES)
def test_several_values_count_as_each_of_them(values: list[int]) -> None:
    alone, together = Histogram(JOB_MS), Histogram(JOB_MS)
    for value in values:
        alone.add(value)
    together.add_all(values)
    assert together.counts == alone.counts
    assert together.total == alone.total == sum(values)
    for place, bound in enumerate(JOB_MS):
        assert sum(alone.counts[: place + 1]) == sum(value <= bound for value in values)


@given(st.integers(0, 10_000_000), st.integers(1, 1_000))
def test_a_value_seen_often_counts_as_often(value: int, times: int) -> None:
    once, often = Histogram(JOB_MS), Histogram(JOB_MS)
    once.add_all([value] * times)
    often.add(value, times)
    assert (once.counts, once.total) == (often.counts, often.total)


def test_a_family_is_in_base_units() -> None:
    waits = Histogram((1_000, 2_000))
    waits.add(1_000)
    waits.add(2_500)
    family = histogram("wait_seconds", waits, MS_PER_S)
    assert family.bounds == (1.0, 2.0)
    (sample,) = family.samples
    assert (sample.value, sample.counts) == (3.5, (1, 0, 1))

"""Axes, ticks and words of figures."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollq.spark.report import scales
from rollq.spark.report.scales import DAY, HOUR, MINUTE, SECOND

NOON = 1_795_003_200_000  # 2026-11-18 12:00:00 UTC


@pytest.mark.parametrize(
    ("value_ms", "words"),
    [
        (0, "0 ms"),
        (0.4, "<1 ms"),
        (7, "7 ms"),
        (999, "999 ms"),
        (1_000, "1 s"),
        (1_234, "1.23 s"),
        (59_900, "59.9 s"),
        (90_000, "1.5 min"),
        (3 * HOUR, "3 h"),
        (400 * DAY, "400 d"),
    ],
)
def test_durations(value_ms: float, words: str) -> None:
    assert scales.duration(value_ms) == words


@pytest.mark.parametrize(
    ("part", "whole", "words"),
    [
        (0, 0, "–"),
        (0, 5, "0 %"),
        (1, 2, "50 %"),
        (1, 10_000, "<0.1 %"),
        (9_999, 10_000, ">99.9 %"),
        (5, 5, "100 %"),
    ],
)
def test_shares_are_not_rounded_to_all_or_nothing(part: float, whole: float, words: str) -> None:
    assert scales.share(part, whole) == words


def test_numbers_and_sizes() -> None:
    assert scales.count(1_234_567) == "1,234,567"
    assert scales.count(12_345_678) == "12.3 M"
    assert scales.count(2.5) == "2.5"
    assert [scales.tick_count(n) for n in (0, 5, 2_500, 3e6, 2e9)] == ["0", "5", "2.5k", "3M", "2G"]
    assert [scales.size(n) for n in (10, 2_048, 5 << 40)] == ["10 B", "2 KiB", "5 TiB"]
    assert scales.every(HOUR) == "every hour"
    assert scales.every(5 * SECOND) == "every 5 s"


@pytest.mark.parametrize(
    ("period_ms", "step_ms"),
    [
        (0, 200),
        (7 * SECOND, 200),
        (MINUTE, 500),
        (2 * MINUTE, SECOND),
        (10 * MINUTE, 5 * SECOND),
        (HOUR, 30 * SECOND),
        (6 * HOUR, 5 * MINUTE),
        (7 * HOUR, HOUR),
        (7 * DAY, HOUR),
        (30 * DAY, 6 * HOUR),
        (365 * DAY, DAY),
        (5_000 * DAY, 7 * DAY),
    ],
)
def test_a_period_is_cut_into_pieces_that_can_be_seen(period_ms: int, step_ms: int) -> None:
    assert scales.slot_ms_for(period_ms) == step_ms


@given(st.lists(st.floats(0, 1e15), max_size=5))
def test_an_axis_of_counts_holds_all_of_them(values: list[float]) -> None:
    axis = scales.count_axis(values)
    assert axis.ticks[0] == 0
    assert axis.ticks[-1] == axis.high >= max(values, default=0)
    assert 2 <= len(axis.ticks) <= 6
    assert all(tick == int(tick) for tick in axis.ticks)


@given(st.lists(st.floats(0, 1e10), max_size=5))
def test_an_axis_of_times_holds_all_of_them(values: list[float]) -> None:
    axis = scales.duration_axis(values)
    assert 0 < axis.low < axis.high
    assert all(axis.low <= max(value, 1) <= axis.high for value in values)
    assert all(0 <= axis.place(value) <= 1 for value in values)
    assert 1 <= len(axis.ticks) <= 5


def test_places_on_a_log_axis_are_in_equal_ratios() -> None:
    axis = scales.Axis(1, 10_000, (1, 100, 10_000), is_log=True)
    assert [axis.place(one) for one in (0, 1, 100, 10_000, 1e9)] == [0, 0, 0.5, 1, 1]


@given(st.integers(0, 4 * 10**12), st.integers(0, 10**12))
def test_ticks_of_time_lie_in_the_period(first: int, length: int) -> None:
    ticks = scales.time_ticks(first, first + length)
    assert len(ticks) <= 8 or length > 7 * 91 * DAY
    assert all(first <= at <= first + length for at, _ in ticks)


@pytest.mark.parametrize(
    ("value", "words"), [(10, "10"), (12.345, "12.3"), (999.6, "1,000"), (17_643.0, "17,600")]
)
def test_a_factor_has_no_exponent(value: float, words: str) -> None:
    assert scales.ratio(value) == words


def test_lengths_after_a_begin() -> None:
    assert scales.length_ticks(640) == [(200, "+200 ms"), (400, "+400 ms"), (600, "+600 ms")]
    assert [words for _, words in scales.length_ticks(61_000)] == ["+30 s", "+1 min"]
    assert scales.length_ticks(0) == []


def test_moments_are_told_in_utc() -> None:
    assert scales.when(NOON) == "2026-11-18 12:00:00"
    assert scales.when(NOON + 7, exact=True) == "2026-11-18 12:00:00.007"
    assert scales.slot_words(NOON, HOUR) == "Nov 18, 12:00–13:00"
    assert scales.slot_words(NOON, SECOND) == "Nov 18, 12:00:00–12:00:01"
    assert scales.slot_words(NOON + 600, 200) == "Nov 18, 12:00:00.6"
    assert scales.slot_words(NOON, DAY) == "Nov 18"
    assert [words for _, words in scales.time_ticks(NOON, NOON + 4 * SECOND)][:2] == [
        "12:00:00",
        "12:00:01",
    ]
    assert scales.time_ticks(NOON, NOON + 7 * DAY)[0][1] == "Nov 19"

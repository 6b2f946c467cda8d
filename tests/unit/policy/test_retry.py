from __future__ import annotations

import pytest

from rollq.policy.retry import backoff_ms, give_back_delay_ms, retry_delay_ms
from tests.unit.grid.kit import Grid


class FixedJitter:
    """Draws a set share of the range, and remembers the range."""

    def __init__(self, percent: int) -> None:
        self.percent = percent

    def draw(self, low: int, high: int) -> int:
        return low + (high - 1 - low) * self.percent // 100

    def draw_id(self) -> bytes:
        return bytes(16)


@pytest.mark.parametrize(
    ("attempt", "expected_ms"), [(1, 500), (2, 1_000), (3, 2_000), (7, 32_000), (8, 60_000)]
)
def test_doubles_up_to_the_maximum(attempt: int, expected_ms: int) -> None:
    assert backoff_ms(attempt, 500, 60_000, FixedJitter(50)) == expected_ms


@pytest.mark.parametrize(("percent", "expected_ms"), [(0, 800), (100, 1_200)])
def test_spreads_by_a_fifth(percent: int, expected_ms: int) -> None:
    assert backoff_ms(2, 500, 60_000, FixedJitter(percent)) == expected_ms


def test_a_huge_attempt_makes_no_huge_number() -> None:
    assert backoff_ms(10**9, 1, 2**50, FixedJitter(50)) == 2**40


def test_no_base_means_no_wait() -> None:
    assert backoff_ms(5, 0, 60_000, FixedJitter(50)) == 0


def test_an_attempt_before_the_first_counts_as_the_first() -> None:
    assert backoff_ms(0, 500, 60_000, FixedJitter(50)) == 500


def test_a_job_is_given_back_at_once_and_then_after_growing_pauses() -> None:
    grid = Grid()
    grid.start("a", max_attempts=1)
    delays = []
    for _ in range(9):
        delays.append(give_back_delay_ms(grid.state, grid.job("a"), FixedJitter(50)))
        grid.nack("a", not_started=True)
        grid.assign("a")
    assert delays == [0, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000]


def test_what_was_given_back_makes_the_pause_after_a_lost_attempt_no_longer() -> None:
    grid = Grid()
    grid.start("a", retry_base_ms=100)
    for _ in range(3):
        grid.nack("a", not_started=True)
        grid.assign("a")
    assert retry_delay_ms(grid.state, grid.job("a"), FixedJitter(50)) == 100
    grid.nack("a")
    grid.assign("a")
    assert retry_delay_ms(grid.state, grid.job("a"), FixedJitter(50)) == 200

"""A certificate is spoken of thirty days before it ends, and not sooner."""

from __future__ import annotations

import pytest

from rollq.security.expiry import DAY_MS, days_left, expiry_warning, is_expiring

NOW_MS = 1_900_000_000_000


@pytest.mark.parametrize(
    ("left_ms", "told"),
    [
        (31 * DAY_MS, ""),
        (30 * DAY_MS, ""),
        (30 * DAY_MS - 1, "the certificate of m expires in 29 days"),
        (DAY_MS, "the certificate of m expires tomorrow"),
        (DAY_MS - 1, "the certificate of m expires today"),
        (1, "the certificate of m expires today"),
        (0, "the certificate of m has expired"),
        (-DAY_MS, "the certificate of m has expired"),
    ],
)
def test_what_is_told_follows_the_days_that_are_left(left_ms: int, told: str) -> None:
    assert expiry_warning("m", NOW_MS + left_ms, NOW_MS) == told
    assert is_expiring(NOW_MS + left_ms, NOW_MS) == bool(told)


def test_days_are_whole_and_negative_behind_the_end() -> None:
    assert [days_left(NOW_MS + ms, NOW_MS) for ms in (DAY_MS, DAY_MS - 1, -1)] == [1, 0, -1]


def test_of_what_is_not_known_nothing_is_told() -> None:
    assert expiry_warning("m", 0, NOW_MS) == ""

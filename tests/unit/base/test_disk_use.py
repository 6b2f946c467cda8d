"""When a disk is nearly full: little in bytes, and little of its size."""

from __future__ import annotations

import pytest

from rollq.base.disk_use import DiskUse, is_low
from rollq.base.limits import MEMBER_FREE_BYTES_MIN, MEMBER_FREE_PERCENT_MIN

GIB = 1024**3
SMALL = MEMBER_FREE_BYTES_MIN // 2
SMALL_SHARE = SMALL * MEMBER_FREE_PERCENT_MIN // 100


@pytest.mark.parametrize(
    ("free", "total", "expected"),
    [
        (MEMBER_FREE_BYTES_MIN - 1, 1_000 * GIB, True),
        (MEMBER_FREE_BYTES_MIN, 1_000 * GIB, False),  # although it is not a percent
        (SMALL_SHARE - 1, SMALL, True),
        (SMALL_SHARE, SMALL, False),  # although it is few bytes
        (0, GIB, True),
        (0, 0, False),  # a file system that tells no size
    ],
)
def test_a_disk_is_low_by_its_bytes_and_its_share(free: int, total: int, expected: bool) -> None:
    assert is_low(free, total) is expected


def test_what_is_used_is_the_sum_of_the_parts() -> None:
    assert DiskUse(1, 2, 4, 8, 16, 32, 64).used_bytes == 31

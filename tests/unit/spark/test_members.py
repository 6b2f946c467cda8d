"""How a range of indexes is cut into slices for tasks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rollq.spark.source.members import along
from rollq.spark.source.places import Sealed

SEGMENT = st.tuples(st.integers(1, 50), st.integers(1, 10_000))


def test_along_what_is_sealed() -> None:
    sealed = [Sealed(first, first + 99, 1000) for first in (1, 101, 201, 301)]
    assert along(sealed, 1, 400, 4) == [(1, 100), (101, 200), (201, 300), (301, 400)]
    assert along(sealed, 1, 400, 2) == [(1, 200), (201, 400)]
    assert along(sealed, 1, 400, 1) == [(1, 400)]


def test_what_is_large_is_cut_within() -> None:
    assert along([Sealed(1, 100, 1000)], 1, 100, 4) == [(1, 25), (26, 50), (51, 75), (76, 100)]


def test_what_is_not_sealed_counts_as_the_rest_does() -> None:
    assert along([Sealed(1, 100, 1000)], 1, 200, 2) == [(1, 100), (101, 200)]
    assert along([], 5, 8, 2) == [(5, 6), (7, 8)]
    assert along([], 5, 5, 8) == [(5, 5)]


@given(st.lists(SEGMENT, max_size=20), st.integers(0, 50), st.integers(1, 20))
def test_parts_are_the_whole_range_and_not_too_many(
    segments: list[tuple[int, int]], rest: int, count: int
) -> None:
    sealed, reached = [], 0
    for length, size in segments:
        sealed.append(Sealed(reached + 1, reached + length, size))
        reached += length
    last = reached + rest
    if not last:
        return
    parts = along(sealed, 1, last, count)
    assert [index for first, end in parts for index in range(first, end + 1)] == list(
        range(1, last + 1)
    )
    assert len(parts) <= 2 * count

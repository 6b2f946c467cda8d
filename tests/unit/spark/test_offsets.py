"""Offsets: what options mean for the groups that there are."""

from __future__ import annotations

import pytest

from rollq.base.errors import ErrorCode, LocalError
from rollq.spark.source.offsets import resolve, share
from rollq.spark.source.options import Offsets
from rollq.spark.source.places import Extent

EXTENTS = (Extent("a", 5, 100), Extent("b", 1, 1))


@pytest.mark.parametrize(
    ("wanted", "meant"),
    [
        ("earliest", {"a": 5, "b": 1}),
        ("latest", {"a": 100, "b": 1}),
        ({"a": 50, "b": 1}, {"a": 50, "b": 1}),
        ({"a": -2, "b": -1}, {"a": 5, "b": 1}),
        ({"a": 3, "b": 7}, {"a": 3, "b": 1}),  # what is gone is missed later, what is not yet waits
    ],
)
def test_what_an_option_means(wanted: Offsets, meant: dict[str, int]) -> None:
    assert resolve("startingOffsets", wanted, EXTENTS) == meant


@pytest.mark.parametrize("wanted", [{"a": 1}, {"a": 1, "c": 1}, {"a": 1, "b": 1, "c": 1}])
def test_it_must_name_the_groups(wanted: Offsets) -> None:
    with pytest.raises(LocalError, match="it must name these groups: a, b") as caught:
        resolve("startingOffsets", wanted, EXTENTS)
    assert caught.value.code is ErrorCode.BAD_OPTIONS


def test_groups_need_different_names() -> None:
    with pytest.raises(LocalError, match="several groups have the same name: a, a"):
        resolve("startingOffsets", "earliest", (Extent("a", 1, 2), Extent("a", 1, 2)))


@pytest.mark.parametrize(
    ("begins", "ends", "most", "shared"),
    [
        ({"a": 0}, {"a": 10}, 100, {"a": 10}),
        ({"a": 0}, {"a": 1000}, 100, {"a": 100}),
        ({"a": 0, "b": 0}, {"a": 300, "b": 100}, 40, {"a": 30, "b": 10}),
        ({"a": 0, "b": 0}, {"a": 1000, "b": 1}, 10, {"a": 9, "b": 1}),
        ({"a": 7, "b": 0}, {"a": 7, "b": 100}, 10, {"a": 7, "b": 10}),
        ({"a": 9}, {"a": 3}, 10, {"a": 3}),
    ],
)
def test_a_limit_is_shared(
    begins: dict[str, int], ends: dict[str, int], most: int, shared: dict[str, int]
) -> None:
    assert share(begins, ends, most) == shared


def test_a_limit_of_one_still_moves() -> None:
    ends = {"a": 100, "b": 100}
    assert share({"a": 0, "b": 0}, ends, 1) == {"a": 1, "b": 1}

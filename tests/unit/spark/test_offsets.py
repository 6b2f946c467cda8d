"""Offsets: what options mean for the groups that there are."""

from __future__ import annotations

import pytest

from rollq.base.errors import ErrorCode, LocalError
from rollq.spark.source.offsets import resolve, share, share_bytes, with_estimate
from rollq.spark.source.options import Offsets
from rollq.spark.source.places import Extent, Sealed

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


def test_bytes_are_shared_by_what_each_group_has() -> None:
    waiting = {
        "a": [Sealed(1, 10, 1_000), Sealed(11, 20, 2_000)],
        "b": [Sealed(5, 14, 1_000)],
        "c": [],
    }
    ends = {"a": 21, "b": 15, "c": 7}
    assert share_bytes(waiting | {"c": []}, ends, 4_000) == ends
    waiting.pop("c")
    assert share_bytes(waiting, ends, 2_000) == {"a": 13, "b": 10, "c": 7}
    assert share_bytes(waiting, ends, 1) == {"a": 2, "b": 6, "c": 7}


def test_what_is_not_sealed_weighs_as_the_rest_does() -> None:
    assert with_estimate([Sealed(1, 10, 500)], 1, 30)[1:] == [Sealed(11, 30, 1_000)]
    assert with_estimate([], 1, 4) == [Sealed(1, 4, 1_024)]
    assert Sealed(1, 10, 500).within(6, 30) == Sealed(6, 10, 250)

"""Which slices a read gets, and what it misses."""

from __future__ import annotations

from pathlib import Path

import pytest

from rollq.base.errors import ErrorCode, StateError
from rollq.spark.source.options import ReadOptions, read_options
from rollq.spark.source.places import Located, Slice
from rollq.spark.source.planning import place_of, plan
from tests.spark.segments import seal


def options(path: Path, **more: str) -> ReadOptions:
    return read_options({"path": str(path), "minPartitions": "1"} | more, is_stream=True)


def planned(chosen: ReadOptions, first: int, end: int) -> list[Slice]:
    place = place_of(chosen, chosen.origins[0])
    return plan(chosen, [Located(place, place.extent())], {"default": first}, {"default": end})


def test_what_is_there(tmp_path: Path) -> None:
    seal(tmp_path, 1, 10)
    [only] = planned(options(tmp_path), 3, 8)
    assert (only.first, only.last) == (3, 7)
    assert planned(options(tmp_path), 5, 5) == []
    assert planned(options(tmp_path, **{"filter._index": "9"}), 1, 8) == []


def test_what_is_gone_is_missed(tmp_path: Path) -> None:
    seal(tmp_path, 11, 20)
    with pytest.raises(StateError) as caught:
        planned(options(tmp_path), 5, 15)
    assert caught.value.code is ErrorCode.HISTORY_GONE
    assert "history 5..10 of group 'default' is gone" in caught.value.message
    [rest] = planned(options(tmp_path, failOnDataLoss="false"), 5, 15)
    assert (rest.first, rest.last) == (11, 14)
    assert planned(options(tmp_path, failOnDataLoss="false"), 5, 8) == []


def test_another_history_is_not_taken_for_the_same(tmp_path: Path) -> None:
    seal(tmp_path, 1, 10)
    with pytest.raises(StateError, match="ends at 11, and went to 21 before"):
        planned(options(tmp_path, failOnDataLoss="false"), 5, 21)

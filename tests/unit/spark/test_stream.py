"""What a stream does when members are not there for a while."""

from __future__ import annotations

import pytest
from pyspark.sql.types import LongType, StructType

from rollq.base.errors import DialError, ErrorCode
from rollq.spark.source import stream
from rollq.spark.source.options import read_options
from rollq.spark.source.places import Extent


class Leaderless:
    """A group whose history can be read, and that nobody leads."""

    def __init__(self) -> None:
        self.asked = 0

    def extent(self) -> Extent:
        return Extent("default", 1, 11)

    def hold(self, name: str, index: int) -> None:
        self.asked += 1
        raise DialError(ErrorCode.UNREACHABLE, f"no leader hears of {name} at {index}")


def test_a_query_begins_only_if_its_history_is_held_and_goes_on_if_nobody_hears_what_may_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = Leaderless()
    monkeypatch.setattr(stream, "place_of", lambda *_: place)
    monkeypatch.setattr(stream, "HOLD_S", 0.0)
    options = read_options(
        {"servers": "127.0.0.1:1", "readerName": "etl", "startingOffsets": "earliest"},
        is_stream=True,
    )
    read = stream.EventStream(StructType().add("_index", LongType()), options)
    with pytest.raises(DialError):
        read.initialOffset()
    read.commit({"default": 5})
    assert place.asked == 2

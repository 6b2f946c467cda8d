"""What a stream does when members are not there for a while."""

from __future__ import annotations

import pytest
from pyspark.sql.types import LongType, StructType

from rollq.base.errors import DialError, ErrorCode
from rollq.spark.source import holding, stream
from rollq.spark.source.holding import Holding
from rollq.spark.source.options import read_options
from rollq.spark.source.places import Extent


class Group:
    """A group whose history can be read."""

    def __init__(self, name: str, end: int) -> None:
        self.name = name
        self.end = end

    def extent(self) -> Extent:
        return Extent(self.name, 1, self.end)


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
    monkeypatch.setattr(holding, "PAUSE_S", 0.0)
    monkeypatch.setattr(holding, "INDEXES", 0)
    options = read_options(
        {"servers": "127.0.0.1:1", "readerName": "etl", "startingOffsets": "earliest"},
        is_stream=True,
    )
    read = stream.EventStreamReader(StructType().add("_index", LongType()), options)
    with pytest.raises(DialError):
        read.initialOffset()
    read.commit({"default": 5})
    assert place.asked == 2


def reader(
    places: list[Group], monkeypatch: pytest.MonkeyPatch, **more: str
) -> stream.EventStreamReader:
    monkeypatch.setattr(stream, "place_of", lambda _, origin: places[int(origin.servers[-1]) - 1])
    servers = ";".join(f"127.0.0.1:{number + 1}" for number in range(len(places)))
    given = {"servers": servers, "startingOffsets": "earliest", "failOnDataLoss": "false"}
    options = read_options(given | more, is_stream=True)
    return stream.EventStreamReader(StructType().add("_index", LongType()), options)


def test_a_group_that_was_left_out_and_comes_back_is_read_from_where_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, two = Group("one", 11), Group("two", 21)
    start = {"one": 11, "two": 21}
    one.end = 13
    left = reader([one], monkeypatch).latestOffset(start, None)
    assert left == {"one": 13, "two": 21}
    two.end = 30
    back = reader([one, two], monkeypatch)
    assert back.latestOffset(left, None) == {"one": 13, "two": 30}


class Down(Group):
    """A group of which no member answers."""

    def extent(self) -> Extent:
        raise DialError(ErrorCode.UNREACHABLE, "no member answers")


def test_a_group_that_is_down_waits_for_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    read = reader([Group("one", 13), Down("two", 0)], monkeypatch)
    start = {"one": 11, "two": 21}
    assert read.latestOffset(start, None) == {"one": 13, "two": 21}
    with pytest.raises(DialError):  # a batch has promised some of it
        read.partitions(start, {"one": 13, "two": 22})
    with pytest.raises(DialError):  # nobody is there
        reader([Down("one", 0)], monkeypatch).latestOffset({"one": 11}, None)
    careful = reader([Group("one", 13), Down("two", 0)], monkeypatch, failOnDataLoss="true")
    with pytest.raises(DialError):
        careful.latestOffset(start, None)


def test_a_batch_is_made_when_enough_waits_or_long_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [0.0]
    monkeypatch.setattr("rollq.spark.source.stream.time.monotonic", lambda: now_s[0])
    one = Group("one", 11)
    bounds = {"minOffsetsPerTrigger": "5", "maxTriggerDelay": "30s"}
    read = reader([one], monkeypatch, **bounds)
    start = read.initialOffset()
    assert read.latestOffset(start, object()) == {"one": 11}  # the first waits for nothing
    one.end = 14
    assert read.latestOffset({"one": 11}, object()) == {"one": 11}
    one.end = 16
    assert read.latestOffset({"one": 11}, object()) == {"one": 16}
    one.end = 17
    now_s[0] = 29.0
    assert read.latestOffset({"one": 16}, object()) == {"one": 16}
    now_s[0] = 30.0
    assert read.latestOffset({"one": 16}, object()) == {"one": 17}


def test_a_reader_of_an_idle_group_tells_nothing() -> None:
    """Each word is an entry of the log: that alone must not make another."""
    told = Holding()
    assert told.is_due({"one": 1}, 0.0)
    told.tried({"one": 1}, 0.0)
    day_s = 86_400
    for second in range(0, day_s, 60):
        assert not told.is_due({"one": 2 + second // 600}, float(second))
    assert told.is_due({"one": 2}, float(day_s))  # before members forget the reader


def test_a_reader_that_has_read_much_tells_it_from_time_to_time() -> None:
    told = Holding()
    told.tried({"one": 1, "two": 1}, 0.0)
    assert not told.is_due({"one": 1, "two": 5_000}, 29.0)
    assert told.is_due({"one": 1, "two": 5_000}, 30.0)

"""A run of the pipeline that goes on while nothing happens."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from rollq.spark.pipeline.bronze import Reading
from rollq.spark.pipeline.feed import Feed
from rollq.spark.pipeline.run import BATCH_BYTES, Pipeline
from rollq.spark.source.options import read_options
from rollq.spark.source.places import Extent

LOOKS = 20


class Settings:
    """As much of a Spark session as is asked for when there are no events."""

    def __init__(self) -> None:
        self.conf = self
        self._values: dict[str, str] = {}

    def get(self, name: str, default: Any = None) -> Any:
        return self._values.get(name, default)

    def set(self, name: str, value: str) -> None:
        self._values[name] = value

    def unset(self, name: str) -> None:
        del self._values[name]


class IdleFeed(Feed):
    """A group in which nothing happens, but that what a reader tells is an entry of its log."""

    entries = 5
    looks = 0
    stop: Any = None

    def extents(self) -> list[Extent]:
        IdleFeed.looks += 1
        if self.looks > LOOKS:
            self.stop()
        return [Extent("default", 1, self.entries + 1)]

    def bounded(
        self, starts: Mapping[str, int], ends: Mapping[str, int], most: int
    ) -> dict[str, int]:
        return dict(ends)

    def reading(self, starts: Mapping[str, int], ends: Mapping[str, int]) -> Reading:
        options = read_options({"path": "somewhere"}, is_stream=False)
        return Reading(options, [], ends["default"] - starts["default"])

    def hold(self, starts: Mapping[str, int]) -> None:
        IdleFeed.entries += 1


def test_an_idle_group_gets_one_entry_however_often_it_is_looked_at(tmp_path: Path) -> None:
    feed = IdleFeed(servers="127.0.0.1:1")
    pipeline = Pipeline(Settings(), feed, tmp_path)  # type: ignore[arg-type]
    IdleFeed.stop = staticmethod(pipeline.stop)
    manifest = pipeline.run(every_s=0.001)
    assert (manifest.number, feed.looks, feed.entries) == (0, LOOKS + 1, 6)


class LongFeed(IdleFeed):
    """A group with so many bytes that a batch ends after forty entries."""

    entries = 100
    read: ClassVar[list[tuple[int, int]]] = []

    def bounded(
        self, starts: Mapping[str, int], ends: Mapping[str, int], most: int
    ) -> dict[str, int]:
        assert most == BATCH_BYTES
        return {"default": min(starts["default"] + 40, ends["default"])}

    def reading(self, starts: Mapping[str, int], ends: Mapping[str, int]) -> Reading:
        self.read.append((starts["default"], ends["default"]))
        return super().reading(starts, ends)


def test_a_long_history_is_read_in_batches_of_bounded_size(tmp_path: Path) -> None:
    feed = LongFeed(path="somewhere")
    Pipeline(Settings(), feed, tmp_path).run()  # type: ignore[arg-type]
    assert feed.read == [(1, 41), (41, 81), (81, 101)]

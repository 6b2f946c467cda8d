"""How much of a history is one batch, and how many rows are expected of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rollq.spark.pipeline.feed import Feed
from rollq.spark.pipeline.settings import SMALL_ROWS

INDEXES = 1_000  # of a segment
SEGMENT_BYTES = 800_000


def history(folder: Path, segments: int, suffix: str) -> Path:
    """A folder of segments of one size, of which nothing is read but their names and sizes."""
    for number in range(segments):
        first, last = number * INDEXES + 1, (number + 1) * INDEXES
        path = folder / "history" / f"{first:020d}-{last:020d}{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(SEGMENT_BYTES))
    return folder


def feed_of(*folders: Path) -> Feed:
    """A group for each folder."""
    names = ",".join(folder.name for folder in folders)
    return Feed(path=";".join(map(str, folders)), group=names)


def test_a_batch_ends_after_so_many_bytes(tmp_path: Path) -> None:
    feed = feed_of(history(tmp_path / "a", 6, ".runs"))
    ends = feed.bounded({"a": 1}, {"a": 6_001}, 2 * SEGMENT_BYTES)
    assert ends == {"a": 2_001}
    assert feed.bounded(ends, {"a": 6_001}, 2 * SEGMENT_BYTES) == {"a": 4_001}
    assert feed.bounded({"a": 4_001}, {"a": 6_001}, 2 * SEGMENT_BYTES) == {"a": 6_001}


def test_groups_share_a_batch_by_what_they_have(tmp_path: Path) -> None:
    feed = feed_of(history(tmp_path / "a", 6, ".runs"), history(tmp_path / "b", 2, ".runs"))
    ends = feed.bounded({"a": 1, "b": 1}, {"a": 6_001, "b": 2_001}, 4 * SEGMENT_BYTES)
    assert ends == {"a": 3_001, "b": 1_001}
    assert feed.bounded({"a": 1, "b": 2_001}, {"a": 6_001, "b": 2_001}, SEGMENT_BYTES) == {
        "a": 1_001,
        "b": 2_001,
    }


@pytest.mark.parametrize("suffix", [".runs", ".jsonl"])
def test_a_packed_history_has_more_rows_than_its_bytes_say(tmp_path: Path, suffix: str) -> None:
    feed = feed_of(history(tmp_path / "a", 6, suffix))
    about = feed.reading({"a": 1}, {"a": 6_001}).rows_about(1.0)
    assert (about > SMALL_ROWS / 2) == (suffix == ".runs")

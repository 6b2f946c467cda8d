"""How a task writes events down, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rollq.grid.events import Event
from rollq.history.schema import to_lines
from rollq.history.segments import Segments
from rollq.spark.pipeline import bronze
from rollq.spark.pipeline.bronze import Written, written_by_task
from rollq.spark.pipeline.feed import Feed
from rollq.spark.pipeline.tables import DAY_MS, HOUR_MS
from rollq.store.real_disk import RealDisk

DAYS = 30
STAMP_MS = 1_700_000_000_000


class Counted(pq.ParquetWriter):  # type: ignore[misc] # pyarrow has no types
    """Knows how many of its kind are open."""

    now = 0
    most = 0

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        Counted.now += 1
        Counted.most = max(Counted.most, Counted.now)

    def close(self) -> None:
        Counted.now -= self.is_open
        super().close()


def test_a_long_history_keeps_few_files_open_and_loses_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamps = [STAMP_MS + day * DAY_MS + n * HOUR_MS for day in range(DAYS) for n in range(4)]
    stamps.append(STAMP_MS)  # of a leader whose clock is behind
    lines = [
        line
        for index, stamp_ms in enumerate(stamps, 1)
        for line in to_lines(index, stamp_ms, [Event("enqueue", job_id=index.to_bytes(16))])
    ]
    disk = RealDisk(tmp_path / "state", unsafe_no_fsync=True)
    Segments(disk).seal(1, len(stamps), lines)
    disk.close()
    monkeypatch.setattr(bronze, "GROUP_ROWS", 1)
    monkeypatch.setattr("rollq.spark.arrow.BATCH_ROWS", 3)
    monkeypatch.setattr(pq, "ParquetWriter", Counted)

    feed = Feed(path=str(tmp_path / "state"))
    (extent,) = feed.extents()
    reading = feed.reading({extent.group: 1}, {extent.group: extent.end})
    numbers = pa.RecordBatch.from_pydict({"id": list(range(len(reading.slices)))})
    told = [
        msgspec.json.decode(batch.column(0)[0].as_py(), type=Written)
        for batch in written_by_task(reading, str(tmp_path / "out"), "one", {}, [numbers])
    ]

    assert Counted.now == 0
    assert Counted.most <= 3  # as many as a batch has rows, so days
    found = [tmp_path / "out" / file.path for one in told for file in one.files]
    assert len(set(found)) == len(found) > DAYS
    indexes = [n for path in found for n in pq.read_table(path)["_index"].to_pylist()]
    assert sorted(indexes) == list(range(1, len(stamps) + 1))

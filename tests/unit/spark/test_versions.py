"""What newer Sparks give, made from what older ones give."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    BinaryType,
    LongType,
    MapType,
    Row,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from rollq.spark.source import versions
from rollq.spark.source.options import read_options
from rollq.spark.source.stream import EventStreamReader
from tests.spark.segments import seal


@pytest.fixture
def far_from_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine five hours behind UTC."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "EST5")
        time.tzset()
        yield
    time.tzset()


def batches(rows: list[Row], *fields: StructField) -> list[Any]:
    return list(versions.batches_of_rows(iter(rows), StructType(list(fields))))


@pytest.mark.usefixtures("far_from_utc")
def test_times_of_rows_are_those_of_the_machine() -> None:
    (batch,) = batches(
        [Row(not_before=datetime(2026, 1, 1, 7, 30)), Row(not_before=None)],
        StructField("not_before", TimestampType()),
    )
    assert batch.column(0).to_pylist() == [datetime(2026, 1, 1, 12, 30, tzinfo=UTC), None]


def test_rows_in_rows_and_maps_become_arrow() -> None:
    blob = StructType([StructField("digest", BinaryType()), StructField("size", LongType())])
    (batch,) = batches(
        [Row(files={"a": Row(digest=bytearray(b"d"), size=3)}, exec="x")],
        StructField("files", MapType(StringType(), blob)),
        StructField("exec", StringType()),
    )
    assert batch.to_pylist() == [{"files": [("a", {"digest": b"d", "size": 3})], "exec": "x"}]
    assert batch.schema.field("files").type == pa.map_(
        pa.string(), pa.struct({"digest": pa.binary(), "size": pa.int64()})
    )


def test_rows_come_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "PAGE_ROWS", 2)
    pages = batches([Row(n=n) for n in range(5)], StructField("n", LongType()))
    assert [page.column(0).to_pylist() for page in pages] == [[0, 1], [2, 3], [4]]
    assert batches([], StructField("n", LongType())) == []


class ReadAllAvailable:
    """As Spark since 4.2 names it."""


@pytest.mark.parametrize(
    ("limit", "default", "bounded"),
    [(None, True, True), (None, False, False), (ReadAllAvailable(), True, False)],
)
def test_whether_bounds_count_is_what_spark_says(
    limit: object, default: bool, bounded: bool
) -> None:
    assert versions.is_bounded(limit, default) == bounded
    assert versions.is_bounded(object(), default)


def test_a_reader_that_is_told_nothing_remembers_where_it_was(tmp_path: Path) -> None:
    seal(tmp_path, 1, 40)
    given = {"path": str(tmp_path), "startingOffsets": "earliest", "maxOffsetsPerTrigger": "15"}
    schema = StructType([StructField("_index", LongType())])

    def reader() -> EventStreamReader:
        return EventStreamReader(schema, read_options(given, is_stream=True))

    first = reader()
    assert first.initialOffset() == {"default": 1}
    assert first.latestOffset() == {"default": 16}
    first.partitions({"default": 1}, {"default": 16})
    assert first.latestOffset() == {"default": 31}

    repeating = reader()  # after a restart, a batch that was not committed
    repeating.partitions({"default": 1}, {"default": 11})
    assert repeating.latestOffset() == {"default": 26}

    restarted = reader()  # where it is told the place alone
    restarted.partitions({"default": 11}, {"default": 11})
    assert restarted.latestOffset() == {"default": 41}  # it may be asked once and no more
    restarted.partitions({"default": 11}, {"default": 41})
    seal(tmp_path, 41, 80)
    assert restarted.latestOffset() == {"default": 56}

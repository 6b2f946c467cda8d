"""Streaming reads of a folder that grows: offsets, limits, restarts, several groups."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.spark.segments import seal

ALL = {"startingOffsets": "earliest", "columns": "_group,_index,_ordinal"}


class Query:
    """A query that appends to a folder of Parquet, run as far as it goes."""

    def __init__(self, spark: SparkSession, place: Path) -> None:
        self._spark = spark
        self._out = str(place / "out")
        self._checkpoint = str(place / "checkpoint")

    def run(self, source: str, **options: str) -> list[dict[str, Any]]:
        """Read all that there is now; what Spark says of each batch with rows."""
        query = (
            self._spark.readStream.format("rollq")
            .options(**(ALL | options))
            .load(source)
            .writeStream.option("checkpointLocation", self._checkpoint)
            .trigger(availableNow=True)
            .start(self._out)
        )
        query.awaitTermination()
        told: list[dict[str, Any]] = [json.loads(each.json) for each in query.recentProgress]
        return [each for each in told if each["numInputRows"]]

    def rows(self) -> Counter[tuple[str, int, int]]:
        """What was read so far."""
        return Counter(tuple(row) for row in self._spark.read.parquet(self._out).collect())


def expected(group: str, first: int, last: int) -> Counter[tuple[str, int, int]]:
    return Counter((group, i, n) for i in range(first, last + 1) for n in range(3))


def test_a_stream_reads_each_row_once_over_restarts(spark: SparkSession, tmp_path: Path) -> None:
    query = Query(spark, tmp_path)
    seal(tmp_path, 1, 40)
    batches = query.run(str(tmp_path), maxOffsetsPerTrigger="15")
    assert [each["numInputRows"] for each in batches] == [45, 45, 30]
    assert batches[-1]["sources"][0]["endOffset"] == {"default": 41}
    assert query.run(str(tmp_path)) == []
    seal(tmp_path, 41, 50)
    assert [each["numInputRows"] for each in query.run(str(tmp_path))] == [30]
    assert query.rows() == expected("default", 1, 50)


def test_several_groups_and_one_more_later(spark: SparkSession, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    query = Query(spark, tmp_path)
    seal(one, 1, 20)
    query.run(str(one), group="one")
    seal(one, 21, 30)
    seal(two, 1, 30)
    batches = query.run(f"{one};{two}", group="one,two", maxOffsetsPerTrigger="20")
    assert len(batches) == 2
    assert query.rows() == expected("one", 1, 30) + expected("two", 1, 30)


def test_it_stops_at_the_ending_offsets(spark: SparkSession, tmp_path: Path) -> None:
    query = Query(spark, tmp_path)
    seal(tmp_path, 1, 20)
    query.run(str(tmp_path), startingOffsets='{"default": 5}', endingOffsets='{"default": 11}')
    assert query.rows() == expected("default", 5, 10)


def test_what_is_gone_is_missed(spark: SparkSession, tmp_path: Path) -> None:
    query = Query(spark, tmp_path)
    seal(tmp_path, 1, 10)
    query.run(str(tmp_path))
    seal(tmp_path, 21, 30)
    next((tmp_path / "history").glob("*-*10.jsonl")).unlink()
    with pytest.raises(PySparkException, match=r"history 11\.\.20 of group 'default' is gone"):
        query.run(str(tmp_path))
    query.run(str(tmp_path), failOnDataLoss="false")
    assert query.rows() == expected("default", 1, 10) + expected("default", 21, 30)

"""Streaming reads of a folder that grows: offsets, limits, restarts, several groups."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from rollq.spark.source.versions import FixesItsEnd
from tests.spark.segments import seal
from tests.spark.streams import Query

READS_AT_ONCE = FixesItsEnd is object  # `AvailableNow` before Spark 4.2


def expected(group: str, first: int, last: int) -> Counter[tuple[str, int, int]]:
    return Counter((group, i, n) for i in range(first, last + 1) for n in range(3))


@pytest.mark.each_spark
def test_a_stream_reads_each_row_once_over_restarts(spark: SparkSession, tmp_path: Path) -> None:
    query = Query(spark, tmp_path)
    seal(tmp_path, 1, 40)
    batches = query.run(path=str(tmp_path), maxOffsetsPerTrigger="15")
    in_pieces = [(45, {"default": 16}), (45, {"default": 31}), (30, {"default": 41})]
    assert batches == ([(120, {"default": 41})] if READS_AT_ONCE else in_pieces)
    assert query.run(path=str(tmp_path)) == []
    seal(tmp_path, 41, 50)
    assert query.run(path=str(tmp_path)) == [(30, {"default": 51})]
    assert query.rows() == expected("default", 1, 50)


def test_several_groups_and_one_more_later(spark: SparkSession, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    query = Query(spark, tmp_path)
    seal(one, 1, 20)
    query.run(path=str(one), group="one")
    seal(one, 21, 30)
    seal(two, 1, 30)
    batches = query.run(path=f"{one};{two}", group="one,two", maxOffsetsPerTrigger="20")
    assert len(batches) == (1 if READS_AT_ONCE else 2)
    assert query.rows() == expected("one", 1, 30) + expected("two", 1, 30)


def test_it_stops_at_the_ending_offsets(spark: SparkSession, tmp_path: Path) -> None:
    query = Query(spark, tmp_path)
    seal(tmp_path, 1, 20)
    query.run(path=str(tmp_path), startingOffsets='{"default": 5}', endingOffsets='{"default": 11}')
    assert query.rows() == expected("default", 5, 10)


def test_what_is_gone_is_missed(spark: SparkSession, tmp_path: Path) -> None:
    query = Query(spark, tmp_path)
    seal(tmp_path, 1, 10)
    query.run(path=str(tmp_path))
    seal(tmp_path, 21, 30)
    next((tmp_path / "history").glob("*-*10.jsonl")).unlink()
    with pytest.raises(PySparkException, match=r"history 11\.\.20 of group 'default' is gone"):
        query.run(path=str(tmp_path))
    query.run(path=str(tmp_path), failOnDataLoss="false")
    assert query.rows() == expected("default", 1, 10) + expected("default", 21, 30)

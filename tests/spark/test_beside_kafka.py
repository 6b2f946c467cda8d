"""What a user of Spark's Kafka source expects of a stream, point by point.

The table of docs/spark.md names a test for every row; most of them are here.
"""

from __future__ import annotations

import ast
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from rollq.spark import offsets_behind
from tests.spark.segments import STAMP_MS, seal
from tests.spark.streams import Query, follow
from tests.spark.test_folder_stream import READS_AT_ONCE, expected

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\|(?P<kafka>[^|]*)\|(?P<rollq>[^|]*)\|(?P<tests>[^|]*)\|$", re.MULTILINE)
HEAD = "| Kafka source | rollq | Shown by |"


@pytest.mark.any_spark
def test_every_row_of_the_table_names_tests_that_there_are() -> None:
    page = (ROOT / "docs/spark.md").read_text(encoding="utf-8")
    table = page.partition(HEAD)[2].partition("\n\n")[0]
    rows = [each["tests"] for each in ROW.finditer(table)][1:]  # without the rule
    assert len(rows) > 15
    for row in rows:
        named = re.findall(r"`(test_\w+)\.(test_\w+)`", row)
        assert named, f"no test: {row}"
        for module, test in named:
            assert test in functions_of(module)


def functions_of(module: str) -> set[str]:
    """In all test modules of this name."""
    return {
        one.name
        for path in (ROOT / "tests").rglob(f"{module}.py")
        for one in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(one, ast.FunctionDef)
    }


def read(spark: SparkSession, path: Path, **options: str) -> DataFrame:
    return spark.read.format("rollq").options(**options).load(str(path))


def indexes(table: DataFrame) -> list[int]:
    return sorted({row["_index"] for row in table.select("_index").collect()})


# --- where it begins and ends


def test_a_stream_begins_with_what_comes(spark: SparkSession, tmp_path: Path) -> None:
    query = Query(spark, tmp_path)
    seal(tmp_path, 1, 10)
    assert query.run(path=str(tmp_path), startingOffsets="latest") == []
    seal(tmp_path, 11, 20)
    query.run(path=str(tmp_path), startingOffsets="latest")
    assert query.rows() == expected("default", 11, 20)


def test_a_stream_begins_at_a_time(spark: SparkSession, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    seal(one, 1, 10)
    seal(one, 11, 40)
    seal(two, 31, 60, forms=("packed",))
    both = {"path": f"{one};{two}", "group": "one,two"}
    query = Query(spark, tmp_path / "all")
    query.run(**both, startingTimestamp=str(STAMP_MS + 35))
    assert query.rows() == expected("one", 35, 40) + expected("two", 35, 60)
    query = Query(spark, tmp_path / "each")
    moments = f'{{"one": {STAMP_MS + 12}, "two": {STAMP_MS}}}'
    query.run(**both, startingOffsetsByTimestamp=moments)
    assert query.rows() == expected("one", 12, 40) + expected("two", 31, 60)


def test_a_time_since_when_nothing_happened(spark: SparkSession, tmp_path: Path) -> None:
    seal(tmp_path, 1, 10)
    moment = datetime.fromtimestamp((STAMP_MS + 11) / 1000, UTC).isoformat()
    query = Query(spark, tmp_path)
    with pytest.raises(PySparkException, match="nothing has happened in group 'default' since"):
        query.run(path=str(tmp_path), startingTimestamp=moment)
    late = {"startingTimestamp": moment, "startingOffsetsByTimestampStrategy": "latest"}
    query = Query(spark, tmp_path / "late")
    assert query.run(path=str(tmp_path), **late) == []
    seal(tmp_path, 11, 15)
    query.run(path=str(tmp_path), **late)
    assert query.rows() == expected("default", 11, 15)


def test_a_batch_is_between_two_times(spark: SparkSession, tmp_path: Path) -> None:
    seal(tmp_path, 1, 30)
    seal(tmp_path, 31, 60, forms=("packed",))
    times = {"startingTimestamp": str(STAMP_MS + 25), "endingTimestamp": str(STAMP_MS + 35)}
    assert indexes(read(spark, tmp_path, **times)) == list(range(25, 35))
    late = {"endingOffsetsByTimestamp": f'{{"default": {STAMP_MS + 900}}}'}
    assert indexes(read(spark, tmp_path, **late)) == list(range(1, 61))
    with pytest.raises(PySparkException, match="a stream has no end"):
        Query(spark, tmp_path).run(path=str(tmp_path), endingTimestamp="5")


# --- how much a batch takes


@pytest.mark.skipif(READS_AT_ONCE, reason="this Spark knows no bounds with AvailableNow")
def test_a_batch_takes_so_many_bytes(spark: SparkSession, tmp_path: Path) -> None:
    for first in range(1, 101, 10):
        seal(tmp_path, first, first + 9)
    whole = sum(file.stat().st_size for file in (tmp_path / "history").iterdir())
    query = Query(spark, tmp_path)
    batches = query.run(path=str(tmp_path), maxBytesPerTrigger=str(whole // 4))
    assert [rows for rows, _ in batches][:4] == pytest.approx([75] * 4, abs=6)
    assert query.rows() == expected("default", 1, 100)


@pytest.mark.skipif(READS_AT_ONCE, reason="this Spark tells no limits")
def test_a_batch_waits_until_it_is_worth_it(spark: SparkSession, tmp_path: Path) -> None:
    seal(tmp_path, 1, 10)
    worth = {"minOffsetsPerTrigger": "20", "maxTriggerDelay": "1h"}
    with follow(spark, tmp_path, path=str(tmp_path), startingOffsets="earliest", **worth) as query:
        query.until_offset({"default": 11})  # the first is made at once
        seal(tmp_path, 11, 15)
        query.until_latest({"default": 16})
        assert query.offset() == {"default": 11}
        seal(tmp_path, 16, 40)
        query.until_offset({"default": 41})


def test_tasks_are_as_many_as_asked_for_in_all(spark: SparkSession, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for first in range(1, 101, 10):
        seal(one, first, first + 9)
        seal(two, first, first + 9)
    both = {"path": f"{one};{two}", "group": "one,two"}
    for wanted in (2, 8):
        query = Query(spark, tmp_path / str(wanted))
        query.run(**both, minPartitions=str(wanted))
        assert query.rows() == expected("one", 1, 100) + expected("two", 1, 100)
        assert wanted <= query.files() <= 1.5 * wanted


# --- groups


def test_a_group_that_is_left_out_is_missed(spark: SparkSession, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    seal(one, 1, 10)
    seal(two, 1, 10)
    query = Query(spark, tmp_path)
    query.run(path=f"{one};{two}", group="one,two")
    seal(one, 11, 20)
    seal(two, 11, 20)
    with pytest.raises(PySparkException, match="offsets of group 'two', which is not read any"):
        query.run(path=str(one), group="one")
    query.run(path=str(one), group="one", failOnDataLoss="false")
    assert query.rows() == expected("one", 1, 20) + expected("two", 1, 10)
    query.run(path=f"{one};{two}", group="one,two")  # and is read from where it was
    assert query.rows() == expected("one", 1, 20) + expected("two", 1, 20)


# --- rows


def test_events_of_older_and_newer_members(spark: SparkSession, tmp_path: Path) -> None:
    """Columns are appended: what a member did not know is absent, what we do not know is left."""
    query = Query(spark, tmp_path)
    columns = {"columns": "_group,_index,_ordinal,exec,run_ms"}
    seal(tmp_path, 1, 10, change=lambda row: {n: v for n, v in row.items() if n != "runMs"})
    query.run(path=str(tmp_path), **columns)
    seal(tmp_path, 11, 20, change=lambda row: row | {"colour": "red", "type": f"new_{row['type']}"})
    query.run(path=str(tmp_path), **columns)
    rows = query.table().where("exec = 'one' AND _ordinal = 2")
    assert {row["_index"]: row["run_ms"] for row in rows.collect()} == (
        dict.fromkeys(range(1, 11), 0) | {index: index for index in range(11, 21)}
    )


def test_a_watermark_waits_for_the_group_that_is_late(spark: SparkSession, tmp_path: Path) -> None:
    """One group is read a minute behind the other: within the delay, all rows count."""
    one, two = tmp_path / "one", tmp_path / "two"

    def counted(events: DataFrame) -> DataFrame:
        window = f.window("_ts", "10 seconds")
        late = events.withWatermark("_ts", "2 minutes")
        return late.groupBy(window).count().select(f.col("window.start").alias("at"), "count")

    query = Query(spark, tmp_path, counted)

    def run() -> None:
        query.run(path=f"{one};{two}", group="one,two", columns="_group,_ts")

    seal(one, 1, 1, stamp_ms=STAMP_MS)
    seal(two, 1, 1, stamp_ms=STAMP_MS)
    run()
    seal(one, 2, 2, stamp_ms=STAMP_MS + 60_000)  # ahead of the other group by a minute
    run()
    seal(two, 2, 2, stamp_ms=STAMP_MS + 2_000)
    run()
    for group in (one, two):  # so late that the first window is complete
        seal(group, 3, 3, stamp_ms=STAMP_MS + 600_000)
    run()
    run()
    counts = {row["at"]: row["count"] for row in query.table().collect()}
    assert sorted(counts.values()) == [3, 9]


# --- what can be seen


@pytest.mark.skipif(READS_AT_ONCE, reason="this Spark does not say where sources end")
def test_how_far_a_query_is_behind(spark: SparkSession, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    seal(one, 1, 40)
    seal(two, 1, 10)
    query = Query(spark, tmp_path)
    query.run(path=f"{one};{two}", group="one,two", maxOffsetsPerTrigger="25")
    first, second = [each for each in query.progress if each.numInputRows]
    assert offsets_behind(first) == {"one": 20, "two": 5}
    assert offsets_behind(second) == {"one": 0, "two": 0}


def test_there_is_no_continuous_mode(spark: SparkSession, tmp_path: Path) -> None:
    seal(tmp_path, 1, 10)
    events = spark.readStream.format("rollq").load(str(tmp_path))
    query = events.writeStream.format("noop").trigger(continuous="1 second")
    with pytest.raises(PySparkException, match=r"(?i)continuous"):
        query.start().awaitTermination()

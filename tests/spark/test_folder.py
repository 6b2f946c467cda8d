"""`format("rollq")` over a folder of history segments."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from rollq.base.errors import DiskError
from rollq.history.columns import EVENTS
from rollq.spark.source.folder import Folder
from rollq.spark.source.options import SourceOrigin
from tests.spark.segments import STAMP_MS, seal, written


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Segments of all kinds: 900 rows at 300 indexes."""
    path = tmp_path_factory.mktemp("history")
    seal(path, 1, 100)
    seal(path, 101, 101, forms=("packed",))
    seal(path, 102, 200, forms=("packed", "lines"))
    seal(path, 201, 300, forms=("packed",))
    return path


def read(spark: SparkSession, path: Path, **options: str) -> DataFrame:
    return spark.read.format("rollq").options(**options).load(str(path))


def test_it_is_found_and_has_the_columns_of_events(spark: SparkSession, folder: Path) -> None:
    table = read(spark, folder)
    assert table.columns == [column.name for column in EVENTS]


def test_every_row_is_as_it_was_written(spark: SparkSession, folder: Path) -> None:
    rows = read(spark, folder).orderBy("_index", "_ordinal").collect()
    lines = written(folder)
    assert len(rows) == len(lines) == 900
    for row, line in zip(rows, lines, strict=True):
        assert row["_group"] == "default"
        for column in EVENTS:
            if column.type == "timestamp":
                assert row[column.name].timestamp() * 1000 == line["ts"]
            elif column.field:
                absent = None if column.type == "string" else 0
                assert row[column.name] == line.get(column.field, absent)


def test_slices_give_each_row_once(spark: SparkSession, folder: Path) -> None:
    for count in ("1", "7", "30"):
        table = read(spark, folder / "history", minPartitions=count, columns="_index,_ordinal")
        places = [tuple(row) for row in table.collect()]
        assert len(places) == len(set(places)) == 900


@pytest.mark.any_spark
def test_segments_that_overlap_give_each_row_once(tmp_path: Path) -> None:
    for first, last in ((1, 40), (21, 60), (30, 50), (61, 70)):  # as of several members
        seal(tmp_path, first, last)
    folder = Folder(SourceOrigin(path=str(tmp_path), group="g"))
    folder.extent()
    for count in (1, 3):
        slices = folder.slices(5, 65, count)
        tables = [table for each in slices for table in folder.tables(each, EVENTS)]
        indexes = [index for table in tables for index in table["_index"].to_pylist()]
        assert sorted(indexes) == [index for index in range(5, 66) for _ in range(3)]


def test_only_the_named_columns(spark: SparkSession, folder: Path) -> None:
    table = read(spark, folder, columns="exec, run_ms")
    assert table.columns == ["exec", "run_ms"]
    assert table.agg(f.sum("run_ms")).collect()[0][0] == sum(range(1, 301))


def test_conditions_as_options(spark: SparkSession, folder: Path) -> None:
    found = read(spark, folder, **{"filter.type": "ack", "filter.exit_code": "1,2"})
    assert found.count() == 200
    moment = datetime.fromtimestamp((STAMP_MS + 291) / 1000, UTC).isoformat()
    assert read(spark, folder, since=moment, columns="exec").count() == 30
    assert read(spark, folder, until=str(STAMP_MS + 11), columns="exec").count() == 30


def test_conditions_of_sql(spark: SparkSession, folder: Path) -> None:
    table = read(spark, folder)
    found = table.where("type = 'enqueue' and queue = 'q1' and _index between 10 and 19")
    assert sorted(row["_index"] for row in found.collect()) == list(range(10, 20))
    assert table.where("job_key is null and exec like 'tw%'").count() == 300
    assert table.where("exec in ('one') or priority = 1").count() == 750


def test_offsets_bound_a_read(spark: SparkSession, folder: Path) -> None:
    table = read(
        spark, folder, startingOffsets='{"default": 100}', endingOffsets='{"default": 103}'
    )
    assert sorted({row["_index"] for row in table.collect()}) == [100, 101, 102]


def test_a_gap_is_an_error_unless_it_does_not_matter(spark: SparkSession, tmp_path: Path) -> None:
    seal(tmp_path, 1, 10)
    seal(tmp_path, 21, 30)
    with pytest.raises(PySparkException, match=r"history 11\.\.20 of group 'default' is gone"):
        read(spark, tmp_path).count()
    assert read(spark, tmp_path, failOnDataLoss="false").count() == 60


def test_damage_is_told(spark: SparkSession, tmp_path: Path) -> None:
    seal(tmp_path, 1, 10)
    file = next((tmp_path / "history").glob("*.jsonl"))
    file.write_bytes(file.read_bytes().replace(b'"priority":1', b'"priority":7'))
    with pytest.raises(PySparkException, match="does not match its checksum"):
        read(spark, tmp_path, minPartitions="1").count()


@pytest.mark.any_spark
def test_damage_of_a_packed_segment_is_told(tmp_path: Path) -> None:
    seal(tmp_path, 1, 10, forms=("packed",))
    file = next((tmp_path / "history").glob("*.runs"))
    whole = file.read_bytes()
    for place, told in ((20, "does not match its checksum"), (-20, "no footer")):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        folder = Folder(SourceOrigin(path=str(tmp_path), group="g"))
        folder.extent()
        [wanted] = folder.slices(1, 10, 1)
        with pytest.raises(DiskError, match=told):
            list(folder.tables(wanted, EVENTS))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"colums": "exec"}, "did you mean columns"),  # told by the schema
        ({"readerName": "me"}, "it is for streams"),  # by the reader
        ({"startingOffsets": '{"other": 3}'}, "it must name these groups: default"),  # by the plan
    ],
)
def test_an_option_that_is_wrong_says_so(
    spark: SparkSession, folder: Path, options: dict[str, str], told: str
) -> None:
    with pytest.raises(PySparkException, match=told):
        read(spark, folder, **options).count()


def test_a_schema_of_ones_own_must_fit(spark: SparkSession, folder: Path) -> None:
    reading = spark.read.format("rollq")
    found = reading.schema("run_ms bigint").load(str(folder)).agg(f.sum("run_ms"))
    assert found.collect()[0][0] == sum(range(1, 301))
    with pytest.raises(PySparkException, match="run_ms of table events is bigint, and not string"):
        reading.schema("run_ms string").load(str(folder)).count()

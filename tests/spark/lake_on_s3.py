"""The pipeline on tables that are in a bucket, from the first batch on; ends with an error where
something is not as it should be.

python -m tests.spark.lake_on_s3 delta http://127.0.0.1:5555 FOLDER

Of Iceberg the catalog is a database (SQLite), and the bucket its warehouse. It is a program,
because Spark takes packages at its start alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bench.pipeline.lives import Lives, seal_lives
from rollq.base.errors import DiskError, ErrorCode
from rollq.spark import session
from rollq.spark.asking.queries import loader
from rollq.spark.pipeline.feed import Feed
from rollq.spark.pipeline.formats import DELTA, ICEBERG, PACKAGES, format_settings
from rollq.spark.pipeline.lake_batch import LakeBatch
from rollq.spark.pipeline.lake_batches import BatchesTable
from rollq.spark.pipeline.run import Pipeline
from rollq.spark.pipeline.upkeep import compact
from tests.spark.comparing import Rows, counted, differences
from tests.spark.plain import read
from tests.spark.plain_gold import Plain
from tests.spark.spoiled import DAYS_TURN_MS

TABLES = {DELTA: "s3a://lake/tables", ICEBERG: "lake.rollq"}
_SQLITE = "org.xerial:sqlite-jdbc:3.50.3.0"


class BrokenOffError(Exception):
    """What ends a run at a chosen point."""


def main() -> None:
    """Batches, one of them broken off, two writers, and upkeep."""
    form, endpoint, place = sys.argv[1:]
    folder, tables = Path(place), TABLES[form]
    spark = session("local[2,4]", **format_settings(form, tables, **_conf(form, endpoint, folder)))
    state = folder / "state"
    lives = Lives(21, turn_ms=DAYS_TURN_MS)
    feed = Feed(path=str(state))
    pipeline = Pipeline(spark, feed, tables, form=form)

    def check(number: int) -> None:
        rows = partial(_rows, spark, tables, form)
        assert differences(folder, [Plain("default", read(state))], rows) == []
        assert pipeline.run().number == number  # nothing is new

    seal_lives(state, lives, 150)
    assert pipeline.run().number == 1
    check(1)
    before = _rows(spark, tables, form, folder, "silver_jobs")
    seal_lives(state, lives, 60)
    with _after(LakeBatch, "_write", 5, _break_off), pytest.raises(BrokenOffError):
        pipeline.run()
    assert _rows(spark, tables, form, folder, "silver_jobs") == before
    assert pipeline.run().number == 2
    check(2)

    seal_lives(state, lives, 60)
    if form == ICEBERG:  # commits of Delta on S3 are safe from one writer alone
        fast = Pipeline(spark, feed, tables, form=form)
        with _before(BatchesTable, "add", fast.run), pytest.raises(DiskError) as caught:
            pipeline.run()
        assert caught.value.code is ErrorCode.DISK_BUSY
    pipeline.run()
    check(3)

    _, compacted = compact(spark, tables, form)
    assert compacted.number == 4
    check(4)
    _check_store(spark)
    spark.stop()
    print("as it should be")


def _conf(form: str, endpoint: str, folder: Path) -> dict[str, str]:
    conf = {
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.hadoop.fs.s3a.endpoint": endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.access.key": "key",
        "spark.hadoop.fs.s3a.secret.key": "secret",
    }
    if form == ICEBERG:
        conf |= {
            PACKAGES: _SQLITE,
            "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.lake.type": "jdbc",
            "spark.sql.catalog.lake.uri": f"jdbc:sqlite:{folder / 'catalog.db'}",
            "spark.sql.catalog.lake.jdbc.schema-version": "V1",
            "spark.sql.catalog.lake.warehouse": "s3a://lake/warehouse",
        }
    return conf


def _rows(spark: SparkSession, tables: str, form: str, _: Path, name: str) -> Rows:
    return counted(loader(spark, tables, form)(name).toArrow())


def _check_store(spark: SparkSession) -> None:
    """Files were written there, and none was renamed."""
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path("s3a://lake/")
    statistics = path.getFileSystem(spark._jsc.hadoopConfiguration()).getStorageStatistics()
    assert statistics.getLong("op_create") > 0
    assert statistics.getLong("op_rename") == 0


def _break_off() -> None:
    raise BrokenOffError


class _Patched:
    """A method that does something else as well, for a while."""

    def __init__(self, kind: type, name: str, method: Callable[..., Any]) -> None:
        self._patch = pytest.MonkeyPatch()
        self._patched = kind, name, method

    def __enter__(self) -> None:
        self._patch.setattr(*self._patched)

    def __exit__(self, *_: object) -> None:
        self._patch.undo()


def _after(kind: type, name: str, place: int, work: Callable[[], object]) -> _Patched:
    """The call of this number is followed by some work."""
    function: Callable[..., Any] = getattr(kind, name)
    calls: list[None] = []

    def called(*arguments: Any, **named: Any) -> Any:
        result = function(*arguments, **named)
        calls.append(None)
        if len(calls) == place:
            work()
        return result

    return _Patched(kind, name, called)


def _before(kind: type, name: str, work: Callable[[], object]) -> _Patched:
    """The first call comes after some work."""
    function: Callable[..., Any] = getattr(kind, name)
    calls: list[None] = []

    def called(*arguments: Any, **named: Any) -> Any:
        calls.append(None)
        if len(calls) == 1:
            work()
        return function(*arguments, **named)

    return _Patched(kind, name, called)


if __name__ == "__main__":
    main()

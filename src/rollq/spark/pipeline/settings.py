"""Settings of Spark that suit the pipeline, for as long as it runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS: Final = {
    # Hours and days are those of UTC.
    "spark.sql.session.timeZone": "UTC",
    # Files of several days are open at once, instead of rows being sorted by day before.
    "spark.sql.maxConcurrentOutputFileWriters": "64",
    # Lists of values for percentiles stay in memory: a batch is bounded.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "1000000",
    # Files are named by the manifest; looking for them is no work for a job.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
SMALL_ROWS: Final = 200_000
SMALL_SETTINGS: Final = {
    # All of it is read as one partition, which needs no exchange: there is nothing to adapt to.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.autoBroadcastJoinThreshold": "100000",
}
# Making and compiling code for a question costs more than answering it by the letter, if there are
# few rows: until there were many, after which Java knows its way.
COLD_SETTINGS: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
WARM_ROWS: Final = 500_000
_IS_WARM: Final = "rollq.pipeline.warm"


@contextmanager
def suited(spark: SparkSession) -> Iterator[None]:
    """Spark as the pipeline needs it; afterwards as it was."""
    with changed(spark, SETTINGS):
        yield


@contextmanager
def small_work(spark: SparkSession, is_small: bool) -> Iterator[None]:
    """Spark as it does best with few rows, if they are few."""
    small = SMALL_SETTINGS if spark.conf.get(_IS_WARM, "") else SMALL_SETTINGS | COLD_SETTINGS
    with changed(spark, small if is_small else {}):
        yield


def note_work(spark: SparkSession, rows: int) -> None:
    """So many rows were worked on in this session."""
    if rows >= WARM_ROWS:
        spark.conf.set(_IS_WARM, "true")


@contextmanager
def changed(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Spark with these settings; afterwards as it was."""
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, was in before.items():
            if was is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, was)

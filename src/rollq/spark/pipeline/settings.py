"""Spark settings for the pipeline, applied while it runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS: Final = {
    # Hours and days are in UTC.
    "spark.sql.session.timeZone": "UTC",
    # Write several days concurrently, instead of sorting rows by day.
    "spark.sql.maxConcurrentOutputFileWriters": "64",
    # Keep arrays for percentiles in memory: batches are bounded.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "1000000",
    # The manifest lists all files; a distributed listing would only cost time.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
SMALL_ROWS: Final = 200_000
SMALL_SETTINGS: Final = {
    # One partition without shuffles: adaptive execution has nothing to do.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.autoBroadcastJoinThreshold": "100000",
}
# Code generation costs more than it saves for few rows, until the JVM has compiled the generated
# code paths.
COLD_SETTINGS: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
WARM_ROWS: Final = 500_000
_IS_WARM: Final = "rollq.pipeline.warm"


@contextmanager
def pipeline_settings(spark: SparkSession) -> Iterator[None]:
    """Apply the pipeline's settings inside the block."""
    with changed(spark, SETTINGS):
        yield


@contextmanager
def small_work(spark: SparkSession, is_small: bool) -> Iterator[None]:
    """Apply settings for few rows inside the block, if `is_small`."""
    small = SMALL_SETTINGS if spark.conf.get(_IS_WARM, "") else SMALL_SETTINGS | COLD_SETTINGS
    with changed(spark, small if is_small else {}):
        yield


def note_work(spark: SparkSession, rows: int) -> None:
    """Record rows processed in this session, after which the JVM counts as warm."""
    if rows >= WARM_ROWS:
        spark.conf.set(_IS_WARM, "true")


@contextmanager
def changed(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Apply settings inside the block, and restore the previous ones.

    An interrupt cuts the connection to Java; what is raised then is the interrupt, as there is
    nothing left to restore.
    """
    from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]

    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        with suppress(Py4JNetworkError):
            for name, was in before.items():
                if was is None:
                    spark.conf.unset(name)
                else:
                    spark.conf.set(name, was)

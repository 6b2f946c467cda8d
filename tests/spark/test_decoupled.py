"""The decoupled form: rows are written as jobs, and what came of them is joined by their keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from rollq import BlockingClient
from tests.integration.small_grid import SmallGrid
from tests.spark.test_grid_map import wait_until

ROWS = 200


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallGrid]:
    """A member and a worker."""
    folder = tmp_path_factory.mktemp("grid")
    with SmallGrid(folder, "tests.integration.sample_app") as grid:
        yield grid


def test_jobs_are_written_and_their_results_joined(
    spark: SparkSession, grid: SmallGrid, tmp_path: Path
) -> None:
    orders = spark.range(ROWS, numPartitions=2).withColumn("order", f.format_string("o-%d", "id"))
    jobs = orders.select(
        f.lit("add").alias("exec"),
        f.array(f.col("id").cast("string"), f.lit("1000")).alias("args"),
        f.col("order").alias("job_key"),
    )
    jobs.write.format("rollq").mode("append").options(servers=grid.address).save()
    with BlockingClient(grid.address) as client:
        wait_until(lambda: client.counts().ok == ROWS)
    stream = (
        spark.readStream.format("rollq")
        .options(servers=grid.address, table="results", startingOffsets="earliest")
        .load()
        .writeStream.format("parquet")
        .option("path", str(tmp_path / "results"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    stream.awaitTermination(120)
    results = spark.read.parquet(str(tmp_path / "results"))
    told = orders.join(results, orders["order"] == results["job_key"], "left")
    found = told.agg(
        f.count("*"), f.count("job_id"), f.sum(f.col("stdout").cast("long") - f.col("id"))
    )
    assert tuple(found.collect()[0]) == (ROWS, ROWS, 1_000 * ROWS)

"""Writes that need many batches: a DataFrame of millions of rows, and a stream whose micro-batch is
as large. Accepted a second, and each job once, also when the driver dies half way."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from bench.peers.rollq import Rollq
from bench.procs import wait_until
from bench.spark import crashing
from bench.spark.write import WARM_ROWS, drive, jobs, write
from rollq import BlockingClient
from rollq.base.limits import BATCH_JOBS_MAX

UNPACKED_S_MAX: Final = 900.0


def measure_large(spark: SparkSession, folder: Path, count: int, batch: int) -> dict[str, float]:
    """One member each, because a member holds what was written before."""
    return (
        from_a_frame(spark, folder / "frame", count)
        | by_a_stream(spark, folder / "stream", batch)
        | half_way(spark, folder / "driver", batch)
    )


def from_a_frame(spark: SparkSession, folder: Path, count: int) -> dict[str, float]:
    """A DataFrame, once."""
    grid = Rollq("r1")
    grid.start(folder)
    try:
        write(jobs(spark, "warm", WARM_ROWS), grid.servers)
        began = time.perf_counter()
        write(jobs(spark, "frame", count), grid.servers)
        took_s = time.perf_counter() - began
        wrong = wrong_keys(spark, grid.servers, "frame", count, count + WARM_ROWS)
    finally:
        grid.stop()
    return {"large_accepted_per_s": count / took_s, "large_wrong_jobs": float(wrong)}


def by_a_stream(spark: SparkSession, folder: Path, batch: int) -> dict[str, float]:
    """All rows are one micro-batch."""
    grid = Rollq("r1")
    grid.start(folder)
    try:
        crashing.rows(spark, batch).write.parquet(str(folder / "in"))
        began = time.perf_counter()
        crashing.write(spark, grid.servers, folder)
        took_s = time.perf_counter() - began
        wrong = wrong_keys(spark, grid.servers, "crash", batch, batch)
    finally:
        grid.stop()
    return {"micro_batch_accepted_per_s": batch / took_s, "micro_batch_wrong_jobs": float(wrong)}


def half_way(spark: SparkSession, folder: Path, batch: int) -> dict[str, float]:
    """The driver dies when some batches of its plan are accepted; another goes on from the
    checkpoint. Nothing to see where one batch holds all."""
    if batch <= BATCH_JOBS_MAX:
        return {}
    grid = Rollq("r1")
    grid.start(folder)
    try:
        codes = [drive(grid.servers, folder, batch, ending) for ending in ("halfway", "finish")]
        wrong = wrong_keys(spark, grid.servers, "crash", batch, batch)
    finally:
        grid.stop()
    return {"half_way_wrong_jobs": float(wrong + (codes != [-signal.SIGKILL, 0]))}


def wrong_keys(spark: SparkSession, servers: str, prefix: str, count: int, waiting: int) -> int:
    """How many jobs are missing, or there more than once, or should not be; by the history, once
    so many wait in all."""
    with BlockingClient(servers) as client:
        wait_until(lambda: client.counts().waiting >= waiting, f"{waiting} jobs", UNPACKED_S_MAX)
    options = {"servers": servers, "columns": "job_key", "filter.type": "enqueue"}
    keys = spark.read.format("rollq").options(**options).load()
    number = f.try_to_number(f.substring("job_key", len(prefix) + 2, 20), f.lit("9" * 18))
    found = (
        keys.where(f.col("job_key").startswith(f"{prefix}-"))
        .select(number.alias("n"))
        .agg(
            f.count("*").alias("rows"),
            f.countDistinct(f.when((f.col("n") >= 0) & (f.col("n") < count), f.col("n"))),
        )
        .collect()[0]
    )
    return int(count - found[1] + found["rows"] - found[1])

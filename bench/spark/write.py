"""A DataFrame written as jobs: how many are accepted a second, and that each is there once."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any, Final

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from bench.peers.rollq import Rollq
from bench.procs import OUR_TREE, ROOT, python, wait_until
from rollq.roles.reader.reader import Reader

WARM_ROWS: Final = 4_000
UNPACKED_S_MAX: Final = 120.0
DRIVER_S_MAX: Final = 600.0
TASKS: Final = 2


def measure_write(spark: SparkSession, folder: Path, count: int, runs: int) -> dict[str, float]:
    """Several times on one member."""
    grid = Rollq("r1")
    grid.start(folder)
    took: list[float] = []
    try:
        write(jobs(spark, "warm", WARM_ROWS), grid.servers)
        for run in range(runs):
            began = time.perf_counter()
            write(jobs(spark, f"run{run}", count), grid.servers)
            took.append(time.perf_counter() - began)
        wrong = sum(wrong_jobs(grid.servers, f"run{run}", count) for run in range(runs))
        entries = commits(grid.servers) - 1  # which was to warm up
    finally:
        grid.stop()
    return {
        "write_accepted_per_s": count / median(took),
        "write_wrong_jobs": float(wrong),
        "write_entries_each": entries / runs,
    }


def measure_crashes(spark: SparkSession, folder: Path, count: int) -> dict[str, float]:
    """A task that fails once, a leader that is killed, a driver that dies before its commit."""
    return {
        "retry_wrong_jobs": with_a_failing_task(spark, folder / "retry", count),
        "failover_wrong_jobs": with_a_dead_leader(spark, folder / "failover", count),
        "driver_wrong_jobs": with_a_dying_driver(folder / "driver", count),
    }


def with_a_failing_task(spark: SparkSession, folder: Path, count: int) -> float:
    """It has sent some when it fails, and is tried again."""
    marker = str(folder / "failed")

    def fail() -> None:
        raise ValueError("this task fails once")

    grid = Rollq("r1")
    grid.start(folder)
    try:
        write(jobs(spark, "retry", count, once(marker, fail)), grid.servers)
        return wrong_jobs(grid.servers, "retry", count) + (not os.path.exists(marker))
    finally:
        grid.stop()


def with_a_dead_leader(spark: SparkSession, folder: Path, count: int) -> float:
    """Killed while tasks send."""
    marker = str(folder / "killed")
    grid = Rollq("r3")
    grid.start(folder)
    try:
        pid = grid.members[grid.leader()].pid

        def kill() -> None:
            os.kill(pid, signal.SIGKILL)

        write(jobs(spark, "failover", count, once(marker, kill)), grid.servers)
        return wrong_jobs(grid.servers, "failover", count) + (not os.path.exists(marker))
    finally:
        grid.stop()


def with_a_dying_driver(folder: Path, count: int) -> float:
    """Killed when all is sent and nothing accepted; another goes on from the checkpoint."""
    grid = Rollq("r1")
    grid.start(folder)
    try:
        codes = [drive(grid.servers, folder, count, ending) for ending in ("crash", "finish")]
        wrong = wrong_jobs(grid.servers, "crash", count)
        return wrong + (codes != [-signal.SIGKILL, 0])
    finally:
        grid.stop()


def drive(servers: str, folder: Path, count: int, ending: str) -> int:
    """Run a driver in a process of its own; how it ended."""
    with (folder / f"driver-{ending}.log").open("wb") as log:
        return subprocess.run(
            python("bench.spark.crashing", servers, str(folder), str(count), ending),
            cwd=ROOT,
            env={**os.environ, **OUR_TREE},
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=DRIVER_S_MAX,
        ).returncode


def once(marker: str, work: Callable[[], None]) -> Callable[[], None]:
    """Something that only the first of all processes does."""

    def maybe_work() -> None:
        if not os.path.exists(marker):
            with open(marker, "x"):
                work()

    return maybe_work


def jobs(
    spark: SparkSession, prefix: str, count: int, disturb: Callable[[], None] | None = None
) -> DataFrame:
    """Jobs with keys; something happens when the rows of a task are almost all through."""
    late = count // TASKS - count // 20

    def passed_on(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            if disturb is not None and late in batch.column("id").to_pylist():
                disturb()
            yield batch

    rows = spark.range(0, count, 1, TASKS)
    return (rows if disturb is None else rows.mapInArrow(passed_on, "id bigint")).select(
        f.lit("resize").alias("exec"),
        f.array(f.lit("--picture"), f.col("id").cast("string")).alias("args"),
        f.concat(f.lit(f"{prefix}-"), f.col("id")).alias("job_key"),
    )


def write(table: DataFrame, servers: str) -> None:
    """Returns when all are accepted."""
    table.write.format("rollq").option("servers", servers).mode("append").save()


def wrong_jobs(servers: str, prefix: str, count: int) -> int:
    """How many jobs are missing, or there more than once, or should not be."""
    wanted = {f"{prefix}-{n}" for n in range(count)}
    found: list[str] = []

    def are_all_there() -> bool:
        found[:] = [
            row["jobKey"]
            for row in history(servers)
            if row["type"] == "enqueue" and row.get("jobKey", "").startswith(f"{prefix}-")
        ]
        return len(found) >= count

    wait_until(are_all_there, f"{count} jobs", UNPACKED_S_MAX)
    return len(wanted.symmetric_difference(found)) + len(found) - len(set(found))


def commits(servers: str) -> int:
    """How many entries of the log accepted jobs."""
    return sum(row["type"] == "batch_commit" for row in history(servers))


def history(servers: str) -> Iterator[dict[str, Any]]:
    """All that happened."""
    decode = msgspec.json.Decoder().decode_lines
    with Reader(servers) as reader:
        for piece in reader.pieces(1, reader.span().applied, forms=("lines", "events")):
            yield from decode(piece.lines())

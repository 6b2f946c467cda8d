"""`format("rollq")` over the tables of the state, and the stream of results."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from rollq import BlockingClient
from rollq.spark.schemas import TABLES, columns_of
from tests.integration.small_grid import SmallGrid
from tests.integration.workers import write_program

APP = "tests.integration.sample_app"
DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallGrid]:
    directory = tmp_path_factory.mktemp("grid")
    write_program(directory, "say", 'echo "$@"; echo why >&2; exit 3')
    write_program(directory, "die", "exit 75")
    with SmallGrid(directory, APP) as running:
        yield running


@pytest.fixture(scope="module")
def client(grid: SmallGrid) -> Iterator[BlockingClient]:
    with BlockingClient(grid.address) as running:
        yield running


def read(spark: SparkSession, grid: SmallGrid, table: str, **options: str) -> DataFrame:
    named = {"servers": grid.address, "table": table, "timeout": "120"}
    return spark.read.format("rollq").options(**(named | options)).load()


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in frame.collect()]


def test_every_table_has_its_columns(spark: SparkSession, grid: SmallGrid) -> None:
    for table in TABLES:
        wanted = [(column.name, column.type) for column in columns_of(table)]
        assert read(spark, grid, table).dtypes == wanted


def test_tables_say_what_the_grid_says(
    spark: SparkSession, grid: SmallGrid, client: BlockingClient
) -> None:
    said = client.submit("say", ["a", "b"]).result(DEADLINE_S)
    retries: dict[str, Any] = {"max_attempts": 2, "retry_exit_codes": [75]}
    dead = client.submit("die", ["x", "y"], **retries).result(DEADLINE_S)
    assert dead.status == "DEAD"
    (row,) = rows(read(spark, grid, "results").where(f"job_id = '{said.id}'"))
    assert (row["stdout"], row["stderr"], row["exit_code"]) == ("a b\n", "why\n", 3)
    (row,) = rows(read(spark, grid, "dlq", columns="job_id,args,cause_name,attempt,_group,_index"))
    assert (row["job_id"], row["args"], row["cause_name"]) == (dead.id, ["x", "y"], "exit_code")
    assert row["_group"] == "default"
    tries = rows(read(spark, grid, "attempts", **{"filter.exec": "die"}).orderBy("attempt"))
    assert [(one["attempt"], one["outcome"]) for one in tries] == [(1, "retried"), (2, "retried")]
    assert all(one["job_id"] == dead.id for one in tries)
    (worker,) = rows(read(spark, grid, "workers"))
    assert worker["slots"] == 2
    jobs = read(spark, grid, "jobs")
    states = {
        row["state"]: row["n"]
        for row in rows(
            jobs.groupBy("state").agg({"*": "count"}).withColumnRenamed("count(1)", "n")
        )
    }
    words = ("ok", "failed", "dead")
    counted = rows(read(spark, grid, "queues").selectExpr(*(f"sum({one}) {one}" for one in words)))
    assert counted == [{word: states.get(word, 0) for word in words}]


def test_options_that_make_no_sense(spark: SparkSession, grid: SmallGrid) -> None:
    with pytest.raises(PySparkException, match="read as it is now"):
        read(spark, grid, "jobs", startingOffsets="earliest").count()
    stream = spark.readStream.format("rollq").options(servers=grid.address, table="jobs").load()
    query = stream.writeStream.format("noop").trigger(availableNow=True)
    with pytest.raises(PySparkException, match="as a stream"):
        query.start().awaitTermination()


def test_a_stream_of_results_has_every_end_once(
    spark: SparkSession, grid: SmallGrid, client: BlockingClient, tmp_path: Path
) -> None:
    def run() -> list[dict[str, Any]]:
        query = (
            spark.readStream.format("rollq")
            .options(servers=grid.address, table="results", startingOffsets="earliest")
            .load()
            .writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "out"))
        )
        query.awaitTermination()
        return rows(spark.read.parquet(str(tmp_path / "out")))

    first = client.submit("say", ["one"]).result(DEADLINE_S)
    seen = {row["job_id"]: row for row in run()}
    assert (seen[first.id]["stdout"], seen[first.id]["exit_code"]) == ("one\n", 3)
    second = client.submit("say", ["two"]).result(DEADLINE_S)
    found = run()
    assert sorted(row["job_id"] for row in found) == sorted([*seen, second.id])
    last = next(row for row in found if row["job_id"] == second.id)
    assert (last["stdout"], last["_index"] > seen[first.id]["_index"]) == ("two\n", True)
    told = {row["job_id"] for row in rows(read(spark, grid, "results"))}
    assert told == {row["job_id"] for row in found}, json.dumps(found, default=str)

"""Redrive by SQL: dead jobs are chosen, changed and written back, in one transaction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from rollq import BlockingClient
from tests.integration.small_grid import SmallGrid
from tests.spark.test_grid_map import wait_until

# Content with any number but those below ten; with a file beside it that must stay.
PICKY = """#!/bin/sh
[ "$1" -ge 10 ] || exit 75
echo "$1 $(cat note.txt)"
"""


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallGrid]:
    """A member and a worker."""
    folder = tmp_path_factory.mktemp("grid")
    with SmallGrid(folder, "tests.integration.sample_app") as grid:
        program = folder / "exec" / "picky"
        program.write_text(PICKY)
        program.chmod(0o755)
        yield grid


def dead(spark: SparkSession, grid: SmallGrid) -> DataFrame:
    source = spark.read.format("rollq").option("servers", grid.address)
    return source.option("table", "dlq").load()


def write(rows: DataFrame, grid: SmallGrid, **options: str) -> None:
    sink = rows.write.format("rollq").mode("append").option("servers", grid.address)
    sink.option("op", "redrive").options(**options).save()


def test_dead_jobs_are_chosen_changed_and_written_back(
    spark: SparkSession, grid: SmallGrid
) -> None:
    with BlockingClient(grid.address, client_id="ann") as client:
        options: dict[str, Any] = {"max_attempts": 1, "retry_exit_codes": [75]}
        jobs = [
            client.submit("picky", [str(n)], files={"note.txt": b"%d" % n}, **options)
            for n in range(4)
        ]
        assert [job.result(30).status for job in jobs] == ["DEAD"] * 4
        dead(spark, grid).createOrReplaceTempView("dlq")
        chosen = spark.sql(
            "SELECT job_id, body, transform(args, a -> string(int(a) + 10)) AS args FROM dlq"
            " WHERE exec = 'picky' AND exit_code = 75 AND int(args[0]) < 3"
        )
        write(chosen, grid, batchKey="monday")
        wait_until(lambda: client.counts().dead == 1)
        wait_until(lambda: client.counts().ok == 3)
        told = [client.status(job.id) for job in jobs]
        assert [view.state for view in told if view] == ["ok"] * 3 + ["dead"]
        outputs = [client.attach(job.id).result(30).stdout for job in jobs[:3]]
        assert outputs == ["10 0\n", "11 1\n", "12 2\n"]
        write(chosen.limit(0), grid)
        # The same batch once more is known, and nothing happens.
        again = dead(spark, grid).select("job_id")
        write(again, grid, batchKey="monday")
        assert client.counts().dead == 1
        # As it is: it dies once more.
        write(again, grid)
        wait_until(lambda: bool((view := client.status(jobs[3].id)) and view.attempt == 2))


def test_all_or_none(spark: SparkSession, grid: SmallGrid) -> None:
    with BlockingClient(grid.address, client_id="bob") as client:
        lost = client.submit("picky", ["1"], max_attempts=1, retry_exit_codes=[75])
        fine = client.submit("picky", ["20"], files={"note.txt": b""})
        assert [lost.result(30).status, fine.result(30).status] == ["DEAD", "OK"]
        rows = spark.createDataFrame([(lost.id,), (fine.id,)], "job_id string")
        with pytest.raises(PySparkException, match="the job is not dead"):
            write(rows, grid)
        view = client.status(lost.id)
        assert view is not None
        assert (view.state, view.attempt) == ("dead", 1)
        with pytest.raises(PySparkException, match="column job_id is NULL"):
            write(rows.select(f.lit(None).cast("string").alias("job_id")), grid)


def test_columns_that_make_no_sense_are_told(spark: SparkSession, grid: SmallGrid) -> None:
    with pytest.raises(PySparkException, match="no column says which job"):
        write(spark.range(1).select(f.lit(1).alias("priority")), grid)

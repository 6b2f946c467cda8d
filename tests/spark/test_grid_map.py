"""`grid_map`: rows through a real grid, on every kind of Spark."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from rollq import BlockingClient, LocalError
from rollq.spark import grid_map
from tests.integration.small_grid import SmallGrid

DEADLINE_S = 30.0
# Tells every run in a file of its own, and leaves a file in its directory.
TALLY = """#!/bin/sh
mktemp "$1/run.XXXXXX" > /dev/null
cat in.txt
echo "$2 $3" > sum.txt
echo grumble >&2
exit $4
"""


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallGrid]:
    """A member and a worker for all tests here."""
    folder = tmp_path_factory.mktemp("grid")
    with SmallGrid(folder, "tests.integration.sample_app", slots=4, name="worky") as grid:
        program = folder / "exec" / "tally"
        program.write_text(TALLY)
        program.chmod(0o755)
        yield grid


def by_id(rows: DataFrame) -> dict[int, Any]:
    return {row["id"]: row for row in rows.collect()}


def runs_in(folder: Path) -> int:
    return len(list(folder.iterdir()))


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_program_for_every_row(spark: SparkSession, grid: SmallGrid, tmp_path: Path) -> None:
    df = spark.range(6, numPartitions=2).withColumn("text", f.concat(f.lit("row "), "id"))
    rows = grid_map(
        df,
        exec="tally",
        args=[
            f.lit(str(tmp_path)),
            "id",
            f.col("id") * 10,
            f.when(f.col("id") == 5, 3).otherwise(0),
        ],
        files={"in.txt": "text"},
        outputs="sum.txt",
        servers=grid.address,
    )
    assert rows.columns[:4] == ["id", "text", "job_id", "status"]
    found = by_id(rows)
    assert {n: found[n]["status"] for n in range(6)} == dict.fromkeys(range(5), "OK") | {
        5: "FAILED"
    }
    for n, row in found.items():
        assert (row["stdout"], row["stderr"], row["attempts"]) == (f"row {n}", "grumble\n", 1)
        assert bytes(row["outputs"]["sum.txt"]["content"]) == b"%d %d\n" % (n, 10 * n)
        assert row["ended_at"] >= row["submitted_at"]
        assert row["worker"] == "worky"
    assert (found[5]["exit_code"], found[0]["error"]) == (3, None)
    assert found[5]["error"].endswith("failed with exit code 3; grumble")
    assert runs_in(tmp_path) == 6
    again = by_id(rows)  # another action, the same jobs
    assert all(row["resumed"] for row in again.values())
    assert {n: row["job_id"] for n, row in again.items()} == {
        n: row["job_id"] for n, row in found.items()
    }
    assert runs_in(tmp_path) == 6


@pytest.mark.each_spark
def test_a_function_for_every_row(spark: SparkSession, grid: SmallGrid) -> None:
    count = 3_000
    rows = grid_map(
        spark.range(count, numPartitions=3), exec="add", args=["id", 1], servers=grid.address
    )
    told = rows.agg(f.count("*"), f.sum(f.col("value").cast("long")), f.countDistinct("job_id"))
    assert tuple(told.collect()[0]) == (count, count * (count + 1) // 2, count)


def test_payloads(spark: SparkSession, grid: SmallGrid) -> None:
    df = spark.createDataFrame([("pear", 2), ("fig", 3)], "item string, count int")
    whole = f.struct("item", "count")
    rows = grid_map(df, exec="order", payload=whole, servers=grid.address, prefix="job_").collect()
    assert {row["job_value"] for row in rows} == {'{"pear":2}', '{"fig":3}'}
    rows = grid_map(df, exec="raw", payload="item", servers=grid.address).collect()
    assert {bytes(row["data"]) for row in rows} == {b"raep", b"gif"}
    assert {row["value"] for row in rows} == {None}


def test_keys_resume_whatever_the_partitions(
    spark: SparkSession, grid: SmallGrid, tmp_path: Path
) -> None:
    def mapped(ids: range, parts: int, **options: Any) -> dict[int, Any]:
        df = spark.range(ids.start, ids.stop, numPartitions=parts)
        args = [f.lit(str(tmp_path)), "id", "id", f.when(f.col("id") == 7, 1).otherwise(0)]
        key = f.concat(f.lit(f"{tmp_path.name}-"), "id")
        files = {"in.txt": b""}
        given = options | {"args": args, "files": files, "job_key": key}
        return by_id(grid_map(df, exec="tally", servers=grid.address, **given))

    first = mapped(range(0, 8), 2)
    assert not any(row["resumed"] for row in first.values())
    second = mapped(range(4, 12), 3)
    assert {n for n, row in second.items() if row["resumed"]} == {4, 5, 6, 7}
    assert second[7]["status"] == "FAILED"
    assert runs_in(tmp_path) == 12
    third = mapped(range(6, 8), 1, rerun=("FAILED",))
    assert (third[7]["status"], third[7]["resumed"], third[6]["resumed"]) == ("FAILED", False, True)
    assert runs_in(tmp_path) == 13


def test_rows_that_cannot_run_are_rows(spark: SparkSession, grid: SmallGrid) -> None:
    df = spark.createDataFrame([(1, "1"), (2, None), (3, "x")], "id int, n string")
    found = by_id(grid_map(df, exec="add", args=["n", 1], servers=grid.address))
    assert (found[1]["status"], found[1]["value"]) == ("OK", "2")
    assert (found[2]["status"], found[2]["error"]) == ("REFUSED", "argument 1 is NULL")
    assert found[3]["status"] == "FAILED"
    assert "ValueError" in found[3]["error"]
    nobody = grid_map(
        df.limit(1), exec="add", args=["n", 1], servers=grid.address, worker="nobody", expire=0.2
    )
    (row,) = nobody.collect()
    assert row["status"] == "DEAD"
    assert "it waited longer than it may" in row["error"]


def test_a_cancelled_query_ends_its_jobs_and_they_run_when_it_is_asked_again(
    spark: SparkSession, grid: SmallGrid, kind: str, tmp_path: Path
) -> None:
    log = tmp_path / "naps"
    df = spark.range(3, numPartitions=1)
    rows = grid_map(df, exec="naps", args=[f.lit(str(log))], servers=grid.address, run_limit=600)
    ended: list[BaseException | None] = []

    def query() -> None:
        if kind == "connect":
            spark.addTag("napping")
        else:
            spark.sparkContext.setJobGroup("napping", "", interruptOnCancel=True)
        try:
            rows.collect()
        except Exception as error:
            ended.append(error)

    asking = threading.Thread(target=query)
    asking.start()
    wait_until(lambda: log.exists() and len(log.read_text().splitlines()) == 3)
    with BlockingClient(grid.address) as client:
        before = client.counts()
        assert before.running == 3
        if kind == "connect":
            spark.interruptTag("napping")
        else:
            spark.sparkContext.cancelJobGroup("napping")
        asking.join(DEADLINE_S)
        assert len(ended) == 1
        wait_until(lambda: client.counts().cancelled == before.cancelled + 3)
    asking = threading.Thread(target=query)
    asking.start()
    wait_until(lambda: len(log.read_text().splitlines()) == 6)
    if kind == "connect":
        spark.interruptTag("napping")
    else:
        spark.sparkContext.cancelJobGroup("napping")
    asking.join(DEADLINE_S)
    with BlockingClient(grid.address) as client:
        wait_until(lambda: client.counts().cancelled == before.cancelled + 6)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"exec": "a b"}, "exec='a b'"),
        ({"args": ["nn"]}, r"argument 1: there is no column 'nn'.*there are id, n"),
        ({"args": "n"}, "args is one column of type string, and no array"),
        ({"args": ["list"]}, "argument 1 is of type array<int>"),
        ({"job_key": "nn"}, "job_key: there is no column 'nn'"),
        ({"files": {"../x": "n"}}, "x"),
        ({"files": {"x": "id"}}, "file 'x' is a column of type integer"),
        ({"files": {"x": Path("nowhere")}}, "file 'x'"),
        ({"files": {"x": bytes(20_000_000)}}, "CacheFile"),
        ({"payload": "n", "args": ["n"]}, "either a payload, or arguments"),
        ({"rerun": "BAD"}, "rerun='BAD'; use some of: OK, FAILED"),
        ({"window": 0}, "window=0; it is above 0"),
        ({"timeout": float("nan")}, "timeout=nan; it is above 0"),
        ({"client_id": "me"}, "client_id='me' .*; give a job_key"),
        ({"client_id": "x" * 257, "job_key": "n"}, "client_id='x+'…; use up to 256 bytes"),
        ({"priority": 11}, "priority"),
        ({"colour": "red"}, "colour"),
        ({"servers": "nonsense"}, "nonsense"),
    ],
)
def test_what_cannot_be_meant_so_is_told_before_anything_runs(
    spark: SparkSession, options: dict[str, Any], told: str
) -> None:
    df = spark.createDataFrame([(1, "1", [1])], "id int, n string, list array<int>")
    given = {"exec": "add", "servers": "127.0.0.1:1"} | options
    with pytest.raises(LocalError) as caught:
        grid_map(df, **given)
    assert re.search(told, f"{caught.value.message}; {caught.value.hint}")


def test_columns_of_the_same_name_need_a_prefix(spark: SparkSession) -> None:
    df = spark.range(1).withColumn("Status", f.lit(1))
    with pytest.raises(LocalError, match="columns status already"):
        grid_map(df, exec="add", servers="127.0.0.1:1")
    assert "job_status" in grid_map(df, exec="add", servers="127.0.0.1:1", prefix="job_").columns


def test_when_nobody_answers_the_error_says_who_was_asked(spark: SparkSession) -> None:
    rows = grid_map(spark.range(1), exec="add", servers="127.0.0.1:1", timeout=0.5)
    with pytest.raises(PySparkException, match=r"no answer within 0\.5 s.*127\.0\.0\.1:1"):
        rows.collect()

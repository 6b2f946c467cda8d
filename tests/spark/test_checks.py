"""Checks of the data, on histories in which something is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from rollq.grid.events import Event
from rollq.history.schema import to_lines
from rollq.history.segments import Segments
from rollq.spark.asking.queries import views
from rollq.spark.pipeline import crowds
from rollq.spark.pipeline.feed import Feed
from rollq.spark.pipeline.run import Pipeline
from rollq.spark.pipeline.tables import paths
from rollq.store.real_disk import RealDisk
from tests.spark.test_commands import rollq

START_MS = 1_790_000_000_000
JOB, OTHER, WORKER = (bytes([n]) * 16 for n in (1, 2, 3))


def of(job: bytes, kind: str, **fields: Any) -> Event:
    return Event(
        kind, job_id=job, queue="q", exec_name="calc", client_id="c", worker_id=WORKER, **fields
    )


def ack(job: bytes) -> Event:
    return of(job, "ack", attempt=1, fence=1, run_ms=5)


def seal(folder: Path, first: int, events: list[Event]) -> None:
    """One event a log index."""
    lines = [
        line
        for index, event in enumerate(events, first)
        for line in to_lines(index, START_MS + 1000 * index, [event])
    ]
    disk = RealDisk(folder, unsafe_no_fsync=True)
    Segments(disk).seal(first, first + len(events) - 1, lines)
    disk.close()


WHOLE = [
    Event("worker_up", worker_id=WORKER, count=1, detail="ann"),
    of(JOB, "enqueue"),
    of(JOB, "assign", attempt=1, fence=1),
    ack(JOB),
]


def failed(spark: SparkSession, folder: Path, out: Path, **feed: bool) -> list[str]:
    pipeline = Pipeline(spark, Feed(path=str(folder), **feed), out)  # type: ignore[arg-type]
    pipeline.run()
    return [one.name for one in pipeline.failed]


def test_a_job_that_ends_twice_is_found_in_the_same_batch_and_in_a_later_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder, out = tmp_path / "state", tmp_path / "out"
    seal(folder, 1, WHOLE)
    assert failed(spark, folder, out) == []
    seal(folder, 5, [ack(JOB)])
    assert failed(spark, folder, out) == ["ends", "running", "depth"]
    seal(folder, 6, [of(OTHER, "enqueue"), of(OTHER, "assign", attempt=1, fence=2), ack(OTHER)])
    seal(folder, 9, [ack(OTHER)])
    assert failed(spark, folder, out) == ["ends", "running", "depth"]
    views(spark, out)
    rows = spark.sql("SELECT batch, found FROM checks WHERE name = 'ends' ORDER BY batch").collect()
    assert [tuple(row) for row in rows] == [(1, 0), (2, 1), (3, 1)]
    comments = {row.col_name: row.comment for row in spark.sql("DESCRIBE jobs").collect()}
    assert comments["total_ms"] == "from acceptance to end"


@pytest.mark.any_spark
def test_history_that_is_gone_makes_no_alarm_and_is_told(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder, out = tmp_path / "state", tmp_path / "out"
    seal(folder, 1, WHOLE)
    assert failed(spark, folder, out, fail_on_data_loss=False) == []
    seal(folder, 8, [ack(OTHER)])  # what came between is not there
    assert failed(spark, folder, out, fail_on_data_loss=False) == []
    seal(folder, 9, [of(JOB, "confirm")])
    assert failed(spark, folder, out, fail_on_data_loss=False) == []
    rows = [row for path in paths(out, "gold_checks") for row in pq.read_table(path).to_pylist()]
    told = {(row["batch"], row["name"]): (row["outcome"], row["found"]) for row in rows}
    assert told[2, "missing"] == ("unknown", 3)
    assert told[1, "depth"] == ("ok", 0)
    assert told[3, "depth"][0] == "unknown"


@pytest.mark.any_spark
def test_a_query_that_counts_wrongly_is_found(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, out = tmp_path / "state", tmp_path / "out"
    seal(folder, 1, WHOLE[:3])
    right = crowds.steps
    monkeypatch.setattr(
        crowds, "steps", lambda *given, **more: right(*given, **more).replace("THEN -1", "THEN -2")
    )
    assert failed(spark, folder, out) == ["depth"]


@pytest.mark.any_spark
def test_a_failed_check_is_the_exit_code_and_keeps_the_batch(tmp_path: Path) -> None:
    seal(tmp_path / "state", 1, [*WHOLE, ack(JOB)])
    words = ("pipeline", "run", "--path", "state", "--tables", "out", "--master", "local[1]")
    ended = rollq(tmp_path, *words, "--json")
    assert ended.returncode == 1
    assert json.loads(ended.stdout)["failed"] == ["ends", "running", "depth"]
    assert json.loads(ended.stderr.splitlines()[-1])["error"]["code"] == 510
    again = rollq(tmp_path, *words)  # nothing new, and nothing that is checked
    assert (again.returncode, again.stdout) == (0, "5 events up to batch 1\n")

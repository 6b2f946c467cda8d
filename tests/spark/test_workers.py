"""Workers of the grid in tasks of Spark."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from rollq import BlockingClient, DeadlineError, LocalError, StateError
from rollq.roles.client.blocking.clients import BlockingJob
from rollq.spark import grid_map, start_workers
from rollq.spark.grid.workers import WorkersHandle
from tests.integration.small_grid import SmallGrid
from tests.spark.test_grid_map import wait_until

APP = "tests.spark.worker_app"
EXECUTOR = "CoarseGrainedExecutorBackend"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A member, and no worker for what is asked of it."""
    folder = tmp_path_factory.mktemp("grid")
    with SmallGrid(folder, APP, patterns=("job.assign.elsewhere",)) as grid:
        yield grid.address


def process_of(name: str) -> Any:
    """The process of a worker."""
    for one in psutil.process_iter(["cmdline"]):
        words = one.info["cmdline"] or []
        if name in words and "worker" in words:
            return one
    raise AssertionError(f"no process of {name}")


def executor_of(process: Any) -> Any:
    """The Java process in whose task a worker runs."""
    (found,) = [one for one in process.parents() if EXECUTOR in " ".join(one.cmdline())]
    return found


def begun_in(folder: Path) -> list[Path]:
    """A file for each time that a job began."""
    return list(folder.glob("begun-*"))


def is_gone(process: Any) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


@contextmanager
def holding(
    spark: SparkSession, servers: str, folder: Path, drain: float, **options: Any
) -> Iterator[tuple[WorkersHandle, BlockingJob]]:
    """A worker and the job that it runs, which ends when there is `end` in the folder."""
    workers = start_workers(spark, 1, servers=servers, apps=[APP], drain=drain).wait_ready()
    with BlockingClient(servers) as client:
        job = client.submit("hold", [str(folder)], **options)
        wait_until(lambda: bool(begun_in(folder)))
        yield workers, job


@pytest.mark.each_spark
def test_it_runs_the_jobs_of_a_query_beside_it(spark: SparkSession, servers: str) -> None:
    with start_workers(spark, 1, servers=servers, apps=[APP], slots=2, name="Calc") as workers:
        workers.wait_ready()
        assert len(workers.ids) == 1
        rows = grid_map(
            spark.range(200, numPartitions=1), exec="double", args=["id"], servers=servers
        )
        told = rows.agg(f.sum(f.col("value").cast("long")), f.max("error")).collect()[0]
        assert tuple(told) == (199 * 200, None)
    assert workers.ids == []
    workers.stop()
    assert not workers.is_running


def test_what_runs_may_end_when_it_is_stopped(
    spark: SparkSession, servers: str, tmp_path: Path
) -> None:
    with holding(spark, servers, tmp_path, drain=60.0) as (workers, job):
        stopping = threading.Thread(target=workers.stop)
        stopping.start()
        wait_until(lambda: not workers.is_running)
        assert not job.is_done
        (tmp_path / "end").touch()
        result = job.result(60)
        assert (result.value, result.attempts) == ("held", 1)
        stopping.join(60)
        assert workers.ids == []


def test_what_runs_is_cut_off_if_it_is_stopped_without_a_drain(
    spark: SparkSession, servers: str, tmp_path: Path
) -> None:
    with holding(spark, servers, tmp_path, drain=3_600.0) as (workers, job):
        worker = process_of(workers.names[0])
        workers.stop(drain=False)
        assert workers.ids == []
        wait_until(lambda: is_gone(worker))
        assert not job.is_done
        (tmp_path / "end").touch()
        with start_workers(spark, 1, servers=servers, apps=[APP]):
            result = job.result(60)
        assert (result.value, result.attempts, len(begun_in(tmp_path))) == ("held", 2, 2)


def test_it_does_not_outlive_its_task(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    with holding(spark, servers, tmp_path, drain=0.0, lease=60.0) as (workers, job):
        (lost,) = workers.ids
        worker = process_of(workers.names[0])
        worker.parent().kill()  # the task
        wait_until(lambda: is_gone(worker))
        wait_until(lambda: lost not in workers.ids)
        workers.stop()
        (tmp_path / "end").touch()
        with start_workers(spark, 1, servers=servers, apps=[APP]):
            assert job.result(60).value == "held"


@pytest.mark.each_spark
def test_what_a_lost_executor_ran_is_run_again(
    spark: SparkSession, kind: str, servers: str, tmp_path: Path
) -> None:
    if kind != "standalone":
        pytest.skip("here the executor is the driver")
    workers = start_workers(spark, 2, servers=servers, apps=[APP], drain=0.0).wait_ready()
    with workers, BlockingClient(servers) as client:
        held = [client.submit("hold", [str(tmp_path)]) for _ in workers.names]
        waiting = [client.submit("double", [str(n)]) for n in range(20)]
        wait_until(lambda: len(begun_in(tmp_path)) == len(held))
        lost = [process_of(name) for name in workers.names]
        executors = {executor_of(process) for process in lost}
        (executor,) = executors
        executor.kill()
        wait_until(lambda: all(map(is_gone, (executor, *lost))))
        (tmp_path / "end").touch()
        ends = [job.result(60) for job in held]
        assert [(end.value, end.attempts) for end in ends] == [("held", 2)] * len(held)
        assert [job.result(60).value for job in waiting] == [str(2 * n) for n in range(20)]
        workers.wait_ready()
        assert executors.isdisjoint(executor_of(process_of(name)) for name in workers.names)


@pytest.mark.any_spark
def test_too_few_slots_are_told(spark: SparkSession, servers: str) -> None:
    workers = start_workers(spark, 3, servers=servers, apps=[APP])
    with pytest.raises(DeadlineError, match="of 3 workers are here after 3 s"):
        workers.wait_ready(3)
    workers.stop()


@pytest.mark.any_spark
def test_a_worker_that_cannot_run_is_told(spark: SparkSession, servers: str) -> None:
    workers = start_workers(spark, 1, servers=servers, apps=["no_such_module"])
    with pytest.raises(StateError, match="no_such_module"):
        workers.wait_ready(120)
    workers.stop()
    with pytest.raises(StateError, match="it was stopped"):
        workers.wait_ready()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "these workers have no programs and no functions to run"),
        ({"apps": [APP], "slots": 0}, "slots=0; use 1 or more"),
        ({"apps": [APP], "drain": -1.0}, "drain=-1.0; use 0 or more"),
        ({"apps": [APP], "cpu_cap": 7}, "cpu_cap=7; use 0.1 to 0.95, or 1"),
        ({"apps": APP}, f"apps='{APP}'; it is a list"),
        ({"apps": [APP], "patterns": ["a b"]}, "patterns: .*a b"),
        ({"apps": [APP], "servers": ""}, "no address"),
    ],
)
def test_what_cannot_be_meant_so(
    spark: SparkSession, servers: str, options: dict[str, Any], told: str
) -> None:
    with pytest.raises(LocalError, match=told):
        start_workers(spark, 1, **({"servers": servers} | options))

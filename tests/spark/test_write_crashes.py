"""Writes while things fail: every job is there, and once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from bench.spark import crashing
from rollq import BlockingClient
from tests.integration.procs import ROOT, MemberProcess, Members
from tests.spark.written import accepted, events, keys

COUNT = 6_000  # in two tasks, which send some messages each
SCHEMA = "id bigint"


@pytest.fixture
def small_batches(spark: SparkSession) -> Iterator[None]:
    """Rows come to Python some at a time, so that something is sent before something fails."""
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(name)
    spark.conf.set(name, "100")
    yield
    spark.conf.set(name, str(before))


def jobs(spark: SparkSession, prefix: str, disturb: Callable[[int], None]) -> DataFrame:
    """Jobs with keys; something happens when the rows of a task reach a certain one."""

    def passed_on(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            if 2_500 in batch.column("id").to_pylist():
                disturb(2_500)
            yield batch

    return (
        spark.range(0, COUNT, 1, 2)
        .mapInArrow(passed_on, SCHEMA)
        .select(
            f.lit("calc").alias("exec"),
            f.concat(f.lit(f"{prefix}-"), f.col("id")).alias("job_key"),
        )
    )


def write(table: DataFrame, servers: str) -> None:
    table.write.format("rollq").option("servers", servers).mode("append").save()


def commits(servers: str) -> list[int]:
    return [each["count"] for each in events(servers) if each["type"] == "batch_commit"]


@pytest.mark.usefixtures("small_batches")
def test_a_task_that_fails_once(spark: SparkSession, tmp_path: Path) -> None:
    marker = str(tmp_path / "failed")

    def fail_once(_: int) -> None:
        if not os.path.exists(marker):
            with open(marker, "x"):
                raise ValueError("this task fails once")

    member = MemberProcess(tmp_path / "member").start()
    try:
        write(jobs(spark, "retry", fail_once), member.address)
        assert os.path.exists(marker)
        assert accepted(member.address, "retry", COUNT) == keys("retry", COUNT)
        assert commits(member.address) == [COUNT]
    finally:
        member.kill()


@pytest.mark.usefixtures("small_batches")
def test_the_leader_is_killed_meanwhile(spark: SparkSession, tmp_path: Path) -> None:
    marker = str(tmp_path / "killed")
    with Members(tmp_path / "members", 3) as members:
        servers = ",".join(members.addresses)
        with BlockingClient(servers) as client:
            client.counts()
            leader = members.at(client.leader).pid

        def kill_once(_: int) -> None:
            if not os.path.exists(marker):
                with open(marker, "x"):
                    os.kill(leader, signal.SIGKILL)

        write(jobs(spark, "failover", kill_once), servers)
        assert os.path.exists(marker)
        assert accepted(servers, "failover", COUNT) == keys("failover", COUNT)
        assert commits(servers) == [COUNT]


@pytest.mark.any_spark
def test_the_driver_dies_between_write_and_commit(spark: SparkSession, tmp_path: Path) -> None:
    """Another driver, which is the one of these tests, goes on from its checkpoint."""
    member = MemberProcess(tmp_path / "member").start()
    command = [sys.executable, "-m", "bench.spark.crashing", member.address, str(tmp_path)]
    try:
        ended = subprocess.run(
            [*command, str(COUNT), "crash"],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
            timeout=300,
        )
        assert ended.returncode == -signal.SIGKILL
        assert commits(member.address) == []
        crashing.write(spark, member.address, tmp_path)
        assert accepted(member.address, "crash", COUNT) == keys("crash", COUNT)
        assert commits(member.address) == [COUNT]
    finally:
        member.kill()

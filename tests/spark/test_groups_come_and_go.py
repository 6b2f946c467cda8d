"""A stream over the groups of a federation: they come, go and come back while the query runs."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from rollq import BlockingClient
from rollq.net.ports import free_ports
from tests.integration.processes import Processes
from tests.integration.procs import until
from tests.spark.streams import follow

NAMES = ("east-1", "east-2", "west")


class Federation:
    """Groups of one member each."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._ports = dict(zip(NAMES, free_ports(len(NAMES)), strict=True))
        (processes.directory / "key").write_text(secrets.token_hex(32))
        (processes.directory / "key").chmod(0o600)

    def start(self, name: str) -> None:
        words = ("leader", str(self._ports[name]), "--group", name, "--state", name)
        seeds = ("--seeds", self.address(NAMES[0])) if name != NAMES[0] else ()
        self._processes.start(name, *words, "--federation-key", "key", *seeds)

    def kill(self, name: str) -> None:
        self._processes.kill(name)

    def address(self, name: str) -> str:
        return f"127.0.0.1:{self._ports[name]}"

    def submit(self, name: str, *keys: str) -> None:
        with BlockingClient(self.address(name), client_id="etl") as client:
            for key in keys:
                client.submit("calc", key=key)

    def until_known(self, *names: str) -> None:
        """Wait until the first group knows of all these."""

        def known() -> bool:
            with BlockingClient(self.address(NAMES[0])) as client:
                there = {one.name for one in client.groups().groups if one.state == "up"}
            return there >= set(names)

        until(known)


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[Federation]:
    with Processes(tmp_path) as processes:
        yield Federation(processes)


def test_groups_come_and_go_while_a_query_runs(
    spark: SparkSession, federation: Federation, tmp_path: Path
) -> None:
    def keys() -> Counter[str]:
        rows = spark.read.parquet(str(tmp_path / "out")).collect()
        return Counter(row["job_key"] for row in rows)

    federation.start("east-1")
    federation.start("west")
    federation.until_known("east-1", "west")
    federation.submit("east-1", "a")
    federation.submit("west", "not asked for")
    options = {
        "servers": federation.address("east-1"),
        "subscribePattern": "east-.*",
        "failOnDataLoss": "false",
        "columns": "job_key",
        "filter.type": "enqueue",
    }
    with follow(spark, tmp_path, **options) as query:
        until(lambda: "east-1" in query.offset())
        federation.start("east-2")
        federation.until_known("east-2")
        federation.submit("east-2", "b")
        until(lambda: keys() == Counter(["a", "b"]))
        federation.kill("east-2")
        federation.submit("east-1", "c")
        until(lambda: keys() == Counter(["a", "b", "c"]))
        federation.start("east-2")
        federation.until_known("east-2")
        federation.submit("east-2", "d")
        until(lambda: keys() == Counter(["a", "b", "c", "d"]))


def test_a_pattern_that_no_group_has(spark: SparkSession, federation: Federation) -> None:
    federation.start("east-1")
    federation.until_known("east-1")
    reading = spark.read.format("rollq").option("servers", federation.address("east-1"))
    with pytest.raises(PySparkException, match="no group of the federation matches 'north'"):
        reading.option("subscribePattern", "north").load().count()

"""Metrics of real processes: the names that the catalog has, numbers that are true."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from rollq.base.counters import COUNTER, Family, gauge
from rollq.base.errors import ErrorCode, LocalError
from rollq.cli.fleet import write_program
from rollq.cli.worker import metrics_address
from rollq.net.ports import free_ports
from rollq.observe import server
from rollq.observe.catalog import ALL, CATALOG, EVERY_MEMBER, LEADER, WORKER
from rollq.observe.server import MetricsServer
from tests.integration.processes import Processes
from tests.integration.procs import until


class Told:
    """What a process told, as the official parser reads it."""

    def __init__(self, text: str) -> None:
        self.families = {
            family.name + ("_total" if family.type == COUNTER else ""): family
            for family in text_string_to_metric_families(text)
        }

    def value(self, series: str, **labels: str) -> float:
        """One number."""
        (found,) = [
            sample.value
            for family in self.families.values()
            for sample in family.samples
            if sample.name == series and sample.labels == labels
        ]
        return found

    def check(self, *told_by: str) -> None:
        """Exactly what the catalog says: names, kinds and labels."""
        rows = {name: row for name, row in CATALOG.items() if row.exporter in told_by}
        assert self.families.keys() == rows.keys()
        for name, family in self.families.items():
            assert family.type == rows[name].kind, name
            assert family.documentation == rows[name].meaning, name
            for sample in family.samples:
                assert set(sample.labels) - {"le"} == set(rows[name].labels), name


class Grid:
    """Two members and a worker, by their commands."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self.ports = free_ports(2)
        self.addresses = [f"127.0.0.1:{port}" for port in self.ports]
        (processes.directory / "exec").mkdir()
        write_program(processes.directory / "exec", "good", "exit 0")
        write_program(processes.directory / "exec", "bad", "exit 3")
        for number in (0, 1):
            peers = ("--peers", self.addresses[1 - number], "--state", f"m{number}")
            processes.start(f"m{number}", "leader", str(self.ports[number]), *peers)
        where = ("127.0.0.1", str(self.ports[0]), "--servers", self.addresses[1])
        processes.start("w", "worker", *where, "--exec-dir", "exec", "--http", "0")
        processes.until_said("w", "connected to leader")

    def rollq(self, *words: str, code: int = 0) -> str:
        """What a command writes that ends with this exit code."""
        done = subprocess.run(
            [sys.executable, "-m", "rollq", *words, "--servers", ",".join(self.addresses)],
            cwd=self._processes.directory,
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == code, done.stderr
        return done.stdout

    def member(self, address: str) -> Told:
        """What one member tells."""
        words = [sys.executable, "-m", "rollq", "metrics", "show", "--servers", address]
        done = subprocess.run(words, check=True, capture_output=True, text=True)
        return Told(done.stdout)

    def both(self) -> tuple[Told, Told]:
        """What the leader tells, and the other one."""
        told = [self.member(address) for address in self.addresses]
        told.sort(key=lambda one: one.value("rollq_raft_role", role="leader"))
        return told[1], told[0]

    @property
    def worker_url(self) -> str:
        """Where the worker says that its metrics are."""
        said = self._processes.said("w")
        (address,) = re.findall(r"metrics: (http://127.0.0.1:\d+)/metrics", said)
        return str(address)

    def worker(self) -> Told:
        """What the worker tells."""
        return Told(fetch(f"{self.worker_url}/metrics"))


def fetch(url: str) -> str:
    with urllib.request.urlopen(url) as answer:
        text: bytes = answer.read()
    return text.decode()


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grid]:
    with Processes(tmp_path_factory.mktemp("metrics")) as processes:
        yield Grid(processes)


def test_members_and_workers_tell_what_the_catalog_says(grid: Grid) -> None:
    leader, follower = grid.both()
    leader.check(EVERY_MEMBER, LEADER, ALL)
    follower.check(EVERY_MEMBER, ALL)
    grid.worker().check(WORKER, ALL)


def test_numbers_are_those_of_the_jobs(grid: Grid) -> None:
    grid.rollq("submit", "good", "--wait", "--array", "3")
    grid.rollq("submit", "bad", "--wait", code=3)
    leader, _ = grid.both()
    accepted = leader.value("rollq_jobs_accepted_total")
    assert accepted >= 4
    assert leader.value("rollq_jobs_ended_total", outcome="failed") >= 1
    assert leader.value("rollq_job_wait_seconds_count") == accepted
    assert leader.value("rollq_attempt_run_seconds_count") == accepted
    assert leader.value("rollq_wal_sync_seconds_count") > 0
    assert leader.value("rollq_workers_connected") == 1
    until(lambda: grid.both()[1].value("rollq_jobs_accepted_total") == accepted)
    worker = grid.worker()
    assert worker.value("rollq_worker_results_total", outcome="failed") >= 1
    assert worker.value("rollq_worker_run_seconds_count") == accepted
    assert worker.value("rollq_worker_connected") == 1


def test_the_command_writes_documents_too(grid: Grid) -> None:
    shown: dict[str, Any] = json.loads(grid.rollq("metrics", "show", "--json"))
    rows = {row["name"]: row for row in shown["metrics"]}
    assert rows["rollq_raft_voters"]["samples"] == [{"labels": {}, "value": 2}]
    late = rows["rollq_loop_late_seconds"]
    assert len(late["samples"][0]["counts"]) == len(late["bounds"]) + 1


def test_a_worker_says_how_it_is(grid: Grid) -> None:
    assert fetch(f"{grid.worker_url}/healthz") == "ok\n"
    with pytest.raises(urllib.error.HTTPError) as raised:
        fetch(f"{grid.worker_url}/anything")
    assert raised.value.code == 404
    raised.value.close()
    for method in ("POST", "PUT", "DELETE"):
        request = urllib.request.Request(f"{grid.worker_url}/metrics", b"x", method=method)
        with pytest.raises(urllib.error.HTTPError) as raised:
            urllib.request.urlopen(request)
        assert raised.value.code == 405
        raised.value.close()


@pytest.mark.parametrize(
    ("http", "unsafe", "code"),
    [
        ("0.0.0.0:9100", False, ErrorCode.UNPROTECTED),
        ("example.org:9100", False, ErrorCode.UNPROTECTED),
        ("x", True, ErrorCode.BAD_ADDRESS),
        ("127.0.0.1:", True, ErrorCode.BAD_ADDRESS),
        ("65536", True, ErrorCode.BAD_ADDRESS),
    ],
)
def test_where_metrics_are_not_served(http: str, unsafe: bool, code: ErrorCode) -> None:
    with pytest.raises(LocalError) as raised:
        metrics_address(http, unsafe_no_auth=unsafe)
    assert raised.value.code is code


@pytest.mark.parametrize(
    ("http", "unsafe", "where"),
    [
        ("9100", False, ("127.0.0.1", 9100)),
        ("localhost:0", False, ("localhost", 0)),
        ("[::1]:9100", False, ("::1", 9100)),
        ("0.0.0.0:9100", True, ("0.0.0.0", 9100)),
    ],
)
def test_where_metrics_are_served(http: str, unsafe: bool, where: tuple[str, int]) -> None:
    assert metrics_address(http, unsafe_no_auth=unsafe) == where


def test_a_loop_that_stands_still_is_not_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "ANSWER_S", 0.05)
    answered = threading.Event()

    async def stand_still() -> int:
        served = MetricsServer("127.0.0.1", 0, lambda: [gauge("process_threads", 1)])
        codes: list[int] = []

        def ask() -> None:
            try:
                fetch(f"http://{served.address}/healthz")
            except urllib.error.HTTPError as error:
                codes.append(error.code)
                error.close()
            answered.set()

        asker = threading.Thread(target=ask)
        asker.start()
        answered.wait()  # on the loop, which answers nobody meanwhile
        asker.join()
        served.stop()
        return codes[0]

    assert asyncio.run(stand_still()) == 503


def test_a_port_that_is_taken_is_an_error() -> None:
    async def twice() -> None:
        first = MetricsServer("127.0.0.1", 0, list[Family])
        try:
            port = int(first.address.rpartition(":")[2])
            with pytest.raises(LocalError) as raised:
                MetricsServer("127.0.0.1", port, list[Family])
            assert raised.value.code is ErrorCode.CANNOT_LISTEN
        finally:
            first.stop()

    asyncio.run(twice())

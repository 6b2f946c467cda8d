"""Caches through a real group: put by a client, held by workers, read by jobs."""

from __future__ import annotations

import base64
import json
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rollq import BlockingClient, CacheFile, JobSpec
from rollq.base.errors import ErrorCode, RollqError
from rollq.base.limits import CACHE_DIRECT_BYTES
from rollq.cli.fleet import Fleet, write_program
from rollq.cli.main import app
from rollq.net.ports import free_ports
from tests.integration.legacy_peer import (
    CACHE_ACK,
    CACHE_PUT,
    RESULT,
    SUBMIT_JOB,
    as_client,
)
from tests.integration.procs import until

LARGE = CACHE_DIRECT_BYTES + 1


class Grid:
    """A group with workers, a client of it, and commands run against it."""

    def __init__(self, fleet: Fleet, root: Path) -> None:
        self.fleet = fleet
        self.root = root
        self.client = BlockingClient(fleet.servers, timeout=30.0)

    def start_worker(self, name: str, *arguments: str) -> None:
        folder = str(self.root / "exec")
        self.fleet.start_worker(name, "--exec-dir", folder, "--cpu-cap", "1", *arguments)

    def command(self, *arguments: str, code: int = 0) -> Any:
        env = {"ROLLQ_SERVERS": self.fleet.servers}
        result = CliRunner().invoke(app, ["cache", *arguments], env=env)
        assert result.exit_code == code, result.output
        return result

    def statuses(self, cache_id: str) -> dict[str, str]:
        return {one.name: one.status for one in self.client.cache_holders(cache_id)}


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grid]:
    """Three members, two workers for `calc` and one for `other`."""
    root = tmp_path_factory.mktemp("cache")
    write_program(root / "exec", "read", "cat data/a.txt")
    with Fleet(root) as fleet:
        fleet.start_members(free_ports(3))
        grid = Grid(fleet, root)
        for name, pattern in (("w1", "calc"), ("w2", "calc"), ("w3", "other")):
            grid.start_worker(name, pattern)
        with grid.client:
            until(lambda: len(grid.client.query("workers")) > 100)
            yield grid


def test_files_are_held_by_the_workers_that_are_meant(grid: Grid) -> None:
    files = {"data/a.txt": b"alpha", "big": os.urandom(LARGE)}
    report = grid.client.cache_put("d1", files, target="calc", timeout=60).raise_for_status()
    assert sorted((one.name, one.status) for one in report.workers) == [("w1", "OK"), ("w2", "OK")]
    again = grid.client.cache_put("d1", files, target="calc", timeout=60)
    assert again.held == again.needed == 2
    view = grid.client.cache("d1")
    assert view is not None
    assert [entry.name for entry in view.entries] == ["big", "data/a.txt"]
    with pytest.raises(RollqError) as refused:
        grid.client.cache_put("d1", {"data/a.txt": b"other"}, target="calc")
    assert refused.value.code is ErrorCode.CACHE_CONFLICT


def test_jobs_read_them_by_name(grid: Grid) -> None:
    grid.client.cache_put("jobs", {"data/a.txt": b"cached"}, target="calc", timeout=60)
    file = {"data/a.txt": CacheFile("jobs")}
    result = grid.client.submit("read", files=file, queue="calc").result(timeout=30)
    assert result.stdout == "cached"
    results = grid.client.map([JobSpec("read", files=file, options={"queue": "calc"})] * 20)
    assert [one.stdout for one in results] == ["cached"] * 20
    # One that was not meant to hold it gets it with the job.
    result = grid.client.submit("read", files=file, queue="other").result(timeout=30)
    assert result.stdout == "cached"
    # One that names a file which is not in it is not tried again: it is the same everywhere.
    wrong = grid.client.submit("read", files={"data/b.txt": CacheFile("jobs")}, queue="calc")
    result = wrong.result(timeout=30)
    assert (result.status, result.attempts) == ("FAILED", 1)
    assert "no file 'data/b.txt' is in the cache 'jobs'; it has 'data/a.txt'" in str(result.stderr)
    with pytest.raises(RollqError) as refused:
        grid.client.submit("read", files={"data/a.txt": CacheFile("none")})
    assert refused.value.code is ErrorCode.UNKNOWN_CACHE


def test_one_that_comes_later_gets_them_too(grid: Grid) -> None:
    grid.client.cache_put("late", {"data/a.txt": b"late"}, target="late", need=0)
    assert grid.statuses("late") == {}
    grid.start_worker("w9", "late")
    until(lambda: grid.statuses("late") == {"w9": "OK"})


def test_a_legacy_peer_puts_files_and_names_them_in_a_job(grid: Grid) -> None:
    peer = as_client(int(grid.client.leader.rpartition(":")[2]), "legacy")
    entries = [{"Name": "data/a.txt", "Content": base64.b64encode(b"legacy").decode()}]
    for content, wanted in ((b"legacy", "OK"), (b"legacy", "SKIPPED"), (b"other", "FAILED")):
        entries[0]["Content"] = base64.b64encode(content).decode()
        put = {"CacheId": "by-legacy", "Entries": entries, "TargetPattern": "job.assign.calc"}
        request_id = uuid.uuid4()
        peer.write(CACHE_PUT, request_id, subject="cache.put", payload=json.dumps(put).encode())
        for _ in range(2):  # workers
            kind, _, corr_id, _, payload = peer.read()
            assert (kind, corr_id) == (CACHE_ACK, request_id)
            assert json.loads(payload)["Status"] == wanted
    job_id = uuid.uuid4()
    files = [{"Name": "data/a.txt", "CacheId": "by-legacy", "Content": None}]
    job = {"JobId": str(job_id), "ClientId": "legacy", "ExecName": "read", "Args": []}
    body = json.dumps(job | {"Files": files}).encode()
    peer.write(SUBMIT_JOB, job_id, subject="job.submit.calc", payload=body)
    kind, _, corr_id, _, payload = peer.read()
    assert (kind, corr_id) == (RESULT, job_id)
    assert json.loads(payload)["Stdout"] == "legacy"
    peer.socket.close()


def test_commands_put_list_and_remove(grid: Grid, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.txt").write_text("by command")
    put = grid.command("put", "d2", str(tmp_path / "data"), "--target", "other", "--json")
    document = json.loads(put.stdout)
    assert (document["held"], document["needed"]) == (1, 1)
    assert document["workers"][0]["worker"] == "w3"
    assert "d2" in grid.command("ls").stdout
    shown = grid.command("ls", "d2").stdout
    assert "data/a.txt" in shown
    assert "w3" in shown
    told = grid.command("put", "d2", str(tmp_path / "data"), "--target", "other")
    assert "held by 1 of 1 worker" in told.stdout
    grid.command("rm", "d2")
    grid.command("ls", "d2", code=4)
    grid.command("rm", "d2", code=4)
    grid.command("put", "d3", str(tmp_path / "none"), code=2)
    few = grid.command(
        "put", "d4", str(tmp_path / "data"), "--target", "other", "--need", "2", "--timeout", "0.2",
        code=3,
    )  # fmt: skip
    assert "1 of 1" in few.stdout

"""`rollq drain` against real members and workers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rollq.cli.fleet import Fleet, write_program
from rollq.net.ports import free_ports
from tests.integration.patience import DEADLINE_S
from tests.integration.procs import until
from tests.integration.test_cli import Grid

HELD = 'while [ ! -e "$1" ]; do sleep 0.02; done'


@pytest.fixture
def grid(tmp_path: Path) -> Iterator[Grid]:
    """Three members and one worker that takes one job at a time and fetches some ahead."""
    write_program(tmp_path / "exec", "held", HELD)
    with Fleet(tmp_path) as fleet:
        fleet.start_members(free_ports(3))
        start_worker(fleet, "w1")
        yield Grid(fleet)


def start_worker(fleet: Fleet, name: str) -> None:
    options = "--slots", "1", "--ahead", "4", "--cpu-cap", "1"
    fleet.start_worker(name, "--exec-dir", str(fleet.root / "exec"), *options)


def workers(grid: Grid) -> dict[str, dict[str, object]]:
    return {one["name"]: one for one in grid.json("status", "--workers")["workers"]}


def state_of(grid: Grid, job: str) -> str:
    return str(grid.json("job", job)["state"])


def test_a_worker_is_drained_through_a_change_of_leader_and_its_own_restart(
    grid: Grid, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    jobs = [grid.run("submit", "held", str(go)).strip() for _ in range(4)]
    until(lambda: state_of(grid, jobs[0]) == "running")
    assert grid.run("drain", "w1") == "w1: no new jobs\n"
    # What it may have fetched ahead waits again.
    until(lambda: [state_of(grid, one) for one in jobs] == ["running"] + ["waiting"] * 3)
    assert workers(grid)["w1"]["state"] == "draining"
    told = grid.run("explain", jobs[1])
    assert "the only worker for queue held is draining: w1" in told
    assert grid.run("drain", "w1", "--wait", "--wait-timeout", "0.3", code=124) == ""
    assert "w1: jobs still run after" in grid.stderr
    leader = grid.json("status")["cluster"]["leader"]
    grid.fleet.kill(leader)
    others = [one for one in grid.fleet.addresses if one != leader]
    grid.fleet.addresses = others
    until(lambda: workers(grid).get("w1", {}).get("state") == "draining")
    with subprocess.Popen(
        [sys.executable, "-m", "rollq", "drain", "W1", "--wait", "--json", "-s", ",".join(others)],
        stdout=subprocess.PIPE,
        text=True,
    ) as waiting:
        go.touch()
        told, _ = waiting.communicate(timeout=DEADLINE_S)
    assert json.loads(told) == {"workers": ["W1"], "drained": True, "changed": 0}
    assert state_of(grid, jobs[0]) == "ok"
    assert workers(grid)["w1"]["state"] == "drained"
    # A new worker takes the rest; the drained one is started again and gets nothing.
    grid.fleet.kill("w1")
    start_worker(grid.fleet, "w1")
    start_worker(grid.fleet, "w2")
    grid.run("wait", *jobs)
    ends = [grid.json("job", one) for one in jobs[1:]]
    names = {one["id"]: name for name, one in workers(grid).items()}
    assert [names[one["worker"]] for one in ends] == ["w2"] * 3
    assert grid.run("drain", "w1", "--undo") == "w1: no longer drained\n"
    assert grid.run("drain", "w1", "--undo") == "w1: not drained\n"
    rows = [
        row
        for row in grid.lines("history", "tail", "--from", "1")
        if row["type"] in ("worker_drain", "worker_undrain")
    ]
    assert [(row["type"], row["detail"], bool(row["by"])) for row in rows] == [
        ("worker_drain", "w1", True),
        ("worker_undrain", "w1", True),
    ]


def test_workers_that_are_not_there(grid: Grid) -> None:
    grid.run("drain", "nobody", code=4)
    assert "no worker is named 'nobody'" in grid.stderr
    grid.run("drain", "6f9619ff-8b86-d011-b42d-00c04fc964ff", code=4)
    assert "no worker 6f9619ff-8b86-d011-b42d-00c04fc964ff is known" in grid.stderr
    grid.run("drain", "w1", "--undo", "--wait", code=2)
    until(lambda: "w1" in workers(grid))
    (row,) = grid.run("status", "--workers").splitlines()[1:2]
    short = row.split()[0]
    assert (short, len(short)) == (str(workers(grid)["w1"]["id"])[:8], 8)
    grid.run("drain", short[:7], code=4)
    grid.run("drain", short)
    grid.fleet.kill("w1")
    until(lambda: workers(grid) == {})
    shown = grid.run("status", "--workers")
    assert "drained and not connected: w1; `rollq drain w1 --undo`" in shown
    assert grid.run("drain", "w1", "--undo") == "w1: no longer drained\n"
    assert grid.json("status")["drained"] == []

"""Needs, limits and policies with real members and workers, from the command line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rollq.cli.fleet import Fleet, write_program
from rollq.net.ports import free_ports
from tests.integration.procs import until
from tests.integration.test_cli import Grid

HELD = 'while [ ! -e "$1" ]; do sleep 0.02; done'


@pytest.fixture
def grid(tmp_path: Path) -> Iterator[Grid]:
    """A member, and a worker of zone a with 2 CPUs."""
    write_program(tmp_path / "exec", "held", HELD)
    write_program(tmp_path / "exec", "hi", "echo hi")
    with Fleet(tmp_path) as fleet:
        fleet.start_members(free_ports(1))
        start_worker(fleet, "a", "--label", "zone=a", "--resource", "cpu=2")
        yield Grid(fleet)


def start_worker(fleet: Fleet, name: str, *options: str) -> None:
    usual = "--exec-dir", str(fleet.root / "exec"), "--slots", "8", "--cpu-cap", "1"
    fleet.start_worker(name, *usual, *options)


def state_of(grid: Grid, job: str) -> str:
    return str(grid.json("job", job)["state"])


def worker_of(grid: Grid, job: str) -> str:
    return str(grid.json("job", job)["worker_name"])


def submit(grid: Grid, *words: str) -> str:
    return grid.run("submit", *words).strip()


def test_labels_and_resources_choose_the_worker(grid: Grid) -> None:
    gpu = submit(grid, "hi", "--gpu", "1")
    elsewhere = submit(grid, "hi", "--label", "zone!=a")
    here = submit(grid, "hi", "--label", "zone=a")
    until(lambda: state_of(grid, here) == "ok")
    assert worker_of(grid, here) == "a"
    assert [state_of(grid, one) for one in (gpu, elsewhere)] == ["waiting", "waiting"]
    start_worker(grid.fleet, "b", "--label", "zone=b", "--resource", "gpu=2")
    until(lambda: [state_of(grid, one) for one in (gpu, elsewhere)] == ["ok", "ok"])
    assert [worker_of(grid, one) for one in (gpu, elsewhere)] == ["b", "b"]
    told = {one["name"]: one for one in grid.json("status", "--workers")["workers"]}
    assert told["b"]["labels"] == ["zone=b"]
    assert told["b"]["resources"]["gpu"] == "2"
    assert told["a"]["resources"]["cpu"] == "2"
    assert told["a"]["load"]["memory_total_bytes"] > 0


def test_what_jobs_take_of_a_worker_is_not_given_twice(grid: Grid, tmp_path: Path) -> None:
    go = tmp_path / "go"
    jobs = [submit(grid, "held", str(go), "--cpu", "0.8") for _ in range(3)]
    until(lambda: [state_of(grid, one) for one in jobs] == ["running", "running", "waiting"])
    (told,) = grid.json("status", "--workers")["workers"]
    assert told["in_use"] == {"cpu": "1.6"}
    go.touch()
    until(lambda: {state_of(grid, one) for one in jobs} == {"ok"})


def test_a_limit_holds_and_is_lifted(grid: Grid, tmp_path: Path) -> None:
    assert grid.run("limit", "set", "key:db", "--running", "3") == "key:db: limit set\n"
    go = tmp_path / "go"
    jobs = [submit(grid, "held", str(go), "--limit", "db=2") for _ in range(2)]
    free = submit(grid, "held", str(go))
    until(lambda: [state_of(grid, one) for one in (*jobs, free)].count("running") == 2)
    assert [state_of(grid, one) for one in (*jobs, free)] == ["running", "waiting", "running"]
    listed = grid.json("limit", "list")
    assert (listed["name"], listed["running"], listed["running_max"]) == ("key:db", 2, 3)
    assert "limit key:db" in grid.run("explain", jobs[1])
    grid.run("limit", "set", "key:db", "--running", "4")
    until(lambda: state_of(grid, jobs[1]) == "running")
    grid.run("limit", "remove", "key:db")
    go.touch()
    until(lambda: state_of(grid, jobs[1]) == "ok")


def test_policies_and_weights_are_set_and_listed(grid: Grid) -> None:
    score = "--placement", "score", "--weight", "cpu=2", "--weight", "running=1"
    grid.run("queue", "policy", "render.*", *score)
    listed = grid.json("queue", "policies")
    assert listed["pattern"] == "render.*"
    assert listed["weights"] == {"cpu": 2, "running": 1}
    grid.run("weight", "set", "ann", "3")
    assert grid.json("weight", "list") == {"client": "ann", "weight": 3}
    job = submit(grid, "hi", "--queue", "render.a")
    until(lambda: state_of(grid, job) == "ok")
    assert grid.run("queue", "policy", "render.*", "--remove") == "render.*: policy removed\n"
    assert grid.run("queue", "policy", "render.*", "--remove") == "render.*: has no policy\n"

"""What happened to a job, as the command line tells it, against real processes: attempts, a worker
that is killed, a cancel, and a member that has sealed its history and forgotten the job."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rollq.cli.fleet import Fleet, write_program
from rollq.net.ports import free_ports
from tests.integration.procs import until
from tests.integration.test_cli import Grid


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grid]:
    """One member and one worker."""
    root = tmp_path_factory.mktemp("grid")
    write_program(root / "exec", "calcA", '[ "$1" != bad ]')
    write_program(root / "exec", "held", 'while [ ! -e "$1" ]; do sleep 0.02; done')
    with Fleet(root) as fleet:
        fleet.start_members(free_ports(1))
        fleet.start_worker("w1", "--exec-dir", str(root / "exec"), "--cpu-cap", "1")
        yield Grid(fleet)


def words(grid: Grid, job: str) -> list[str]:
    told = grid.json("job", job, "--timeline")
    assert told["whole"] is True
    stamps = [one["ts_ms"] for one in told["events"]]
    assert stamps == sorted(stamps)
    return [one["event"] for one in told["events"]]


def test_a_job_is_told_from_its_acceptance_to_its_end(grid: Grid) -> None:
    job = grid.run("submit", "calcA", "1", "--wait", "--json")
    good = grid.json("jobs", "--exec", "calcA", "--limit", "1")["id"]
    assert words(grid, good)[:3] == ["accepted", "assigned", "ok"], job
    assigned = grid.json("job", good, "--timeline")["events"][1]
    assert (assigned["attempt"], assigned["worker"]) == (1, "w1")
    text = grid.run("job", good[:8], "--timeline")
    assert [line.split()[2] for line in text.splitlines()[1:4]] == ["accepted", "assigned", "ok"]


def test_a_failed_job_says_its_exit_code(grid: Grid) -> None:
    bad = grid.run("submit", "calcA", "bad").strip()
    grid.run("wait", bad, code=1)
    events = grid.json("job", bad, "--timeline")["events"]
    failed = next(one for one in events if one["event"] == "failed")
    assert failed["exit_code"] == 1


def test_a_cancel_says_who_asked_for_it(grid: Grid, tmp_path: Path) -> None:
    held = grid.run("submit", "held", str(tmp_path / "go")).strip()
    until(lambda: grid.json("job", held)["state"] == "running")
    grid.run("cancel", held)
    grid.run("wait", held, code=1)
    told = words(grid, held)
    assert told[:3] == ["accepted", "assigned", "cancel_requested"]
    assert "cancelled" in told
    events = grid.json("job", held, "--timeline")["events"]
    assert events[2].get("by") or events[2].get("detail")


def test_a_task_is_told_with_its_array(grid: Grid) -> None:
    array = grid.run("submit", "calcA", "--array", "2").strip()
    grid.run("wait", array)
    assert words(grid, array)[0] == "accepted"
    tasks = [one["id"] for one in grid.lines("jobs", "--limit", "2") if one.get("array") == array]
    assert len(tasks) == 2
    assert words(grid, tasks[0])[:3] == ["accepted", "assigned", "ok"]


def test_nobody_knows_it(grid: Grid) -> None:
    grid.run("job", "11111111-2222-3333-4444-555555555555", "--timeline", code=4)
    assert "no job or array has id" in grid.stderr

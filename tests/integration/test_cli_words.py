"""What commands say of jobs that wrote nothing, failed, were cancelled or are still there."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rollq.cli.fleet import Fleet, write_program
from rollq.net.ports import free_ports
from tests.integration.patience import DEADLINE_S
from tests.integration.test_cli import Grid


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grid]:
    root = tmp_path_factory.mktemp("grid")
    write_program(root / "exec", "quiet", '[ "$1" != bad ] || { echo "no $1 today" >&2; exit 3; }')
    write_program(root / "exec", "forever", "sleep 600")
    (root / "exec" / "plain").write_text("#!/bin/sh\n")
    with Fleet(root) as fleet:
        fleet.start_members(free_ports(1))
        fleet.start_worker("w1", "--exec-dir", str(root / "exec"), "--cpu-cap", "1")
        yield Grid(fleet)


def test_whoever_stops_waiting_for_an_array_is_told_what_to_ask(grid: Grid) -> None:
    command = ["submit", "forever", "--array", "2", "--wait", "-s", grid.fleet.servers]
    waiting = subprocess.Popen(
        [sys.executable, "-m", "rollq", *command], stderr=subprocess.PIPE, text=True
    )
    try:
        (first, _) = grid.until(lambda: found if len(found := grid.running()) == 2 else None)
    finally:
        waiting.send_signal(signal.SIGINT)
        _, told = waiting.communicate(timeout=DEADLINE_S)
    assert waiting.returncode == 130
    assert f"rollq job {grid.json('job', first)['array']}" in told


def test_a_job_that_wrote_nothing_says_so_once_it_has_ended(grid: Grid) -> None:
    job = grid.json("submit", "quiet", "--wait")["id"]
    assert grid.run("logs", job) == ""
    assert grid.stderr == "the job wrote nothing\n"
    assert grid.run("logs", job, "--tail", "0") == ""
    assert grid.stderr == "", "none of its lines was asked for"
    grid.run("logs", job, "--stderr")
    assert grid.stderr == "the job wrote nothing to stderr\n"
    later = grid.json("submit", "quiet", "--delay", "99")["id"]
    grid.run("logs", later)
    assert grid.stderr == "the job has written nothing so far\n"
    grid.run("cancel", later)
    assert grid.run("wait", later, code=1) == f"{later} cancelled by `rollq cancel`\n"


def test_a_list_that_is_cut_says_so(grid: Grid, tmp_path: Path) -> None:
    rows = tmp_path / "jobs.csv"
    rows.write_text("1\n")
    for name in ("cut-a", "cut-b"):
        grid.run("submit", "quiet", "--queue", name, "--wait")
        grid.run("submit", "quiet", "--worker", "nobody", "--expire", "0.1", "--wait", code=125)
        grid.run("submit", "quiet", "--from-file", str(rows), "--batch", name)
        grid.run("topic", "create", name, f"{name}.>")
        grid.run("cron", "add", name, "0 2 * * *", "quiet")
    for group in ("queue", "dlq", "batch", "topic", "cron"):
        for form in ((), ("--json",)):
            grid.run(group, "list", "--limit", "1", *form)
            assert grid.stderr == "shown: 1; there are more (--limit)\n", group
            grid.run(group, "list", *form)
            assert grid.stderr == "", group


def test_failed_rows_of_a_file_say_why(grid: Grid, tmp_path: Path) -> None:
    rows = tmp_path / "jobs.csv"
    rows.write_text("1\nbad\n")
    grid.run("submit", "quiet", "--from-file", str(rows), "--wait", code=1)
    (line,) = [one for one in grid.stderr.splitlines() if one.startswith("line 2")]
    assert line.endswith(": failed: exit code 3: no bad today")


def test_a_file_that_is_not_executable_is_named(grid: Grid) -> None:
    assert "not executable: plain; chmod +x" in grid.fleet.log_of("w1")
    job = grid.run("submit", "plain").strip()
    assert grid.json("explain", job)["why"].endswith("as --app")
    grid.run("cancel", job)

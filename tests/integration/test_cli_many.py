"""Commands about many jobs at once, against a real member and worker."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rollq.cli.fleet import Fleet, write_program
from rollq.net.ports import free_ports
from tests.integration.patience import DEADLINE_S, read_in_time
from tests.integration.test_cli import GONE, Grid

HELD = 'while [ ! -e "$1" ]; do sleep 0.02; done'  # until the test makes the file


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grid]:
    """One member and one worker."""
    root = tmp_path_factory.mktemp("grid")
    write_program(root / "exec", "calcA", 'echo "$*" > made.txt\n[ "$1" != bad ]')
    write_program(root / "exec", "held", HELD)
    with Fleet(root) as fleet:
        fleet.start_members(free_ports(1))
        fleet.start_worker("w1", "--exec-dir", str(root / "exec"), "--cpu-cap", "1")
        yield Grid(fleet)


def test_an_array_is_explained_and_has_no_output_of_its_own(grid: Grid) -> None:
    array = grid.run("submit", "calcA", "--array", "2").strip()
    grid.run("wait", array)
    assert grid.run("explain", array).startswith("ok (ok): of 2 tasks: 2 ok\n")
    assert grid.run("logs", array, code=4) == ""
    assert f"{array} is an array of 2 tasks" in grid.stderr
    assert f"name one of them: {array}/0 to 1" in grid.stderr


def test_jobs_and_arrays_are_waited_for_until_all_have_ended(grid: Grid, tmp_path: Path) -> None:
    good = grid.run("submit", "calcA", "1", "--client-id", "owner").strip()
    bad = grid.run("submit", "calcA", "bad").strip()
    array = grid.run("submit", "calcA", "--array", "3").strip()
    assert grid.run("wait", good) == f"{good} ok (exit code 0)\n"
    assert grid.run("wait", bad[:8], code=1) == f"{bad} failed: exit code 1\n"
    assert grid.run("wait", array) == f"{array} ok: 3 of 3 tasks ok\n"
    broken = grid.run("submit", "calcA", "bad", "--array", "2").strip()
    (told,) = grid.lines("wait", broken, code=1)
    assert (told["id"], told["state"], told["failed"]) == (broken, "failed", 2)
    # Whoever waits takes nothing from the client that the result is owed to.
    assert grid.json("job", good)["end"]["confirmed"] is False
    held = grid.run("submit", "held", str(tmp_path / "go")).strip()
    command = ("wait", held, bad, good, held, "--json", "-s", grid.fleet.servers)
    with (
        subprocess.Popen(
            [sys.executable, "-m", "rollq", *command], stdout=subprocess.PIPE, text=True
        ) as waiting,
        read_in_time(waiting),
    ):
        assert waiting.stdout is not None
        ended = [json.loads(waiting.stdout.readline()) for _ in range(2)]
        assert grid.json("job", held)["state"] in ("waiting", "running")
        (tmp_path / "go").touch()
        rest, _ = waiting.communicate(timeout=DEADLINE_S)
    states = {one["id"]: (one["state"], one["exit_code"]) for one in ended}
    assert states == {bad: ("failed", 1), good: ("ok", 0)}
    (last,) = map(json.loads, rest.splitlines())
    assert (last["id"], last["state"]) == (held, "ok")
    assert waiting.returncode == 1


def test_waiting_ends_with_the_first_or_when_its_time_is_over(grid: Grid, tmp_path: Path) -> None:
    held = grid.run("submit", "held", str(tmp_path / "go")).strip()
    good = grid.run("submit", "calcA", "1").strip()
    assert grid.run("wait", held, good, "--any") == f"{good} ok (exit code 0)\n"
    assert grid.run("wait", held, "--wait-timeout", "0.2", code=124) == ""
    assert "0 of 1 ended" in grid.stderr
    assert grid.run("wait", good, GONE, code=4) == ""
    assert "unknown_job" in grid.stderr
    grid.run("wait", "0000", code=4)
    grid.run("cancel", held)
    assert grid.run("wait", held, code=1).startswith(f"{held} cancelled")


def test_jobs_are_cancelled_by_what_they_have_in_common(grid: Grid, tmp_path: Path) -> None:
    grid.run("queue", "pause", "bulk")
    rows = tmp_path / "jobs.csv"
    rows.write_text("".join(f"{number}\n" for number in range(600)))  # more than a page
    ann = ("--queue", "bulk", "--client-id", "ann")
    grid.run("submit", "calcA", "--from-file", str(rows), *ann)
    array = grid.run("submit", "calcA", "--array", "50", *ann).strip()
    late = grid.run("submit", "calcA", "--delay", "3600", *ann).strip()
    bob = grid.run("submit", "calcA", "--queue", "bulk", "--client-id", "bob").strip()
    other = grid.run("submit", "calcA", "--delay", "3600", "--client-id", "ann").strip()

    def waiting() -> int:
        return sum(one["waiting"] for one in grid.lines("queue", "list") if one["name"] == "bulk")

    grid.until(lambda: len(grid.lines("jobs", "--client", "ann", "--limit", "700")) == 602)
    grid.run("cancel", "--queue", "bulk", "--client", "ann", code=2)
    assert "cancelling 651 jobs" in grid.stderr
    assert waiting() == 651
    waits = ("cancel", "--queue", "bulk", "--client", "ann", "--state", "waiting", "--yes")
    assert grid.json(*waits) == {"cancelled": 650}
    assert grid.json("job", array)["array"]["cancelled"] == 50
    assert grid.run(*waits, code=1) == "nothing to cancel: no job matches\n"
    assert waiting() == 1
    assert grid.json("job", late)["state"] == "delayed"
    assert grid.json("cancel", "--queue", "bulk", "--yes") == {"cancelled": 2}
    assert [grid.json("job", one)["state"] for one in (late, bob)] == ["cancelled"] * 2
    assert grid.json("job", other)["state"] == "delayed"
    assert grid.run("cancel", other) == "cancelling 1 job\n"
    grid.run("cancel", code=2)
    grid.run("cancel", other, "--queue", "bulk", "--yes", code=2)


def test_tasks_that_run_are_not_cancelled_with_those_that_wait(grid: Grid, tmp_path: Path) -> None:
    held = ("submit", "held", str(tmp_path / "go"), "--client-id", "cat")
    array = grid.run(*held, "--array", "3", "--running-max", "1").strip()
    grid.until(lambda: grid.json("job", array)["array"]["running"] == 1)
    grid.run("cancel", "--client", "cat", "--state", "waiting", "--yes", code=1)
    assert f"skipped: 2 tasks of array {array}" in grid.stderr
    assert grid.json("job", array)["array"]["running"] == 1
    assert grid.json("cancel", "--client", "cat", "--yes") == {"cancelled": 3}
    grid.run("wait", array, code=1)
    assert grid.json("job", array)["array"]["cancelled"] == 3


@pytest.mark.parametrize(("answer", "code", "state"), [("n", 1, "delayed"), ("y", 0, "cancelled")])
def test_on_a_terminal_it_is_asked_first(grid: Grid, answer: str, code: int, state: str) -> None:
    who = f"asked-{answer}"
    job = grid.run("submit", "calcA", "--delay", "3600", "--client-id", who).strip()
    command = ("cancel", "--client", who, "-s", grid.fleet.servers)
    master, terminal = pty.openpty()
    try:
        os.write(master, f"{answer}\n".encode())
        done = subprocess.run(
            [sys.executable, "-m", "rollq", *command],
            stdin=terminal,
            capture_output=True,
            text=True,
            check=False,
            timeout=DEADLINE_S,
        )
    finally:
        os.close(master)
        os.close(terminal)
    assert "Cancel 1 job?" in done.stderr + done.stdout
    assert done.returncode == code
    assert grid.json("job", job)["state"] == state


def test_files_of_many_jobs_are_saved_by_line_or_task(grid: Grid, tmp_path: Path) -> None:
    rows = tmp_path / "jobs.csv"
    rows.write_text("name\n1,2\n\nbad,3\n")
    lines = tmp_path / "lines"
    ask = ("submit", "calcA", "--from-file", str(rows), "--header", "--wait")
    grid.run(*ask, "--save", str(lines), code=1)
    made = {one.relative_to(lines).as_posix(): one.read_text() for one in lines.rglob("*.txt")}
    assert made == {"line-2/made.txt": "1 2\n", "line-4/made.txt": "bad 3\n"}
    tasks = tmp_path / "tasks"
    grid.run("submit", "calcA", "x", "--array", "3", "--wait", "--save", str(tasks))
    assert sorted(one.name for one in tasks.iterdir()) == ["task-0", "task-1", "task-2"]
    assert (tasks / "task-2" / "made.txt").read_text() == "x\n"

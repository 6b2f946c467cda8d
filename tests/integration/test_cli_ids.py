"""Commands about jobs that are unknown, arrays, or longer than is shown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rollq.cli.fleet import Fleet, write_program
from rollq.net.ports import free_ports
from tests.integration.test_cli import GONE, Grid


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grid]:
    """One member and one worker."""
    root = tmp_path_factory.mktemp("grid")
    write_program(root / "exec", "calcA", 'echo "got $*"')
    write_program(root / "exec", "long", "head -c 5000000 /dev/zero | tr '\\0' x; echo")
    with Fleet(root) as fleet:
        fleet.start_members(free_ports(1))
        fleet.start_worker("w1", "--exec-dir", str(root / "exec"), "--cpu-cap", "1")
        yield Grid(fleet)


def test_an_unknown_id_is_named_and_the_others_are_cancelled(grid: Grid) -> None:
    paused = grid.json("submit", "calcA", "--delay", "600")["id"]
    assert grid.run("cancel", paused, GONE, code=1) == "cancelling 1 job\n"
    assert f"no job or array has id {GONE}" in grid.stderr
    assert paused not in grid.stderr
    assert grid.json("job", paused)["state"] == "cancelled"


def test_the_output_of_a_job_says_how_much_of_it_is_shown(grid: Grid) -> None:
    job_id = grid.json("submit", "long", "--wait")["id"]
    told = grid.run("job", job_id)
    heading, shown = told[told.index("--- stdout") :].split("\n", 1)
    assert heading == (
        f"--- stdout (the last {len(shown)} of 5000001 bytes; `rollq logs {job_id}` shows all)"
    )
    short = grid.json("submit", "calcA", "--wait")["id"]
    assert "--- stdout\n" in grid.run("job", short)


def test_files_are_fetched_of_tasks_and_not_of_an_array(grid: Grid, tmp_path: Path) -> None:
    array = grid.run("submit", "calcA", "--array", "2").strip()
    grid.run("wait", array)
    grid.run("fetch", array, "--save", str(tmp_path), code=4)
    assert "is an array of 2 tasks" in grid.stderr
    assert f"name one of them: {array}/0 to 1" in grid.stderr


def test_a_task_is_named_by_its_array_and_its_number(grid: Grid) -> None:
    array = grid.run("submit", "calcA", "a", "--array", "3").strip()
    assert grid.json("wait", array)["state"] == "ok"
    assert grid.json("job", array)["array"]["state"] == "ok"
    task = grid.json("job", f"{array[:8]}/2")
    assert (task["array"], task["task"], task["state"]) == (array, 2, "ok")
    assert grid.run("logs", f"{array}/2") == "got a\n"
    listed = grid.run("jobs", "--limit", "3").splitlines()[1:]
    assert {line.split()[0] for line in listed} == {f"{array[:8]}/{n}" for n in range(3)}
    grid.run("logs", f"{array}/3", code=4)
    assert f"array {array} has no task 3" in grid.stderr
    assert "its tasks are 0 to 2" in grid.stderr
    for asked in (f"{array}/2", f"{array[:8]}/2"):
        rows = grid.lines("history", "tail", "--from", "1", "--job", asked)
        assert {row["jobId"] for row in rows} == {task["id"]}
        (told,) = grid.lines("watch", "--since", "1h", "--job", asked, "--event", "ack", "-n", "1")
        assert told["jobId"] == task["id"]
    grid.run("history", "tail", "--job", f"{array}/3", code=4)
    assert "has no task 3" in grid.stderr
    grid.run("logs", f"{task['id']}/0", code=4)
    assert f"no array has id {task['id']}" in grid.stderr


def test_nothing_is_purged_or_redriven_if_one_id_is_unknown(grid: Grid) -> None:
    grid.run("submit", "missing", "--expire", "0.2", "--wait", code=125)
    (dead,) = grid.lines("dlq", "list")
    for action in ("purge", "redrive"):
        grid.run("dlq", action, dead["id"], GONE, code=4)
        assert GONE in grid.stderr
        assert "no job was changed" in grid.stderr
        assert [one["id"] for one in grid.lines("dlq", "list")] == [dead["id"]]
    grid.run("dlq", "purge", "--all", code=2)  # stdin is no terminal
    assert "requires confirmation, and stdin is not a terminal" in grid.stderr
    assert grid.json("dlq", "purge", dead["id"], dead["id"]) == {"purge": 1}

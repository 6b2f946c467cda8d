"""Jobs that run once more with other arguments, through the command line and real processes."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from rollq import BlockingClient
from rollq.cli.fleet import Fleet, write_program
from rollq.net.ports import free_ports
from tests.integration.patience import DEADLINE_S
from tests.integration.test_cli import Grid

SAID = 'echo "$* $MODE $KEPT"; cat input 2>/dev/null; exit "$1"'


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grid]:
    """One member and one worker."""
    root = tmp_path_factory.mktemp("grid")
    write_program(root / "exec", "said", SAID)
    write_program(root / "exec", "numbered", 'echo "$ROLLQ_TASK" "$@"')
    with Fleet(root) as fleet:
        fleet.start_members(free_ports(1))
        fleet.start_worker("w1", "--exec-dir", str(root / "exec"), "--cpu-cap", "1")
        yield Grid(fleet)


def dead_job(grid: Grid, *more: str) -> str:
    """A job whose retry rule names its exit code, and that has no attempt left."""
    rule = "--max-attempts", "1", "--retry-exit-code", "7"
    words = "submit", "said", "7", *rule, "--env", "MODE=old", "--env", "KEPT=kept", *more
    job = grid.run(*words).strip()
    grid.run("wait", job, code=1)
    assert grid.json("job", job)["state"] == "dead"
    return job


def test_a_dead_job_runs_again_with_other_arguments(grid: Grid) -> None:
    job = dead_job(grid)
    order = "dlq", "redrive", job[:8], "--arg", "0", "--arg", "a b", "--env", "MODE=new"
    assert grid.run(*order, "--to-queue", "said.more") == "1 job redriven\n"
    assert grid.run("wait", job) == f"{job} ok (exit code 0)\n"
    ended = grid.json("job", job)
    assert ended["end"]["stdout"] == "0 a b new kept\n"
    assert (ended["queue"], ended["attempt"], ended["request_changed"]) == ("said.more", 2, True)
    assert "changed by a redrive" in grid.run("job", job)
    rows = grid.lines("history", "tail", "--from", "1", "--job", job)
    told = [(one["type"], json.loads(one["request"])) for one in rows if one.get("request")]
    asked = [(kind, request["args"]) for kind, request in told]
    assert asked == [("enqueue", ["7"]), ("redrive", ["0", "a b"])]
    grid.run("dlq", "redrive", job, "--arg", "1", code=4)
    assert "the job is not dead" in grid.stderr
    assert "`rollq submit --like`" in grid.stderr


def test_a_redrive_without_a_change_is_as_before(grid: Grid) -> None:
    job = dead_job(grid)
    grid.run("dlq", "redrive", job)
    grid.run("wait", job, code=1)
    assert "request_changed" not in grid.json("job", job)
    grid.run("dlq", "redrive", job, "--arg", "x", "--no-args", code=2)
    grid.run("dlq", "purge", job)


def test_a_new_job_like_one_that_failed(grid: Grid) -> None:
    failed = grid.run("submit", "said", "3", "--priority", "5").strip()
    grid.run("wait", failed, code=1)
    assert grid.run("submit", "--like", failed[:8], "--wait", "--", "0", "-x").strip() == "0 -x"
    assert grid.run("submit", "--like", failed, "--wait", code=3).strip() == "3"
    again = grid.run("submit", "--like", failed).strip()
    assert again != failed
    assert grid.json("job", again)["options"]["priority"] == 5
    grid.run("submit", "--like", failed, "--priority", "3", code=2)
    assert "--like takes priority from the other job" in grid.stderr


def test_a_new_job_like_a_task_of_an_array_has_its_number(grid: Grid) -> None:
    for args in ([], ["a b"]):
        array = grid.run("submit", "numbered", *args, "--array", "2").strip()
        grid.run("wait", array)
        ids = sorted(one["id"] for one in grid.lines("jobs") if one["id"][:20] == array[:20])
        said = [grid.run("submit", "--like", task, "--wait").split(None, 1) for task in ids]
        assert [one[0] for one in said] == ["0", "1"]
        assert [one[1:] for one in said] == [[f"{arg}\n" for arg in args]] * 2
    again = grid.run("submit", "--like", ids[1]).strip()
    assert grid.run("submit", "--like", again, "--wait") == "1 a b\n", "like one like a task"


def test_what_is_kept_of_a_job(grid: Grid, tmp_path_factory: pytest.TempPathFactory) -> None:
    """While it may run, all; once it has ended, a short request without variables."""
    source = tmp_path_factory.mktemp("files") / "input"
    source.write_bytes(b"content\n")
    dead = dead_job(grid, "--file", f"input={source}")
    told = grid.run("submit", "--like", dead, "--wait", "--env", "MODE=new", "--", "0")
    assert told == "0 new kept\ncontent\n"
    gone = grid.run("submit", "said", "0", "--env", "MODE=x").strip()
    grid.run("wait", gone)
    grid.run("submit", "--like", gone, code=4)
    assert "not all of its request is kept" in grid.stderr


def test_the_same_in_python(grid: Grid) -> None:
    dead = dead_job(grid)
    with BlockingClient(grid.fleet.servers) as client:
        like = client.submit_like(dead, ["0", "like"])
        assert like.result(DEADLINE_S).stdout == "0 like old kept\n"
        assert client.redrive(dead, args=["0", "py"], env={"KEPT": None}) == 1
        seen = client.status(dead)
        assert seen is not None
        assert seen.is_changed
    grid.run("wait", dead)
    assert grid.json("job", dead)["end"]["stdout"] == "0 py old \n"

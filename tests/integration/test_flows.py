"""Jobs that wait for others, with a real member and worker, from the command line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rollq.cli.fleet import Fleet, write_program
from rollq.net.ports import free_ports
from tests.integration.procs import until
from tests.integration.test_cli import Grid

HELD = 'while [ ! -e "$1" ]; do sleep 0.02; done'
FLOW = """
[report]
exec = "hi"
after = ["train", "fetch:ended"]

[train]
exec = "bad"
after = ["fetch"]

[fetch]
exec = "held"
args = ["GO"]

[alarm]
exec = "hi"
after = ["train:failed"]
"""


@pytest.fixture
def grid(tmp_path: Path) -> Iterator[Grid]:
    write_program(tmp_path / "exec", "held", HELD)
    write_program(tmp_path / "exec", "hi", "echo hi")
    write_program(tmp_path / "exec", "bad", "exit 3")
    with Fleet(tmp_path) as fleet:
        fleet.start_members(free_ports(1))
        fleet.start_worker("a", "--exec-dir", str(tmp_path / "exec"), "--slots", "8")
        yield Grid(fleet)


def test_a_flow_from_a_file(grid: Grid, tmp_path: Path) -> None:
    go, path = tmp_path / "go", tmp_path / "night.toml"
    path.write_text(FLOW.replace("GO", str(go)), encoding="utf-8")
    assert grid.run("flow", "run", str(path), "--name", "n1").strip() == "n1"
    until(lambda: grid.json("flow", "show", "n1")["counts"] == {"running": 1, "blocked": 3})
    told = {one["name"]: one for one in grid.json("flow", "show", "n1")["jobs"]}
    assert told["report"]["after"] == ["train", "fetch:ended"]
    waits = grid.json("explain", told["train"]["id"])
    assert (waits["code"], waits["state"]) == ("blocked", "blocked")
    assert told["fetch"]["id"] in waits["why"]
    assert grid.json("flow", "run", str(path), "--name", "n1")["known"] is True
    go.touch()
    until(lambda: "blocked" not in grid.json("flow", "show", "n1")["counts"])
    until(lambda: grid.json("flow", "show", "n1")["counts"].keys() == {"ok", "failed", "cancelled"})
    states = {one["name"]: one["state"] for one in grid.json("flow", "show", "n1")["jobs"]}
    ends = {"fetch": "ok", "train": "failed", "report": "cancelled", "alarm": "ok"}
    assert states == ends
    assert grid.json("explain", told["report"]["id"])["code"] == "parent"
    assert grid.json("flow", "run", str(path), "--name", "n1")["known"] is True


SHIPPED = """
[run]
exec = "own.sh"
args = ["x", 1]
priority = 3
labels = ["!spot"]
files = {"own.sh" = "own.sh"}
then = "hi"

[next]
exec = "hi"
queue = "other"
inputs = {"said" = "run:-"}
after = ["run"]
"""


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('[next]\nexec = "hi"', '[next]\nexec = "bad"', "[next] differs in exec"),
        ('["x", 1]', '["y", 1]', "[run] differs in args"),
        ("priority = 3", "priority = 4", "[run] differs in options"),
        ('queue = "other"', 'queue = "third"', "[next] differs in queue or worker"),
        ('inputs = {"said" = "run:-"}', "", "[next] differs in after or inputs"),
        ("[next]", "[last]", "[next] is not in the file"),
        ('then = "hi"', "", "the file has 2 jobs, and the flow 3"),
    ],
)
def test_another_flow_under_a_name_that_is_taken_is_refused(
    grid: Grid, tmp_path: Path, old: str, new: str, told: str
) -> None:
    (tmp_path / "own.sh").write_text("#!/bin/sh\n", encoding="utf-8")
    (tmp_path / "own.sh").chmod(0o755)
    path = tmp_path / "ship.toml"
    path.write_text(SHIPPED, encoding="utf-8")
    grid.run("flow", "run", str(path), "--name", "s1")
    until(lambda: grid.json("flow", "show", "s1")["count"] == 3)
    assert grid.json("flow", "run", str(path), "--name", "s1")["known"] is True
    assert old in SHIPPED
    path.write_text(SHIPPED.replace(old, new), encoding="utf-8")
    grid.run("flow", "run", str(path), "--name", "s1", code=4)
    assert "another flow has the name 's1'" in grid.stderr
    assert told in grid.stderr


def test_jobs_that_are_forgotten_are_said_not_to_be_compared(grid: Grid, tmp_path: Path) -> None:
    path = tmp_path / "short.toml"
    path.write_text('[run]\nexec = "hi"\nresult_ttl = 0.001\n', encoding="utf-8")
    grid.run("flow", "run", str(path), "--name", "f1")
    until(lambda: not grid.lines("jobs", "--exec", "hi"))
    path.write_text('[other]\nexec = "bad"\n', encoding="utf-8")
    assert grid.json("flow", "run", str(path), "--name", "f1")["known"] is True
    assert "not compared with the file: 1 job, forgotten" in grid.stderr
    assert "another --name" in grid.stderr


def test_a_flow_is_cancelled_as_a_whole(grid: Grid, tmp_path: Path) -> None:
    path = tmp_path / "night.toml"
    path.write_text(FLOW.replace("GO", str(tmp_path / "go")), encoding="utf-8")
    grid.run("flow", "run", str(path), "--name", "n2")
    until(lambda: grid.json("flow", "show", "n2")["counts"] == {"running": 1, "blocked": 3})
    assert grid.json("flow", "cancel", "n2")["count"] == 4
    until(lambda: grid.json("flow", "show", "n2")["counts"] == {"cancelled": 4})
    assert grid.json("flow", "cancel", "n2")["count"] == 0
    grid.run("flow", "cancel", "n3", code=4)
    assert "no flow 'n3'" in grid.stderr


def test_after_on_the_command_line(grid: Grid, tmp_path: Path) -> None:
    go = tmp_path / "go"
    first = grid.run("submit", "held", str(go)).strip()
    child = grid.run("submit", "hi", "--after", f"{first[:8]}:ended").strip()
    assert grid.json("job", child)["state"] == "blocked"
    assert grid.json("job", child)["parents"] == [
        {"id": first, "condition": "ended", "state": "open", "met": False}
    ]
    go.touch()
    until(lambda: grid.json("job", child)["state"] == "ok")


PIPELINE = """
[sum]
exec = "sum"
inputs = {"in.csv" = "make:out.csv", "all" = "make:large.txt", "said" = "make:-"}

[make]
exec = "make"
args = ["GO"]
"""


def test_what_one_leaves_is_an_input_of_the_next(grid: Grid, tmp_path: Path) -> None:
    """Small files, large ones and stdout, of a job that has not ended yet."""
    make = f"{HELD}; seq 1 4 > out.csv; seq 1 60000 > large.txt; echo hello"
    write_program(tmp_path / "exec", "make", make)
    write_program(tmp_path / "exec", "sum", "cat in.csv said; tail -n 1 all")
    go, path = tmp_path / "go", tmp_path / "pipe.toml"
    path.write_text(PIPELINE.replace("GO", str(go)), encoding="utf-8")
    grid.run("flow", "run", str(path), "--name", "p1")
    until(lambda: grid.json("flow", "show", "p1")["counts"] == {"running": 1, "blocked": 1})
    ids = {one["name"]: one["id"] for one in grid.json("flow", "show", "p1")["jobs"]}
    go.touch()
    until(lambda: grid.json("flow", "show", "p1")["counts"] == {"ok": 2})
    assert grid.run("logs", ids["sum"]) == "1\n2\n3\n4\nhello\n60000\n"

    source = f"{ids['make'][:8]}:out.csv"
    write_program(tmp_path / "exec", "count", "wc -l < in.csv")
    again = grid.run("submit", "count", "--input", f"in.csv={source}", "--wait")
    assert again.strip() == "4"
    lost = grid.run("submit", "sum", "--input", f"in.csv={ids['make']}:no.csv").strip()
    until(lambda: grid.json("job", lost)["state"] == "failed")
    grid.run("logs", lost)
    assert "did not leave a file 'no.csv'; it left" in grid.stderr

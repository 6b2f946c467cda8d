"""Commands about many jobs at once, against a real member and worker."""

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
    with subprocess.Popen(
        [sys.executable, "-m", "rollq", *command], stdout=subprocess.PIPE, text=True
    ) as waiting:
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

"""`rollq watch` beside real members that come and go."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rollq.cli.fleet import Fleet, write_program
from rollq.net.ports import free_ports
from tests.integration.patience import DEADLINE_S
from tests.integration.test_cli import Grid


class Watch:
    """`rollq watch` as a process, and what it has written."""

    def __init__(self, grid: Grid, *arguments: str) -> None:
        self.lines: list[str] = []
        command = [sys.executable, "-m", "rollq", "watch", "-s", grid.fleet.servers, *arguments]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *exc: object) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join(DEADLINE_S)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def ended(self) -> int:
        code = self.process.wait(DEADLINE_S)
        self._reader.join(DEADLINE_S)
        return code

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))


@pytest.fixture
def grid(tmp_path: Path) -> Iterator[Grid]:
    write_program(tmp_path / "exec", "good", "echo fine")
    write_program(tmp_path / "exec", "bad", "exit 3")
    with Fleet(tmp_path) as fleet:
        fleet.start_members(free_ports(3))
        fleet.start_worker("w1", "--exec-dir", str(tmp_path / "exec"), "--cpu-cap", "1")
        yield Grid(fleet)


def test_each_event_comes_once_though_leaders_die(grid: Grid) -> None:
    first = grid.run("submit", "good", "--wait", "--json")
    with Watch(grid, "--json", "--since", "1h") as watch:
        grid.until(lambda: any('"ack"' in line for line in watch.lines))
        leader = grid.json("status")["cluster"]["leader"]
        grid.fleet.kill(leader)
        later = [grid.json("submit", "good", "--wait")["id"] for _ in range(3)]
        grid.until(lambda: sum('"ack"' in line for line in watch.lines) >= 4)
        rows = [json.loads(line) for line in list(watch.lines)]
    places = [(row["index"], row["ordinal"]) for row in rows]
    assert places == sorted(set(places))
    acked = [row["jobId"] for row in rows if row["type"] == "ack"]
    assert acked == [json.loads(first)["id"], *later]
    last = places[-1]
    stored = [
        (row["index"], row["ordinal"])
        for row in grid.lines("history", "tail", "--from", str(places[0][0]))
    ]
    assert stored[: stored.index(last) + 1] == places


def test_it_ends_with_what_was_waited_for(grid: Grid) -> None:
    bad = grid.run("submit", "bad", "--delay", "1").strip()
    with Watch(grid, "--until-ended", bad, "--state", "failed", "--since", "1h") as watch:
        assert watch.ended() == 1
        (line,) = watch.lines
        assert bad in line
        assert "failed: exit code 3; on w1; after " in line
    with Watch(grid, "--until-ended", bad) as watch:
        assert watch.ended() == 1  # it had ended before
    good = grid.json("submit", "good", "--wait")["id"]
    assert grid.run("watch", "--until-ended", good) == ""
    assert grid.run("watch", "--since", "1h", "--exec", "good", "--count", "2").count("\n") == 2
    (told,) = grid.lines("watch", "--since", "1h", "--event", "ack", "--exec", "bad", "-n", "1")
    assert told["jobId"] == bad
    grid.run("watch", "--until-ended", "6f9619ff-8b86-d011-b42d-00c04fc964ff", code=4)
    grid.run("watch", "--state", "frob", code=2)
    grid.run("watch", "--since", "frob", code=2)

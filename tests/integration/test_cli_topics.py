"""`rollq topic`, `rollq subscribe --topic` and `rollq job --follow` against real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rollq.cli.fleet import Fleet, write_program
from rollq.net.ports import free_ports
from tests.integration.patience import read_in_time
from tests.integration.test_cli import Grid


@pytest.fixture
def grid(tmp_path: Path) -> Iterator[Grid]:
    """A member and a worker."""
    text = """echo '{"done": 1, "total": 2, "note": "half"}' > "$ROLLQ_PROGRESS"
    while [ ! -e "$1" ]; do sleep 0.05; done"""
    write_program(tmp_path / "exec", "half", text)
    with Fleet(tmp_path) as fleet:
        fleet.start_members(free_ports(1))
        fleet.start_worker("w1", "--exec-dir", str(fleet.root / "exec"))
        yield Grid(fleet)


def lines(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_topic_from_its_making_to_its_end(grid: Grid) -> None:
    assert grid.run("topic", "create", "prices", "price.>", "--keep-count", "3") == (
        "topic prices: keeps price.>\n"
    )
    for number in range(1, 6):
        told = grid.run("publish", "price.eur", f"1.0{number}")
        assert told == f"price.eur: 1 message kept by topic prices, up to index {number}\n"
    read = ("subscribe", "price.>", "--topic", "prices", "--durable", "desk", "--from", "2")
    assert grid.run(*read, "--count", "2") == "3  price.eur  1.03\n4  price.eur  1.04\n"
    assert "[1 message missed]" in grid.stderr
    (last,) = lines(grid.run(*read, "--count", "1", "--json"))
    assert (last["index"], last["text"], last["topic"]) == (5, "1.05", "prices")
    view = grid.json("topic", "show", "prices")
    assert (view["first_index"], view["last_index"], view["count"]) == (3, 5, 3)
    assert [cursor["durable"] for cursor in view["cursors"]] == ["desk"]
    assert [one["topic"] for one in lines(grid.run("topic", "list", "--json"))] == ["prices"]
    assert "desk" in grid.run("topic", "show", "prices")
    assert grid.run("topic", "create", "more", "price.oil", code=4) == ""
    assert "overlaps" in grid.stderr
    assert grid.run("topic", "forget-cursor", "prices", "desk") == "topic prices: forgot desk\n"
    assert grid.run("topic", "remove", "prices") == "topic prices: removed\n"
    assert grid.run("topic", "show", "prices", code=4) == ""
    assert grid.run("publish", "price.eur") == "price.eur: 1 message to 0 subscriptions\n"


def test_a_job_is_followed_to_its_end(grid: Grid, tmp_path: Path) -> None:
    job = grid.run("submit", "half", str(tmp_path / "go")).strip()
    grid.until(lambda: "progress" in grid.json("job", job))  # before anybody follows it
    follow = [sys.executable, "-m", "rollq", "job", job, "--follow", "--json"]
    with (
        subprocess.Popen(follow, stdout=subprocess.PIPE, text=True, env=environ(grid)) as process,
        read_in_time(process),
    ):
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        assert (first["event"], first["text"]) == ("progress", "50 % (1 of 2), half")
        (tmp_path / "go").touch()
        rest = lines(process.stdout.read())
    assert process.returncode == 0
    assert [event["event"] for event in rest] == ["ack"]
    assert (rest[-1]["status"], rest[-1]["exit_code"]) == ("ok", 0)
    told = grid.run("job", job, "--follow")  # it is over
    assert told.endswith("ack  attempt 1  ok\n")
    assert grid.run("job", job, "--follow", "--timeline", code=2) == ""


def environ(grid: Grid) -> dict[str, str]:
    return {**os.environ, "ROLLQ_SERVERS": grid.fleet.servers}

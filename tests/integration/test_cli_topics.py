"""`rollq topic`, `rollq subscribe --topic` and `rollq job --follow` against real processes."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rollq.cli.fleet import Fleet, write_program
from rollq.net.ports import free_ports
from tests.integration.patience import DEADLINE_S
from tests.integration.test_cli import Grid


@pytest.fixture
def grid(tmp_path: Path) -> Iterator[Grid]:
    """A member and a worker."""
    # It tells how far it is until there is a file: whoever listens later hears of it, too.
    text = """
        while ! [ -e "$1" ]; do
            n=$((n + 1))
            echo "{\\"done\\": 1, \\"total\\": 2, \\"note\\": \\"half $n\\"}" > "$ROLLQ_PROGRESS"
            sleep 0.1
        done
    """
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
    gate = tmp_path / "gate"
    job = grid.run("submit", "half", str(gate)).strip()
    command = [sys.executable, "-m", "rollq", "job", job, "--follow", "--json"]
    command += ["--servers", grid.fleet.servers]
    events: list[dict[str, Any]] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
        alarm = threading.Timer(DEADLINE_S, following.kill)
        alarm.start()
        assert following.stdout is not None
        for line in following.stdout:
            events.append(json.loads(line))
            if events[-1]["event"] == "progress":
                gate.touch()
        alarm.cancel()
    assert following.returncode == 0
    assert events[-1]["event"] == "ack"
    said = next(event for event in events if event["event"] == "progress")
    assert said["text"].startswith("50 % (1 of 2), half")
    assert (events[-1]["status"], events[-1]["exit_code"]) == ("ok", 0)
    told = grid.run("job", job, "--follow")  # it is over
    assert told.endswith("ack  attempt 1  ok\n")
    assert grid.run("job", job, "--follow", "--timeline", code=2) == ""

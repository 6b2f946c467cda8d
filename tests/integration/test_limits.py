"""Limits, rates and weights with real processes: what the history says, by the group's time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rollq.cli.fleet import Fleet, write_program
from rollq.net.ports import free_ports
from tests.integration.test_cli import Grid
from tests.unit.policy.typed import parse

OVER = ("ack", "nack", "worker_lost", "timeout", "cancel", "dead")


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grid]:
    root = tmp_path_factory.mktemp("grid")
    for name, text in {"brief": "exit 0", "held": "while [ ! -e $1 ]; do sleep 0.02; done"}.items():
        write_program(root / "exec", name, text)
    with Fleet(root) as fleet:
        fleet.start_members(free_ports(1))
        for name in ("w1", "w2", "w3"):
            fleet.start_worker(name, "--exec-dir", str(root / "exec"), "--cpu-cap", "1")
        yield Grid(fleet)


def events_of(grid: Grid, jobs: list[str]) -> list[dict[str, Any]]:
    """What the history has of these jobs, in order."""
    rows = grid.lines("history", "tail", "--from", "1")
    return [row for row in rows if row.get("jobId") in jobs]


def test_no_more_than_two_hold_a_licence(grid: Grid) -> None:
    grid.run("limit", "set", "key:licence", "--running", "2")
    gate = grid.fleet.root / "gate"
    asked = ("held", str(gate), "--limit", "licence")
    jobs = [grid.run("submit", *asked).strip() for _ in range(10)]

    def kept() -> list[dict[str, Any]]:
        told = [grid.json("explain", job) for job in jobs]
        return [one for one in told if one["code"] == "limit"]

    waiting = grid.until(lambda: found if len(found := kept()) == 8 else None)
    assert waiting[0]["why"] == "limit key:licence has 2 of 2 in use; waiting for it: 8"
    assert waiting[0]["todo"] == ["rollq limit set key:licence --running 4"]
    parse(waiting[0]["todo"][0])
    gate.touch()
    grid.run("wait", *jobs)
    running = most = 0
    for row in events_of(grid, jobs):
        running += (row["type"] == "assign") - (row["type"] in OVER)
        most = max(most, running)
    assert most == 2


def test_starts_keep_to_a_rate(grid: Grid) -> None:
    grid.run("limit", "set", "exec:brief", "--rate", "4/s", "--burst", "2")
    jobs = [grid.run("submit", "brief").strip() for _ in range(9)]
    grid.run("wait", *jobs)
    stamps_ms = [row["ts"] for row in events_of(grid, jobs) if row["type"] == "assign"]
    assert len(stamps_ms) == 9
    for first, from_ms in enumerate(stamps_ms):
        for last, to_ms in enumerate(stamps_ms[first:], first):
            assert last - first + 1 <= 2 + 4 * (to_ms - from_ms + 1) / 1_000

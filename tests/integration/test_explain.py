"""`rollq explain` of what really happened to real processes: the word, what the sentence names, and
commands that can be typed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rollq.cli.fleet import Fleet, write_program
from rollq.net.ports import free_ports
from tests.integration.test_cli import Grid
from tests.unit.policy.typed import parse

PROGRAMS = {
    "code": 'echo "no row $1" >&2; exit 3',
    "crash": "kill -SEGV $$",
    "killed": "kill -KILL $$",
    "eat": "head -c 4G /dev/zero | tail",
    "slow": "sleep 600",
    "fill": "exec head -c 64M /dev/zero > large",
    "again": "exit 75",
    "good": "echo fine",
}


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grid]:
    root = tmp_path_factory.mktemp("grid")
    for name, text in PROGRAMS.items():
        write_program(root / "exec", name, text)
    (root / "exec" / "plain").write_text("#!/bin/sh\n")
    with Fleet(root) as fleet:
        fleet.start_members(free_ports(1))
        grid = Grid(fleet)
        grid.run("settings", "set", "worker_grace_ms=300", "retry_base_ms=50")
        limits = ("--memory", "96M", "--disk", "24M")
        fleet.start_worker("w1", "--exec-dir", str(root / "exec"), "--cpu-cap", "1", *limits)
        yield grid


def explained(grid: Grid, job: str, code: str) -> dict[str, Any]:
    """What is told of a job once this is the reason."""

    def told() -> dict[str, Any] | None:
        document: dict[str, Any] = grid.json("explain", job)
        return document if document["code"] == code else None

    document: dict[str, Any] = grid.until(told)
    assert document["id"] == job
    for command in document["todo"]:
        parse(command)
    return document


@pytest.mark.parametrize(
    ("program", "options", "code", "words"),
    [
        ("code", (), "exit_code", ("exit code 3 on worker w1", ": no row 7")),
        ("crash", (), "signal", ("SIGSEGV (11) ended its program on worker w1",)),
        ("killed", (), "signal", ("SIGKILL (9)", "no limit of the grid did")),
        ("eat", (), "oom", ("memory limit of 96 MiB",)),
        ("slow", ("--run-limit", "0.2"), "time_limit", ("run limit of 0.2 s exceeded",)),
        ("fill", (), "disk_limit", ("disk limit of 24 MiB",)),
    ],
    ids=["exit code", "signal", "killed", "memory", "time", "disk"],
)
def test_why_it_failed(
    grid: Grid, program: str, options: tuple[str, ...], code: str, words: tuple[str, ...]
) -> None:
    job = grid.run("submit", program, "7", *options).strip()
    told = explained(grid, job, code)
    assert told["state"] == "failed"
    for one in words:
        assert one in told["why"]
    says_why = code in ("exit_code", "oom")  # the others write nothing to stderr
    assert told["todo"] == [f"rollq logs {job}" + " --stderr" * says_why]


def test_attempts_are_told_with_what_became_of_each(grid: Grid) -> None:
    job = grid.run("submit", "again", "--retry-exit-code", "75", "--max-attempts", "2").strip()
    told = explained(grid, job, "exit_code")
    assert told["state"] == "dead"
    assert "all of its attempts are used: 2 of 2" in told["why"]
    assert [(one["attempt"], one["worker"]) for one in told["attempts"]] == [(1, "w1"), (2, "w1")]
    assert told["todo"][-1] == f"rollq dlq redrive {job}"
    shown = grid.run("explain", job)
    assert shown.startswith("dead (exit_code): its program ended with exit code 75 on worker w1")
    assert "\nwhat may help:\n  rollq logs " in shown


def test_what_runs_and_what_went_well(grid: Grid) -> None:
    done = grid.json("submit", "good", "--wait")["id"]
    assert "ended well on worker w1" in explained(grid, done, "ok")["why"]
    job = grid.run("submit", "slow").strip()
    assert "it is running on worker w1" in explained(grid, job, "running")["why"]
    grid.run("cancel", job)
    assert "while it ran on worker w1" in explained(grid, job, "cancelled_by")["why"]


def test_why_it_waits(grid: Grid) -> None:
    assert "not executable: plain" in grid.fleet.log_of("w1")
    plain = grid.run("submit", "plain").strip()
    rights, worker = explained(grid, plain, "program_missing")["todo"]
    assert rights == "chmod +x plain"
    assert worker.endswith(" plain --app MODULE")
    grid.run("queue", "pause", "held")
    held = grid.run("submit", "good", "--queue", "held").strip()
    assert explained(grid, held, "paused")["todo"] == ["rollq queue resume held"]
    named = grid.run("submit", "good", "--worker", "w9").strip()
    told = explained(grid, named, "no_worker")
    host, _, port = grid.fleet.addresses[0].rpartition(":")
    assert told["todo"] == [f"rollq worker {host} {port} good --name w9"]
    array = grid.run("submit", "slow", "--array", "9", "--running-max", "1").strip()
    told = explained(grid, array, "array_limit")
    assert [(one["count"], one["code"]) for one in told["groups"]] == [
        (8, "array_limit"),
        (1, "running"),
    ]
    grid.run("cancel", plain, held, named, array)


def test_no_slot_is_left(grid: Grid) -> None:
    running = [grid.run("submit", "slow").strip() for _ in range(4)]
    for one in running:
        explained(grid, one, "running")
    job = grid.run("submit", "good").strip()
    told = explained(grid, job, "no_slot")
    assert "the only worker for queue good has no free slot; jobs there now: 4 (w1)" in told["why"]
    grid.run("cancel", *running)
    explained(grid, job, "ok")


def test_a_worker_that_is_killed(grid: Grid) -> None:
    grid.fleet.start_worker("w2", "--exec-dir", str(grid.fleet.root / "exec"), "--cpu-cap", "1")
    asked = ("--worker", "w2", "--max-attempts", "1")
    job = grid.run("submit", "slow", *asked).strip()
    explained(grid, job, "running")
    grid.run("settings", "set", "worker_grace_ms=3000")
    grid.fleet.kill("w2")
    assert "worker w2 is not connected" in explained(grid, job, "lease")["why"]
    told = explained(grid, job, "worker_lost")
    assert told["state"] == "dead"
    assert "its worker is gone" in told["why"]
    assert told["todo"] == [f"rollq dlq redrive {job}"]


def test_an_input_that_is_gone(grid: Grid, tmp_path: Path) -> None:
    content = tmp_path / "input"
    content.write_bytes(bytes(range(256)) * 20_000)  # too large to be in the request
    asked = ("--worker", "w3", "--max-attempts", "1", "--file", f"in={content}")
    job = grid.run("submit", "good", *asked).strip()
    explained(grid, job, "no_worker")
    state = grid.fleet.state_of(grid.fleet.addresses[0])
    for folder in state.rglob("blobs"):
        for one in folder.rglob("*"):
            if one.is_file() and one.stat().st_size >= content.stat().st_size:
                one.unlink()
    grid.fleet.start_worker("w3", "--exec-dir", str(grid.fleet.root / "exec"), "--cpu-cap", "1")
    told = explained(grid, job, "input_missing")
    assert told["state"] == "dead"
    assert "its worker could not run it: blob_missing (217)" in told["why"]
    assert told["todo"] == [f"rollq dlq redrive {job}"]

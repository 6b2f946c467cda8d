"""Snakemake itself, with a member and a worker: `make connectors`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rollq.local_grid import LocalGrid
from tests.connectors.kit import RUN_S, jobs_of, read_line
from tests.integration.console import run_page

pytest.importorskip("snakemake", reason="make connectors runs these where Snakemake is")

PAGE = Path(__file__).parents[2] / "docs/connectors/snakemake.md"
SNAKEMAKE = Path(sys.executable).with_name("snakemake")
NOBODY = "127.0.0.1:1"

WORKFLOW = """
rule total:
    input: "counts/a.txt", "counts/b.txt"
    output: "total.txt"
    shell: "cat {input} > {output}"

rule count:
    input: "upper/{name}.txt"
    output: "counts/{name}.txt"
    shell: "wc -w < {input} > {output}"

rule upper:
    input: "{name}.txt"
    output: "upper/{name}.txt"
    resources: mem_mb=1, runtime=1
    shell: "tr a-z A-Z < {input} > {output}"
"""

FAILS = """
rule bad:
    output: "never.txt"
    shell: "echo out of luck >&2; exit 3"
"""

FAILS_ONCE = """
rule shy:
    output: "late.txt"
    resources: attempt=lambda wildcards, attempt: attempt
    shell: "test {resources.attempt} = 2 && touch {output}"
"""

WAITS = """
rule slow:
    output: "slow.txt"
    shell: "echo started > begun; cat ended > {output}"
"""


@pytest.fixture
def grid(tmp_path: Path) -> Iterator[LocalGrid]:
    """One whose worker has a shell."""
    with LocalGrid(tmp_path / "grid") as grid:
        grid.add_program("sh", '#!/bin/sh\nexec sh "$@"\n')
        yield grid


def test_the_page_is_true(tmp_path: Path) -> None:
    run_page(PAGE.read_text(encoding="utf-8"), tmp_path, command_s=RUN_S)


def test_a_workflow_makes_the_files_that_it_makes_without_a_grid(
    grid: LocalGrid, tmp_path: Path
) -> None:
    here, there = folder(tmp_path / "here", WORKFLOW), folder(tmp_path / "there", WORKFLOW)
    run(["--cores", "1"], here)
    run(in_grid(grid), there)
    assert contents(there) == contents(here)
    assert contents(there)["total.txt"] == b"2\n1\n"
    assert [(one["exec"], one["state"]) for one in jobs_of(grid)] == [("sh", "ok")] * 5
    assert len(list((there / ".snakemake/rollq_logs").glob("*/*.log"))) == 5


def test_a_job_that_fails_tells_its_code_and_its_last_words(
    grid: LocalGrid, tmp_path: Path
) -> None:
    place = folder(tmp_path / "bad", FAILS)
    said = run(in_grid(grid), place, code=1)
    assert "failed: exit code 1" in said
    assert "out of luck" in said
    assert "non-zero exit status 3" in said
    (log,) = (place / ".snakemake/rollq_logs/bad").glob("*.log")
    assert "out of luck" in log.read_text(encoding="utf-8")
    assert str(log.relative_to(place)) in said


def test_what_snakemake_tries_again_is_a_new_job(grid: LocalGrid, tmp_path: Path) -> None:
    place = folder(tmp_path / "shy", FAILS_ONCE)
    run([*in_grid(grid), "--retries", "1"], place)
    assert (place / "late.txt").exists()
    assert [one["state"] for one in jobs_of(grid)] == ["failed", "ok"]


def test_a_leader_that_restarts_is_not_noticed(grid: LocalGrid, tmp_path: Path) -> None:
    place = folder(tmp_path / "slow", WAITS)
    with started(in_grid(grid), place) as process:
        read_line(place / "begun")
        grid.stop_member()
        grid.start_member()
        (place / "ended").write_text("late\n")
        said, _ = process.communicate(timeout=RUN_S)
    assert process.returncode == 0, said
    assert (place / "slow.txt").read_text() == "late\n"


def test_whoever_interrupts_snakemake_cancels_its_jobs(grid: LocalGrid, tmp_path: Path) -> None:
    place = folder(tmp_path / "slow", WAITS)
    with started(in_grid(grid), place) as process:
        read_line(place / "begun")
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=RUN_S)
    assert process.returncode == 1, said
    assert [one["state"] for one in jobs_of(grid)] == ["cancelled"]


def test_a_grid_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    place = folder(tmp_path / "bad", FAILS)
    nobody = ["--rollq-address", NOBODY, "--rollq-timeout", "0.1"]
    said = run(["--executor", "rollq", *nobody, "--jobs", "1"], place, code=1)
    assert f"nothing listens at {NOBODY}" in said
    said = run(["--executor", "rollq", "--jobs", "1"], place, code=1)
    assert "no grid is configured" in said


def folder(place: Path, workflow: str) -> Path:
    """A folder with a workflow, two texts, and two pipes for tests to wait at."""
    place.mkdir()
    (place / "Snakefile").write_text(workflow)
    (place / "a.txt").write_text("one two\n")
    (place / "b.txt").write_text("three\n")
    os.mkfifo(place / "begun")
    os.mkfifo(place / "ended")
    return place


def in_grid(grid: LocalGrid) -> list[str]:
    return ["--executor", "rollq", "--rollq-address", grid.address, "--jobs", "4"]


def run(args: list[str], place: Path, code: int = 0) -> str:
    """Snakemake to its end; what it says."""
    with started(args, place) as process:
        said, _ = process.communicate(timeout=RUN_S)
    assert process.returncode == code, said
    return said


def started(args: list[str], place: Path) -> subprocess.Popen[str]:
    env = {name: text for name, text in os.environ.items() if name != "ROLLQ_SERVERS"}
    return subprocess.Popen(
        [SNAKEMAKE, *args],
        cwd=place,
        env=env | {"XDG_CACHE_HOME": str(place.parent / "cache")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def contents(place: Path) -> dict[str, bytes]:
    """All files of a workflow, but Snakemake's own."""
    return {
        name: path.read_bytes()
        for path in place.rglob("*")
        if path.is_file() and not (name := str(path.relative_to(place))).startswith(".")
    }

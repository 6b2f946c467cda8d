"""`grid_map` brings back all that programs wrote, or says that it does not."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rollq.spark.grid.task import GridTask
from tests.integration.small_grid import SmallGrid
from tests.unit.spark.plans import PLAN

LONG = 5_000_000


@pytest.fixture
def grid(tmp_path: Path) -> Iterator[SmallGrid]:
    with SmallGrid(tmp_path) as started:
        program = tmp_path / "exec" / "calc"
        program.write_text('#!/bin/sh\nhead -c "$1" /dev/zero | tr "\\\\0" x\necho end >&2\n')
        program.chmod(0o755)
        yield started


def told(grid: SmallGrid, sizes: list[int], **fields: Any) -> list[dict[str, Any]]:
    """What a task makes of rows: each a program that writes so many bytes."""
    plan = dataclasses.replace(PLAN, servers=grid.address, timeout_s=30.0, **fields)
    args = pa.array([[str(size)] for size in sizes], pa.list_(pa.string()))
    rows = pa.RecordBatch.from_arrays([pa.array(sizes), args], names=["size", "_args"])
    made = [row for batch in GridTask(plan)(iter([rows])) for row in batch.to_pylist()]
    return sorted(made, key=lambda row: int(row["size"]))


def test_all_that_a_program_wrote_is_there(grid: SmallGrid) -> None:
    short, long = told(grid, [10, LONG])
    assert [row["error"] for row in (short, long)] == [None, None]
    assert short["stdout"] == "x" * 10
    assert long["stdout"] == "x" * LONG
    assert long["stderr"] == "end\n"
    flags = [(row["stdout_truncated"], row["stderr_truncated"]) for row in (short, long)]
    assert flags == [(False, False)] * 2


def test_what_is_beyond_the_limit_is_cut_and_says_so(grid: SmallGrid) -> None:
    short, long = told(grid, [10, LONG], stream_limit=1_000_000)
    assert (short["stdout_truncated"], long["stdout_truncated"]) == (False, True)
    assert 0 < len(long["stdout"]) < LONG
    assert set(long["stdout"]) == {"x"}
    assert long["value"] is None
    assert long["status"] == "OK"

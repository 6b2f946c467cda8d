"""The benchmark of `grid_map`: what it asks for, and what it says."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from bench.gridmap import parse, report


def test_quick_is_small_and_once() -> None:
    options = parse(["--quick", "--rows", "100000"])
    assert (options.rows, options.execs, options.runs) == (2_000, 200, 1)
    assert parse(["--rows", "7"]).rows == 7


def test_targets_come_first_and_a_missed_one_is_named() -> None:
    told = StringIO()
    figures = {"function_rows_per_s": 6_000.0, "true_vs_worker": 0.5, "worker_true_per_s": 900.0}
    report(figures, Console(file=told, width=120))
    lines = told.getvalue().splitlines()
    rows = {line.split("│")[1].strip(): line for line in lines if "│" in line}
    assert "yes" in rows["grid_map, a Python function: rows/s"]
    assert "NO" in rows["grid_map, /bin/true: × the worker's own rate"]
    assert lines[-1].split() == ["worker_true_per_s", "900"]

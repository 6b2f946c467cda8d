"""Rows of a DataFrame through the grid: `python -m bench.gridmap [--rows N] [--execs N] [--quick]`.

One member, one worker of two slots and Spark with two, all on this machine. What a program is
compared with is measured in the same run, by turns: the same program on the same worker, submitted
by the client library as `python -m bench --only execs` does it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console

from bench.figures import number
from bench.frame import paper, workplace
from bench.peers.rollq import AHEAD, Rollq
from bench.procs import OUR_TREE
from bench.targets import Target, show_targets
from rollq.spark import grid_map, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

console = Console(stderr=True)
SLOTS: Final = 2
WARM_ROWS: Final = 2_000

TARGETS: Final = (
    Target("function_rows_per_s", "grid_map, a Python function: rows/s", at_least=5_000),
    Target("true_vs_worker", "grid_map, /bin/true: × the worker's own rate", at_least=0.7),
)


def main() -> int:
    """Measure and report; 1 if a target is missed, unless it was quick."""
    options = parse(sys.argv[1:])
    os.environ.update(OUR_TREE)  # for the processes of Spark
    figures: dict[str, float] = {}
    with workplace(options.dir) as folder:
        spark = session(f"local[{SLOTS}]", **{"spark.driver.memory": "1g"})
        spark.range(SLOTS, numPartitions=SLOTS).mapInArrow(lambda rows: rows, "id long").count()
        figures |= measure_functions(spark, folder / "functions", options)
        figures |= measure_programs(spark, folder / "programs", options)
        spark.stop()
    report(figures, paper())
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    is_missed = any(one.is_met(figures.get(one.key)) is False for one in TARGETS)
    return int(is_missed and not options.quick)


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.gridmap", description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000, help="for functions (100000)")
    parser.add_argument("--execs", type=int, default=6_000, help="rows for a program (6000)")
    parser.add_argument("--runs", type=int, default=3, help="how often; the median counts (3)")
    parser.add_argument("--quick", action="store_true", help="small and once, to see that it runs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures")
    parser.add_argument("--dir", default=tempfile.gettempdir(), help="where everything is kept")
    options = parser.parse_args(arguments)
    if options.quick:
        options.rows, options.execs, options.runs = 2_000, 200, 1
    return options


def measure_functions(
    spark: SparkSession, folder: Path, options: argparse.Namespace
) -> dict[str, float]:
    """Functions in warm processes and in the worker's loop, and rows that were run before."""
    grid = Rollq("r1")
    grid.start(folder)
    grid.start_worker("functions", "job.assign.>", slots=SLOTS, ahead=AHEAD)
    rates: dict[str, list[float]] = {}
    try:
        rows_per_s(spark, grid, WARM_ROWS, exec="square", args=["id"])
        for run in range(options.runs):
            plain = {"exec": "square", "args": ["id"]}
            keyed = plain | {"job_key": "id", "client_id": f"keys-{run}"}
            for name, asked in (
                ("function_rows_per_s", plain),
                ("coroutine_rows_per_s", {"exec": "noop", "payload": "id"}),
                ("keyed_rows_per_s", keyed),
                ("resumed_rows_per_s", keyed),
            ):
                rate = rows_per_s(spark, grid, options.rows, **asked)
                rates.setdefault(name, []).append(rate)
                console.print(f"{time.strftime('%H:%M:%S')} {name} {number(rate)}", highlight=False)
    finally:
        grid.stop()
    return {name: statistics.median(found) for name, found in rates.items()}


def measure_programs(
    spark: SparkSession, folder: Path, options: argparse.Namespace
) -> dict[str, float]:
    """/bin/true, by the client library and by `grid_map` in turns."""
    grid = Rollq("r1")
    grid.start(folder)
    own: list[float] = []
    mapped: list[float] = []
    try:
        grid.run_true(options.execs // 10)
        rows_per_s(spark, grid, options.execs // 10, exec="true")
        for _ in range(options.runs):
            own.append(grid.run_true(options.execs))
            mapped.append(rows_per_s(spark, grid, options.execs, exec="true"))
            said = f"true: the worker {number(own[-1])}, grid_map {number(mapped[-1])}"
            console.print(f"{time.strftime('%H:%M:%S')} {said}", highlight=False)
    finally:
        grid.stop()
    ratios = [one / other for one, other in zip(mapped, own, strict=True)]
    return {
        "worker_true_per_s": statistics.median(own),
        "true_rows_per_s": statistics.median(mapped),
        "true_vs_worker": statistics.median(ratios),
    }


def rows_per_s(spark: SparkSession, grid: Rollq, count: int, **asked: Any) -> float:
    """From the query to its answer, which needs every row."""
    rows = grid_map(spark.range(count, numPartitions=SLOTS), servers=grid.servers, **asked)
    started = time.perf_counter()
    ends = rows.groupBy("status").count().collect()
    took_s = time.perf_counter() - started
    if [tuple(row) for row in ends] != [("OK", count)]:
        raise RuntimeError(f"not all went well: {ends}")
    return count / took_s


def report(figures: dict[str, float], to: Console) -> None:
    """Targets, then every other figure."""
    show_targets(TARGETS, figures, to)


if __name__ == "__main__":
    sys.exit(main())

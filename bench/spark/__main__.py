"""rollq under Spark: `python -m bench.spark [--events N] [--jobs N] [--only …] [--quick]`.

One member and Spark with two slots, all on this machine. What reading is compared with is read in
the same run, by turns: the same rows from Parquet, and the latency of jobs while nothing is read.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession
from rich.console import Console

from bench.figures import number
from bench.frame import paper, workplace
from bench.procs import OUR_TREE
from bench.spark.large import measure_large
from bench.spark.read import measure_read
from bench.spark.write import measure_crashes, measure_write
from bench.targets import Target, show_targets
from rollq.spark import session

console = Console(stderr=True)
TRIES: Final = 4  # a task that fails is tried again, as on a cluster

TARGETS: Final = (
    Target("read_rows_per_s", "events read from a live member: rows/s", at_least=900_000),
    Target("read_vs_parquet", "the same rows from Parquet: × its time", at_most=2.5),
    Target("read_p99_vs_idle", "submit to assign meanwhile, p99: × idle", at_most=2),
    Target("write_accepted_per_s", "a DataFrame as jobs: accepted/s", at_least=50_000),
    Target("write_entries_each", "entries of the log that accept them", at_most=1),
    Target("write_wrong_jobs", "missing or twice", at_most=0),
    Target("retry_wrong_jobs", "a task fails once: missing or twice", at_most=0),
    Target("failover_wrong_jobs", "the leader is killed: missing or twice", at_most=0),
    Target("driver_wrong_jobs", "the driver dies before its commit: missing or twice", at_most=0),
    Target("large_accepted_per_s", "a DataFrame of many batches: accepted/s", at_least=100_000),
    Target("large_wrong_jobs", "missing or twice", at_most=0),
    Target("micro_batch_accepted_per_s", "a large micro-batch: accepted/s", at_least=100_000),
    Target("micro_batch_wrong_jobs", "missing or twice", at_most=0),
    Target("half_way_wrong_jobs", "the driver dies between batches: missing or twice", at_most=0),
)


def main() -> int:
    """Measure and report; 1 if something failed or a target is missed, unless it was quick."""
    options = parse(sys.argv[1:])
    os.environ.update(OUR_TREE)  # for the processes of Spark
    figures: dict[str, float] = {}
    failures: list[str] = []
    with workplace(options.dir) as folder:
        with on_processors(options.processors):
            spark = session(
                f"local[{options.slots},{TRIES}]", **{"spark.driver.memory": options.memory}
            )
        for name in options.only:
            work = partial(WORKS[name], spark, folder / name, options)
            failures.append(measure(work, name, figures))
        spark.stop()
    show_targets(TARGETS, figures, paper())
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    is_missed = any(one.is_met(figures.get(one.key)) is False for one in TARGETS)
    return int(any(failures) or (is_missed and not options.quick))


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark", description=__doc__)
    parser.add_argument("--events", type=int, default=5_000_000, help="to read (5000000)")
    parser.add_argument("--jobs", type=int, default=200_000, help="to write (200000)")
    parser.add_argument("--large", type=int, default=5_000_000, help="to write (5000000)")
    parser.add_argument(
        "--micro-batch", type=int, default=3_000_000, help="to write by a stream (3000000)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="how often; the median counts (3)")
    parser.add_argument("--idle", type=float, default=10.0, help="seconds without reading (10)")
    parser.add_argument("--slots", type=int, default=2, help="tasks of Spark at once (2)")
    parser.add_argument(
        "--processors", default="", help="that Spark may use, 1,2,3: others are left to the grid"
    )
    parser.add_argument("--memory", default="2g", help="of Spark's driver (2g)")
    parser.add_argument("--only", default=",".join(WORKS), help=f"some of {','.join(WORKS)}")
    parser.add_argument("--quick", action="store_true", help="small and once, to see that it runs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures")
    parser.add_argument("--dir", default=tempfile.gettempdir(), help="where everything is kept")
    options = parser.parse_args(arguments)
    options.only = [name for name in options.only.split(",") if name]
    for name in options.only:
        if name not in WORKS:
            parser.error(f"no work {name!r}; there are {', '.join(WORKS)}")
    if options.quick:
        options.events, options.jobs, options.rounds, options.idle = 50_000, 4_000, 1, 1.0
        options.large = options.micro_batch = 4_000
    return options


@contextmanager
def on_processors(numbers: str) -> Iterator[None]:
    """Processes that are started meanwhile stay on these."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {int(number) for number in numbers.split(",")} if numbers else before)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def measure(work: Callable[[], dict[str, float]], name: str, figures: dict[str, float]) -> str:
    """Do one of the works; what went wrong, if anything did: the others are done all the same."""
    try:
        found = work()
    except Exception as error:  # whatever it is, it is told
        console.print(f"failed: {name}: {error}", style="red", markup=False)
        return str(error)
    figures |= found
    shown = ", ".join(f"{key} {number(value)}" for key, value in found.items())
    console.print(f"{time.strftime('%H:%M:%S')} {name}: {shown}", highlight=False)
    return ""


def read(spark: SparkSession, folder: Path, options: argparse.Namespace) -> dict[str, float]:
    """Events from a live member."""
    return measure_read(spark, folder, options.events, options.rounds, options.idle)


def write(spark: SparkSession, folder: Path, options: argparse.Namespace) -> dict[str, float]:
    """A DataFrame as jobs."""
    return measure_write(spark, folder, options.jobs, options.rounds)


def crashes(spark: SparkSession, folder: Path, options: argparse.Namespace) -> dict[str, float]:
    """The same while things fail."""
    return measure_crashes(spark, folder, options.jobs)


def large(spark: SparkSession, folder: Path, options: argparse.Namespace) -> dict[str, float]:
    """Writes of many batches."""
    return measure_large(spark, folder, options.large, options.micro_batch)


WORKS: Final[dict[str, Callable[[SparkSession, Path, argparse.Namespace], dict[str, float]]]] = {
    "read": read,
    "write": write,
    "crashes": crashes,
    "large": large,
}


if __name__ == "__main__":
    sys.exit(main())

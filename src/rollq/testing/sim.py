"""`python -m rollq.testing.sim`: run many seeds, print figures, stop at the first violation.

python -m rollq.testing.sim --seeds 300 --start 0 --jobs 2
python -m rollq.testing.sim --seed 17 --trace
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from time import perf_counter
from typing import Final

from rollq.testing.checkers.base import Violation
from rollq.testing.cluster import RunReport, SimCluster
from rollq.testing.jitter import Streams
from rollq.testing.swarm import Swarm, draw_swarm

TRACE_LINES: Final = 200
SEEDS_PER_TASK: Final = 10
SEEDS_PER_LINE: Final = 500
HOUR_US: Final = 3_600_000_000


@dataclass(slots=True)
class Outcome:
    """The outcome of one seed; `failure` is empty if it passed, `law` if an exception ended it."""

    seed: int
    report: RunReport
    failure: str = ""
    law: str = ""  # the checker whose law was broken
    trace: list[str] = field(default_factory=list)


def run_seed(seed: int, swarm: Swarm | None = None, *, live_trace: bool = False) -> Outcome:
    """Run one seed. An exception of the product is a failure too."""
    cluster = SimCluster(seed, swarm or draw_swarm(Streams(seed).swarm), live_trace=live_trace)
    try:
        return Outcome(seed, cluster.run())
    except Violation as violation:
        failure, law = str(violation), violation.checker
    except Exception as error:  # any exception of the product is a failure
        failure, law = f"{type(error).__name__}: {error}\n{traceback.format_exc()}", ""
    return Outcome(seed, RunReport(), failure, law, cluster.trace.lines(TRACE_LINES))


def run_many(seeds: list[int]) -> list[Outcome]:
    """Run some seeds; one task of a worker process."""
    return [run_seed(seed) for seed in seeds]


def outcomes(first: int, count: int, jobs: int) -> Iterator[Outcome]:
    """Run a range of seeds; outcomes in order."""
    tasks = [
        list(range(start, min(start + SEEDS_PER_TASK, first + count)))
        for start in range(first, first + count, SEEDS_PER_TASK)
    ]
    if jobs <= 1:
        for task in tasks:
            for seed in task:
                yield run_seed(seed)
        return
    with ProcessPoolExecutor(jobs) as pool:
        for done in pool.map(run_many, tasks):
            yield from done


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m rollq.testing.sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--seed", type=int, help="this one only")
    parser.add_argument("--trace", action="store_true", help="print everything that happens")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at a violation")
    options = parser.parse_args(arguments)
    began = perf_counter()
    if options.seed is not None:
        return print_figures([run_seed(options.seed, live_trace=options.trace)], began, trace=True)
    done: list[Outcome] = []
    for outcome in outcomes(options.start, options.seeds, options.jobs):
        done.append(outcome)
        if len(done) % SEEDS_PER_LINE == 0:
            print_progress(done, options.seeds, perf_counter() - began)
        if outcome.failure:
            print_failure(outcome, trace=not options.keep_going)
            if not options.keep_going:
                break
    return print_figures(done, began, trace=False)


def print_progress(done: list[Outcome], count: int, seconds: float) -> None:
    """Progress of a long run, on stderr."""
    failed = sum(1 for outcome in done if outcome.failure)
    left_s = seconds / len(done) * (count - len(done))
    text = f"{len(done)} of {count} seeds, {failed} violations, about {left_s:.0f} s to go"
    print(text, file=sys.stderr, flush=True)


def print_figures(done: list[Outcome], began: float, *, trace: bool) -> int:
    """Print the figures; returns the exit code."""
    failed = [outcome for outcome in done if outcome.failure]
    if trace:
        for outcome in failed:
            print_failure(outcome, trace=True)
    faults: Counter[str] = Counter()
    for outcome in done:
        faults.update(outcome.report.faults)
    reports = [outcome.report for outcome in done]
    hours = sum(report.virtual_us for report in reports) / HOUR_US
    print(f"seeds run          {len(done)}")
    print(f"violations         {len(failed)}")
    print(f"virtual hours      {hours:.2f}")
    print(f"events             {sum(report.event_count for report in reports)}")
    print(f"entries committed  {sum(report.entry_count for report in reports)}")
    print(f"terms with leader  {sum(report.term_count for report in reports)}")
    print(f"jobs accepted      {sum(report.accepted_count for report in reports)}")
    print(f"jobs ended         {sum(report.ended_count for report in reports)}")
    print(f"results delivered  {sum(report.result_count for report in reports)}")
    print(f"reads checked      {sum(report.read_count for report in reports)}")
    print(f"schedules fired    {sum(report.fired_count for report in reports)}")
    print(f"faults injected    {sum(faults.values())}")
    for kind, count in sorted(faults.items()):
        print(f"  {kind:<28} {count}")
    print(f"wall seconds       {perf_counter() - began:.1f}")
    if failed:
        print("failed seeds       " + " ".join(str(outcome.seed) for outcome in failed))
    return 1 if failed else 0


def print_failure(outcome: Outcome, *, trace: bool) -> None:
    """Print the trace, the failure, and the command to replay it."""
    if trace:
        print("\n".join(outcome.trace))
    print(f"seed {outcome.seed} failed: {outcome.failure}")
    print(f"replay: python -m rollq.testing.sim --seed {outcome.seed} --trace")


if __name__ == "__main__":
    sys.exit(main())

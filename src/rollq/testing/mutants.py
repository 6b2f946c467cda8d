"""`python -m rollq.testing.mutants`: deliberate bugs, each of which the simulator must find.

A mutant replaces a function of the product at run time, in this process only; the product has no
switches for it. It may narrow the swarm so that the bug shows sooner, but runs the ordinary
workload under the ordinary checkers. A seed kills a mutant only if a law is broken with it, and the
seed passes without it: a mutant that raises is a mutant that fits the product no more.

    python -m rollq.testing.mutants --seeds 1000 --jobs 2
    python -m rollq.testing.mutants --only ack_before_fsync
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Final

from rollq.testing.bugs import (
    client,
    clocks,
    consensus,
    flows,
    grid,
    leader,
    limits,
    needs,
    schedules,
    silence,
    storage,
    worker,
)
from rollq.testing.bugs.registry import MUTANTS, applied_mutant
from rollq.testing.jitter import Streams
from rollq.testing.sim import run_seed
from rollq.testing.swarm import draw_swarm

# importing a module registers its mutants
MODULES: Final = (
    *(consensus, storage, grid, flows, schedules, leader, limits, needs, silence, clocks),
    *(worker, client),
)


@dataclass(slots=True, frozen=True)
class Hunt:
    """The result for one mutant; `seed` -1: it was not killed."""

    name: str
    seed: int
    violation: str
    seconds: float


def hunt(name: str, seeds: int, start: int = 0) -> Hunt:
    """Run seeds until one kills the mutant."""
    mutant = MUTANTS[name]
    began = perf_counter()
    for seed in range(start, start + seeds):
        swarm = draw_swarm(Streams(seed).swarm, **mutant.overrides)
        with applied_mutant(mutant):
            outcome = run_seed(seed, swarm)
        if outcome.failure and not outcome.law:
            return Hunt(name, -1, outcome.failure.splitlines()[0], perf_counter() - began)
        if outcome.law and not run_seed(seed, swarm).failure:
            return Hunt(name, seed, outcome.failure.splitlines()[0], perf_counter() - began)
    return Hunt(name, -1, "", perf_counter() - began)


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m rollq.testing.mutants", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many seeds a mutant has")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--only", action="append", choices=sorted(MUTANTS), help="this one")
    options = parser.parse_args(arguments)
    names = options.only or list(MUTANTS)
    killed = 0
    search = partial(hunt, seeds=options.seeds, start=options.start)
    with ProcessPoolExecutor(options.jobs) as pool:
        for found in pool.map(search, names):
            verdict = f"seed {found.seed}" if found.seed >= 0 else "NOT KILLED"
            killed += found.seed >= 0
            print(f"{found.name:<32} {verdict:<12} {found.seconds:6.1f} s  {found.violation[:150]}")
            sys.stdout.flush()
    print(f"{killed} of {len(names)} mutants killed")
    return 0 if killed == len(names) else 1


if __name__ == "__main__":
    sys.exit(main())

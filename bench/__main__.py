"""rollq beside its peers: `python -m bench [--json FILE] [--plot FILE] [--only …] [--quick]`.

Every peer and rollq run here on loopback, in one run, by turns, so that a ratio compares figures
of the same minutes. A peer that is not installed is skipped and the table says how to get it.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

import psutil  # type: ignore[import-untyped]
from rich.console import Console

from bench.case import run_case
from bench.figures import Figures, Outcome, number
from bench.plot import write_plot
from bench.procs import adopt_orphans, end_politely
from bench.report import print_report, write_json
from bench.works import FULL, QUICK
from bench.works.all import WORKS

console = Console(stderr=True)


def main() -> int:
    """Measure, report; 1 if a case failed (a skipped one did not)."""
    options = parse(sys.argv[1:])
    warn_of_memory_disk(options.dir)
    adopt_orphans()
    end_politely()
    outcomes = measure(options)
    figures = Figures(outcomes)
    print_report(figures, Console())
    if options.json is not None:
        write_json(figures, options.json, is_quick=options.quick)
    if options.plot is not None:
        write_plot(figures, options.plot)
    return int(any(outcome.failure for outcome in outcomes))


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures and ratios")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write bars as SVG")
    parser.add_argument("--only", default=",".join(WORKS), help=f"works: {','.join(WORKS)}")
    parser.add_argument(
        "--peers", default="", help="only peers whose name:mode starts so, by commas"
    )
    parser.add_argument(
        "--quick", action="store_true", help="once and briefly, to see that it runs"
    )
    parser.add_argument("--runs", type=int, default=0, help="how often each case is repeated")
    parser.add_argument(
        "--dir", default=tempfile.gettempdir(), help="where servers keep their data"
    )
    options = parser.parse_args(arguments)
    options.only = [name for name in options.only.split(",") if name]
    for name in options.only:
        if name not in WORKS:
            parser.error(f"no work {name!r}; there are {', '.join(WORKS)}")
    options.peers = tuple(peer for peer in options.peers.split(",") if peer)
    options.runs = options.runs or (QUICK if options.quick else FULL).runs
    return options


def measure(options: argparse.Namespace) -> list[Outcome]:
    """Every case as often as asked, peers by turns; a skipped or failed one is not tried again."""
    outcomes: list[Outcome] = []
    given_up: set[tuple[str, str]] = set()
    for name in options.only:
        work = WORKS[name]
        for run in range(options.runs if work.repeats else 1):
            for peer in work.peers:
                wanted = not options.peers or peer.startswith(options.peers)
                if not wanted or (name, peer) in given_up:
                    continue
                outcome = in_folder(name, peer, options)
                outcomes.append(outcome)
                say(outcome, run)
                if outcome.skipped or outcome.failure:
                    given_up.add((name, peer))
    return outcomes


def in_folder(work: str, peer: str, options: argparse.Namespace) -> Outcome:
    """A case in a folder of its own, which is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="rollq-bench-", dir=options.dir))
    try:
        return run_case(work, peer, folder, options.quick)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def say(outcome: Outcome, run: int) -> None:
    """One line of progress."""
    what = f"{time.strftime('%H:%M:%S')} {outcome.work} {outcome.peer} run {run + 1}:"
    if outcome.skipped:
        console.print(what, f"skipped, {outcome.skipped}", style="yellow", highlight=False)
    elif outcome.failure:
        console.print(what, f"failed, {outcome.failure}", style="red", markup=False)
    else:
        shown = ", ".join(f"{one.figure} {number(one.value)}" for one in outcome.samples)
        console.print(what, shown, highlight=False)


def warn_of_memory_disk(folder: str) -> None:
    """fsync costs nothing on a disk in memory, so figures from there mean nothing."""
    at = Path(folder).resolve()
    mounts = [one for one in psutil.disk_partitions(all=True) if at.is_relative_to(one.mountpoint)]
    mount = max(mounts, key=lambda one: len(one.mountpoint), default=None)
    if mount is not None and mount.fstype in ("tmpfs", "ramfs"):
        console.print(f"{folder} is memory, not a disk: name another with --dir", style="red")


if __name__ == "__main__":
    sys.exit(main())

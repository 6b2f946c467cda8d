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
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from bench.case import run_case
from bench.figures import Figures, Outcome, number
from bench.frame import paper, prepare
from bench.loops import NAMES, UVLOOP
from bench.peers import make_peer
from bench.plot import write_plot
from bench.report import print_report, write_json
from bench.works import FULL, QUICK, Scale
from bench.works.all import WORKS

console = Console(stderr=True)
INTERRUPTED = 130
BUDGET_S = 75 * 60.0  # a further run is left out if it would end later


def main() -> int:
    """Measure, report; 1 if a case failed (a missing one did not), 130 if interrupted."""
    options = parse(sys.argv[1:])
    prepare(options.dir)
    say_missing(options)
    started = time.monotonic()
    outcomes: list[Outcome] = []
    is_interrupted = False
    try:
        measure(options, outcomes)
    except KeyboardInterrupt:
        is_interrupted = True
        console.print("interrupted: the report has what was measured until now", style="red")
    figures = Figures(outcomes)
    print_report(figures, paper())
    if options.json is not None:
        write_json(figures, options.json, is_quick=options.quick)
    if options.plot is not None:
        write_plot(figures, options.plot)
    console.print(f"took {time.monotonic() - started:.0f} s", highlight=False)
    return INTERRUPTED if is_interrupted else int(any(one.failure for one in outcomes))


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
    parser.add_argument(
        "--window", type=int, default=0, help="no-op jobs in flight in the work noop (256)"
    )
    parser.add_argument(
        "--seconds", type=float, default=0, help="how long a case of no-op jobs lasts (60)"
    )
    parser.add_argument(
        "--sustained", type=float, default=0, help="how long the work sustained lasts, s (120)"
    )
    parser.add_argument(
        "--loop", choices=NAMES, default=UVLOOP, help="of clients and peers' Python workers"
    )
    parser.add_argument("--runs", type=int, default=0, help="how often each case is repeated (3)")
    parser.add_argument(
        "--dir", default=tempfile.gettempdir(), help="where servers keep their data"
    )
    options = parser.parse_args(arguments)
    options.only = [name for name in options.only.split(",") if name]
    for name in options.only:
        if name not in WORKS:
            parser.error(f"no work {name!r}; there are {', '.join(WORKS)}")
    options.peers = tuple(peer for peer in options.peers.split(",") if peer)
    options.scale = scale_of(options)
    if not any(cases(options)):
        parser.error(f"no peer of these works starts with {' or '.join(options.peers)}")
    return options


def scale_of(options: argparse.Namespace) -> Scale:
    """How much is done, as the options say."""
    scale = QUICK if options.quick else FULL
    return replace(
        scale,
        runs=options.runs or scale.runs,
        window=options.window or scale.window,
        noop_s=options.seconds or scale.noop_s,
        sustained_s=options.sustained or scale.sustained_s,
        loop=options.loop,
    )


def cases(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Works and peers that are asked for."""
    for name in options.only:
        for peer in WORKS[name].peers:
            if not options.peers or peer.startswith(options.peers):
                yield name, peer


def say_missing(options: argparse.Namespace) -> None:
    """Which peers will be missing, and how to get them, before anything is measured."""
    for peer in dict.fromkeys(peer for _, peer in cases(options)):
        if why := make_peer(peer).available():
            console.print(f"missing: {peer}: {why}", style="yellow", highlight=False, markup=False)


def measure(options: argparse.Namespace, outcomes: list[Outcome]) -> None:
    """Every work once, then those that repeat again, as often as asked or as there is time for.

    Within a work peers take turns; a missing or failed one is not tried again in it.
    """
    began = time.monotonic()
    took_s = dict.fromkeys(options.only, 0.0)
    given_up: set[tuple[str, str]] = set()
    for run in range(options.scale.runs):
        for name in options.only:
            started = time.monotonic()
            is_late = not options.runs and started - began + took_s[name] > BUDGET_S
            if run and (is_late or not WORKS[name].repeats):
                continue
            for work, peer in cases(options):
                if work == name and (work, peer) not in given_up:
                    outcome = in_folder(work, peer, options)
                    outcomes.append(outcome)
                    say(outcome, run)
                    if outcome.skipped or outcome.failure:
                        given_up.add((work, peer))
            took_s[name] = time.monotonic() - started


def in_folder(work: str, peer: str, options: argparse.Namespace) -> Outcome:
    """A case in a folder of its own, which is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="rollq-bench-", dir=options.dir))
    try:
        return run_case(work, peer, folder, options.scale)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def say(outcome: Outcome, run: int) -> None:
    """One line of progress."""
    what = f"{time.strftime('%H:%M:%S')} {outcome.work} {outcome.peer} run {run + 1}:"
    if outcome.skipped:
        console.print(what, f"missing, {outcome.skipped}", style="yellow", markup=False)
    elif outcome.failure:
        console.print(what, f"failed, {outcome.failure}", style="red", markup=False)
    else:
        shown = ", ".join(f"{one.figure} {number(one.value)}" for one in outcome.samples)
        console.print(what, shown, highlight=False)


if __name__ == "__main__":
    sys.exit(main())

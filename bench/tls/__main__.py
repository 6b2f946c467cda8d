"""What TLS and access cost: `python -m bench.tls [--seconds N] [--rounds N] [--links N]`.

No-op jobs of 200 bytes through one member (or three) and one worker, with TLS and proved accounts
and without, in turns, so that whatever else the machine does meets both. Then a storm: one job
after the other is timed, alone and while so many links at once dial the member by TLS from another
process. Printed is Markdown.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Final

from bench import loops, machine
from bench.cpu import Meter
from bench.frame import workplace
from bench.peers.rollq import Rollq
from bench.procs import Process, python
from bench.tls.secured import SecuredRollq
from bench.tls.storm import BEGAN, DONE
from bench.works.noop import PAYLOAD, WARM_UP_S, WIDE_WINDOW

STORM_S_MAX: Final = 120.0


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.tls", description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each round (10)")
    parser.add_argument("--rounds", type=int, default=5, help="of each kind (5)")
    parser.add_argument("--members", type=int, choices=(1, 3), default=1, help="of the group (1)")
    parser.add_argument("--window", type=int, default=WIDE_WINDOW, help="jobs in flight (1024)")
    parser.add_argument("--links", type=int, default=2_000, help="of the storm; 0: none (2000)")
    parser.add_argument("--dir", default=tempfile.gettempdir(), help="where the state is kept")
    options = parser.parse_args()
    loops.choose(loops.UVLOOP)
    print(f"{machine.line()}\n")
    with workplace(options.dir) as folder:
        if options.rounds:
            _jobs(options, folder)
        if options.links:
            _storm(options, folder)
    return 0


def _jobs(options: argparse.Namespace, folder: Path) -> None:
    mode = "r3" if options.members == 3 else "r1"
    peers = {"off": Rollq(mode), "on": SecuredRollq(mode)}
    rates: dict[str, list[float]] = {name: [] for name in peers}
    costs: dict[str, list[float]] = {name: [] for name in peers}
    try:
        for name, peer in peers.items():
            peer.start(folder / name)
            peer.noop(PAYLOAD, options.window, WARM_UP_S)
        for _ in range(options.rounds):
            for name, peer in peers.items():
                meter = Meter(peer)
                before = meter.read()
                rate = peer.noop(PAYLOAD, options.window, options.seconds)
                used = meter.read().since(before)
                rates[name].append(rate.per_s)
                costs[name].append((used.server + used.worker + used.client) * 1e6 / rate.count)
    finally:
        for peer in peers.values():
            peer.stop()
    print("| TLS and access | jobs/s: median | all rounds | CPU µs a job: median |")
    print("|---|---|---|---|")
    for name in peers:
        told = " ".join(f"{one:,.0f}" for one in rates[name])
        median, cost = statistics.median(rates[name]), statistics.median(costs[name])
        print(f"| {name} | {median:,.0f} | {told} | {cost:.1f} |")
    ratio = statistics.median(rates["on"]) / statistics.median(rates["off"])
    print(f"\non/off: {ratio:.2f}\n")


def _storm(options: argparse.Namespace, folder: Path) -> None:
    peer = SecuredRollq("r1")
    try:
        peer.start(folder / "storm")
        peer.lone(PAYLOAD, WARM_UP_S)
        alone = peer.lone(PAYLOAD, options.seconds)
        storm = Process(
            python("bench.tls.storm", peer.leader(), str(peer.credentials), str(options.links)),
            folder / "storm.log",
        )
        storm.wait_for_text(BEGAN)
        within = peer.lone_until(PAYLOAD, lambda: DONE in storm.log.read_text(), STORM_S_MAX)
        words = storm.log.read_text().split(DONE)[1].split()
        after = peer.lone(PAYLOAD, options.seconds)
        storm.stop()
    finally:
        peer.stop()
    print("| a lone job | p50 ms | p99 ms | jobs |")
    print("|---|---|---|---|")
    for name, rate in (("alone", alone), ("in the storm", within), ("links open", after)):
        print(f"| {name} | {rate.ms(0.5):.2f} | {rate.ms(0.99):.2f} | {rate.count:,} |")
    print(
        f"\n{words[0]} links were welcomed within {words[1]} s, {words[2]} of them dialed again; "
        f"p99 in the storm: {within.ms(0.99) / alone.ms(0.99):.1f} times that before"
    )


if __name__ == "__main__":
    sys.exit(main())

"""What a router adds: `python -m bench.router [--seconds N] [--rounds N]`.

- `lone`: one no-op job after the other, each from its submit to its result, directly and through a
  router, by turns: the median and the 99th percentile of each, what the router adds, and the CPU
  time that it takes of a job.
- `rate`: no-op jobs with a wide window, by turns as well: jobs a second, and the CPU time that the
  router takes of a job.

One member, one worker, one router before that group: what is measured is the hop.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Final

import psutil

from bench import loops, machine
from bench.frame import workplace
from bench.peers.rollq import Rollq
from bench.procs import HOST, Process, free_ports, python
from bench.works.noop import PAYLOAD, WARM_UP_S, WIDE_WINDOW

ADDED_MS_MAX: Final = 0.3
DIRECT, ROUTED = "direct", "routed"


class RoutedRollq(Rollq):
    """The same group, by another address."""

    def __init__(self, direct: Rollq, address: str) -> None:
        super().__init__("r1")
        self._direct = direct
        self._address = address

    def serve_noop(self, workers: int) -> None:
        """The workers are those of the group."""
        self._direct.serve_noop(workers)

    @property
    def servers(self) -> str:
        """The router."""
        return self._address


def main() -> int:
    """Measure and print; 1 if the router adds too much."""
    parser = argparse.ArgumentParser(prog="python -m bench.router", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="of a slice (5)")
    parser.add_argument("--rounds", type=int, default=4, help="slices of each kind (4)")
    parser.add_argument("--dir", default=tempfile.gettempdir(), help="where the state is kept")
    options = parser.parse_args()
    print(machine.line())
    loops.choose(loops.UVLOOP)
    with workplace(options.dir) as folder:
        added_ms = measure(folder, options.seconds, options.rounds)
    return 0 if added_ms <= ADDED_MS_MAX else 1


def measure(folder: Path, seconds: float, rounds: int) -> float:
    """By turns; returns what the router adds to a job, in ms."""
    direct = Rollq("r1")
    direct.start(folder / "group")
    (port,) = free_ports(1)
    argv = python("rollq", "router", "--listen", f"{HOST}:{port}")
    router = Process([*argv, "--group", f"one={direct.servers}"], folder / "router.log")
    router.wait_for_port(port)
    peers = {DIRECT: direct, ROUTED: RoutedRollq(direct, f"{HOST}:{port}")}
    try:
        added_ms = measure_lone(peers, router, seconds, rounds)
        measure_rate(peers, router, seconds, rounds)
    finally:
        router.stop()
        direct.stop()
    return added_ms


def measure_lone(peers: dict[str, Rollq], router: Process, seconds: float, rounds: int) -> float:
    """One job after the other."""
    cpu_us: list[float] = []
    p50_ms: dict[str, list[float]] = {name: [] for name in peers}
    p99_ms: dict[str, list[float]] = {name: [] for name in peers}
    for peer in peers.values():
        peer.lone(PAYLOAD, WARM_UP_S)
    for _ in range(rounds):
        for name, peer in peers.items():
            before_s = cpu_s(router)
            rate = peer.lone(PAYLOAD, seconds)
            if name == ROUTED:
                cpu_us.append((cpu_s(router) - before_s) / rate.count * 1_000_000)
            p50_ms[name].append(rate.ms(0.5))
            p99_ms[name].append(rate.ms(0.99))
    for name in peers:
        print(f"lone {name}: p50 {median(p50_ms[name]):.3f} ms, p99 {median(p99_ms[name]):.3f} ms")
    print(f"lone: the router takes {median(cpu_us):.0f} µs of CPU time a job")
    added_ms = median(p50_ms[ROUTED]) - median(p50_ms[DIRECT])
    print(f"lone: the router adds {added_ms:.3f} ms at the median; at most {ADDED_MS_MAX} is meant")
    return added_ms


def measure_rate(peers: dict[str, Rollq], router: Process, seconds: float, rounds: int) -> None:
    """Many jobs at a time."""
    per_s: dict[str, list[float]] = {name: [] for name in peers}
    cpu_us: list[float] = []
    for _ in range(rounds):
        for name, peer in peers.items():
            before_s = cpu_s(router)
            rate = peer.noop(PAYLOAD, WIDE_WINDOW, seconds)
            per_s[name].append(rate.per_s)
            if name == ROUTED:
                cpu_us.append((cpu_s(router) - before_s) / rate.count * 1_000_000)
    for name in peers:
        print(f"rate {name}: {median(per_s[name]):,.0f} jobs/s")
    print(f"rate: the router takes {median(cpu_us):.1f} µs of CPU time a job")


def cpu_s(process: Process) -> float:
    """What a process has used."""
    times = psutil.Process(process.pid).cpu_times()
    return float(times.user + times.system)


if __name__ == "__main__":
    sys.exit(main())

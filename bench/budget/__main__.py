"""Where the CPU time of a no-op job goes: `python -m bench.budget [--seconds N] [--json FILE]`.

One member (or three), one worker and one client run no-op jobs of 200 bytes by `map`, each sampled
by CPU time. Printed is a table in Markdown: microseconds of CPU a job by process and stage, and
those of the member's children, which seal history and write snapshots.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import msgspec

from bench import loops, machine
from bench.budget import stages
from bench.budget.sampled import SAMPLES_FILE
from bench.budget.sampler import Sampler
from bench.cpu import CpuUse, Meter
from bench.frame import workplace
from bench.peers.rollq import Rollq
from bench.works.noop import PAYLOAD, WARM_UP_S, WIDE_WINDOW

SMALL_US: Final = 0.05  # stages that cost less are told together
SMALL_FUNCTION_US: Final = 0.15


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    process: str
    stage: str  # empty: the whole process
    us: float


class SampledRollq(Rollq):
    """Members and workers that write down what they used."""

    module = "bench.budget.sampled"

    def environment(self, name: str) -> dict[str, str]:
        """Where a process leaves its samples."""
        return {SAMPLES_FILE: str(self.folder / f"{name}.samples")}

    def samples(self, kind: str) -> dict[str, float]:
        """Seconds by module of all processes of a kind, once they have ended."""
        total: dict[str, float] = {}
        for file in self.folder.glob(f"{kind}*.samples"):
            for module, used in msgspec.json.decode(file.read_bytes()).items():
                total[module] = total.get(module, 0.0) + used
        return total


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.budget", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long jobs run (60)")
    parser.add_argument("--window", type=int, default=WIDE_WINDOW, help="jobs in flight (1024)")
    parser.add_argument("--members", type=int, choices=(1, 3), default=1, help="of the group (1)")
    parser.add_argument(
        "--functions", action="store_true", help="by function of rollq, not by stage"
    )
    parser.add_argument("--dir", default=tempfile.gettempdir(), help="where the state is kept")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the table as JSON")
    options = parser.parse_args()
    loops.choose(loops.UVLOOP)
    with workplace(options.dir) as folder:
        jobs, per_s, rows = measure(options, folder)
    print(f"{jobs:,} jobs, {options.window} in flight, {per_s:,.0f} a second; {machine.line()}\n")
    for line in table(rows):
        print(line)
    if options.json is not None:
        document = {"jobs": jobs, "jobs_per_s": per_s, "rows": [asdict(row) for row in rows]}
        options.json.write_text(json.dumps(document, indent=2) + "\n")
    return 0


def measure(options: argparse.Namespace, folder: Path) -> tuple[int, float, list[Row]]:
    """How many jobs were run, how fast, and what one cost."""
    peer = SampledRollq("r3" if options.members == 3 else "r1")
    try:
        peer.start(folder / "servers")
        peer.noop(PAYLOAD, options.window, WARM_UP_S)
        meter, sampler = Meter(peer), Sampler()
        before = meter.read()
        sampler.start()
        rate = peer.noop(PAYLOAD, options.window, options.seconds)
        sampler.stop()
        used = meter.read().since(before)
    finally:
        peer.stop()
    parted = stages.by_function if options.functions else stages.by_stage
    processes = (
        ("member", used.server, parted(peer.samples("member"), stages.MEMBER)),
        ("worker", used.worker, parted(peer.samples("noop"), stages.WORKER)),
        ("client", used.client, parted(sampler.seconds, stages.CLIENT)),
    )
    small_us = SMALL_FUNCTION_US if options.functions else SMALL_US
    return rate.count, rate.per_s, list(budget(processes, used, rate.count, small_us))


def budget(
    processes: Iterable[tuple[str, float, Mapping[str, float]]],
    used: CpuUse,
    jobs: int,
    small_us: float,
) -> Iterator[Row]:
    """What each process used a job, divided as its samples are."""
    for process, seconds, told in processes:
        yield Row(process, "", seconds * 1e6 / jobs)
        sampled = sum(told.values()) or 1.0
        small = 0.0
        for stage, part in sorted(told.items(), key=lambda item: -item[1]):
            us = part / sampled * seconds * 1e6 / jobs
            if us < small_us or stage == stages.REST:
                small += us
            else:
                yield Row(process, stage, us)
        if small:
            yield Row(process, stages.REST, small)
        if process == "member":
            yield Row("its children", "", used.upkeep * 1e6 / jobs)
    yield Row("all", "", used.all * 1e6 / jobs)


def table(rows: list[Row]) -> Iterator[str]:
    """The same as Markdown."""
    yield "| process | stage | µs a job |"
    yield "|---|---|---|"
    for row in rows:
        name, us = (row.process, f"{row.us:.1f}")
        yield f"| **{name}** | | **{us}** |" if not row.stage else f"| | {row.stage} | {us} |"


if __name__ == "__main__":
    sys.exit(main())

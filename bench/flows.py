"""A large flow: `python -m bench.flows [--nodes N] [--width N] [--runs N] [--members 1|3]`.

Layers of no-op jobs, in which each job waits for two of the layer before. Of one flow, in one run:

- `submit`: from its first job to the commit, with the queue paused.
- `memory`: what the member that leads has grown by, a node.
- `run`: from `resume` to the result of a job that waits for the whole last layer, beside no-op jobs
  that wait for nothing.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import psutil  # type: ignore[import-untyped]

from bench import loops, machine
from bench.frame import workplace
from bench.peers.rollq import Rollq
from bench.works.noop import PAYLOAD, WARM_UP_S, WIDE_WINDOW
from rollq import Client, JobSpec
from rollq.base.ids import JobId, job_id_of_key

NODES: Final = 100_000
WIDTH: Final = 1_000  # of a layer; also what one job may wait for
SUBMIT_S_MAX: Final = 2.0
NODE_BYTES_MAX: Final = 400
SHARE_MIN: Final = 0.8
QUEUE: Final = "flow"
RESULT_S_MAX: Final = 600.0
NOOP_S: Final = 5.0


class Told(NamedTuple):
    """What one flow took."""

    submit_s: float
    node_bytes: float
    per_s: float
    noop_per_s: float


def main() -> int:
    """Measure and print; 1 if a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.flows", description=__doc__)
    parser.add_argument("--nodes", type=int, default=NODES, help=f"of a flow ({NODES})")
    parser.add_argument("--width", type=int, default=WIDTH, help=f"of a layer ({WIDTH})")
    parser.add_argument("--runs", type=int, default=3, help="the medians count (3)")
    parser.add_argument("--members", type=int, choices=(1, 3), default=1, help="of the group (1)")
    parser.add_argument("--dir", default=tempfile.gettempdir(), help="where the state is kept")
    options = parser.parse_args()
    if not 1 <= options.width <= WIDTH:
        parser.error(f"--width is 1 to {WIDTH}")
    print(machine.line())
    loops.choose(loops.UVLOOP)
    with workplace(options.dir) as folder:
        runs = [
            measure(folder / str(number), f"r{options.members}", options.nodes, options.width)
            for number in range(options.runs)
        ]
    return report(Told(*map(median, zip(*runs, strict=True))), options.nodes)


def measure(folder: Path, mode: str, nodes: int, width: int) -> Told:
    """One flow in a new group."""
    grid = Rollq(mode)
    grid.start(folder)
    try:
        grid.noop(PAYLOAD, WIDE_WINDOW, WARM_UP_S)
        noop_per_s = grid.noop(PAYLOAD, WIDE_WINDOW, NOOP_S).per_s
        submit_s, node_bytes, run_s = loops.run(run_flow(grid, nodes, width))
    finally:
        grid.stop()
    return Told(submit_s, node_bytes, nodes / run_s, noop_per_s)


async def run_flow(grid: Rollq, nodes: int, width: int) -> tuple[float, float, float]:
    """Seconds to submit, bytes a node, seconds to run."""
    leader = psutil.Process(grid.members[grid.leader()].pid)
    async with grid.client("flow") as client:
        await (await client.submit("noop", payload=PAYLOAD, queue=QUEUE)).result(RESULT_S_MAX)
        await client.pause(QUEUE)
        before_bytes = leader.memory_info().rss
        began = time.perf_counter()
        part = await client.stage("flow", "all", layers(client, nodes, width))
        await client.commit("flow", (part,))
        submit_s = time.perf_counter() - began
        last = [node_id(client, number) for number in range(nodes - width, nodes)]
        gather = await client.submit("noop", payload=PAYLOAD, queue=QUEUE, after=last)
        grown_bytes = leader.memory_info().rss - before_bytes
        began = time.perf_counter()
        await client.resume(QUEUE)
        (await gather.result(RESULT_S_MAX)).raise_for_status()
        return submit_s, grown_bytes / nodes, time.perf_counter() - began


def layers(client: Client, nodes: int, width: int) -> Iterator[JobSpec]:
    """The jobs, each with its number as key."""
    for number in range(nodes):
        above = number - width
        after = [node_id(client, above), node_id(client, above + 1)] if above >= 0 else []
        options = {"queue": QUEUE, "after": after}
        yield JobSpec("noop", payload=PAYLOAD, key=str(number), options=options)  # type: ignore[arg-type]


def node_id(client: Client, number: int) -> JobId:
    """Of the job with this number."""
    return job_id_of_key(client.client_id, str(number))


def report(told: Told, nodes: int) -> int:
    """Print; 1 if a target is missed."""
    share = told.per_s / told.noop_per_s
    rows = [
        ("submit", f"{told.submit_s:.2f} s", told.submit_s <= SUBMIT_S_MAX, f"{SUBMIT_S_MAX} s"),
        ("memory", f"{told.node_bytes:.0f} B", told.node_bytes <= NODE_BYTES_MAX, "400 B a node"),
        ("run", f"{told.per_s:,.0f} jobs/s", share >= SHARE_MIN, f"{SHARE_MIN} of no-op"),
    ]
    print(f"flow of {nodes:,} jobs; no-op jobs that wait for nothing: {told.noop_per_s:,.0f}/s")
    for name, figure, is_met, target in rows:
        print(f"{name:7} {figure:>14}   {'met' if is_met else 'MISSED'}: {target}")
    print(f"run is {share:.2f} of no-op jobs")
    return 0 if all(is_met for *_, is_met, _ in rows) else 1


if __name__ == "__main__":
    sys.exit(main())

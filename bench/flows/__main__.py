"""A large flow: `python -m bench.flows [--nodes N] [--runs N] [--members 1|3] [--kills N]`.

Layers of no-op jobs, in which each job waits for two of the layer before. Of one flow, in one run:

- `submit`: from its first job to the commit, with the queue paused; then `unpack`, until all of
  them are in the queue.
- Memory: what a node takes of the state, by the allocator; of this, what it waits for (`edges`);
  and what a fresh leader has grown by, with history and log that are not sealed yet.
- From `resume` to the result of a job that waits for the whole last layer, beside no-op jobs that
  wait for nothing.

With `--kills` leaders and workers die meanwhile, and the history is checked in place of figures.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import psutil

from bench import loops, machine
from bench.cpu import Meter
from bench.flows.graph import (
    CLIENT,
    NODES,
    QUEUE,
    RESULT_S_MAX,
    WIDTH,
    all_in_queue,
    submit_flow,
    submit_last,
)
from bench.flows.kills import survive
from bench.flows.memory import state_bytes
from bench.frame import paper, workplace
from bench.peers.rollq import Rollq
from bench.targets import Target, show_targets
from bench.works.noop import PAYLOAD, WARM_UP_S, WIDE_WINDOW

NOOP_S: Final = 5.0
TARGETS: Final = (
    Target("submit_s", "submit: seconds", at_most=2),
    Target("state_bytes", "state of a member: bytes a node beside its arguments", at_most=400),
    Target("share", "nodes a second: × no-op jobs that wait for nothing", at_least=0.8),
    Target("not_ended_ok", "kills: nodes that did not end ok", at_most=0),
    Target("ended_twice", "kills: nodes that ended twice", at_most=0),
    Target("before_a_parent", "kills: nodes that began before a parent ended", at_most=0),
)


class Told(NamedTuple):
    """What one flow took."""

    submit_s: float
    submit_cpu_s: float  # of the client and the members
    submit_client_cpu_s: float
    unpack_s: float
    leader_bytes: float  # a node, with its arguments
    per_s: float
    noop_per_s: float
    node_cpu_us: float
    noop_cpu_us: float


def main() -> int:
    """Measure and print; 1 if a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.flows", description=__doc__)
    parser.add_argument("--nodes", type=int, default=NODES, help=f"of a flow ({NODES})")
    parser.add_argument("--width", type=int, default=WIDTH, help=f"of a layer ({WIDTH})")
    parser.add_argument("--runs", type=int, default=3, help="the medians count (3)")
    parser.add_argument("--members", type=int, choices=(1, 3), default=1, help="of the group (1)")
    parser.add_argument("--kills", type=int, default=0, help="of leaders and workers, by turns")
    parser.add_argument("--dir", default=tempfile.gettempdir(), help="where the state is kept")
    options = parser.parse_args()
    if not 1 <= options.width <= WIDTH:
        parser.error(f"--width is 1 to {WIDTH}")
    print(machine.line())
    loops.choose(loops.UVLOOP)
    with workplace(options.dir) as folder:
        if options.kills:
            figures = survive(folder / "kills", options.nodes, options.width, options.kills)
        else:
            figures = measure_all(folder, options)
    show_targets(TARGETS, figures, paper())
    return int(any(one.is_met(figures.get(one.key)) is False for one in TARGETS))


def measure_all(folder: Path, options: argparse.Namespace) -> dict[str, float]:
    """The medians of all runs."""
    mode = f"r{options.members}"
    runs = [
        measure(folder / str(number), mode, options.nodes, options.width)
        for number in range(options.runs)
    ]
    figures = Told(*map(median, zip(*runs, strict=True)))._asdict()
    figures["share"] = median(one.per_s / one.noop_per_s for one in runs)
    figures["state_bytes"] = state_bytes(options.nodes, options.width)
    figures["edges_bytes"] = figures["state_bytes"] - state_bytes(options.nodes, options.nodes)
    return figures


def measure(folder: Path, mode: str, nodes: int, width: int) -> Told:
    """No-op jobs in a new group, then one flow in another: neither has the other's upkeep."""
    with group(folder / "noop", mode) as grid:
        grid.noop(PAYLOAD, WIDE_WINDOW, WARM_UP_S)
        meter = Meter(grid)
        before = meter.read()
        noop = grid.noop(PAYLOAD, WIDE_WINDOW, NOOP_S)
        used = meter.read().since(before)
    with group(folder / "flow", mode) as grid:
        told = loops.run(run_flow(grid, nodes, width))
    return told._replace(noop_per_s=noop.per_s, noop_cpu_us=used.all * 1e6 / noop.count)


@contextmanager
def group(folder: Path, mode: str) -> Iterator[Rollq]:
    """Members and a worker."""
    grid = Rollq(mode)
    grid.start(folder)
    try:
        grid.serve_noop(1)
        yield grid
    finally:
        grid.stop()


async def run_flow(grid: Rollq, nodes: int, width: int) -> Told:
    """Submit it, then let it run."""
    leader, meter = psutil.Process(grid.members[grid.leader()].pid), Meter(grid)
    async with grid.client(CLIENT) as client:
        await (await client.submit("noop", payload=PAYLOAD, queue=QUEUE)).result(RESULT_S_MAX)
        await client.pause(QUEUE)
        before, before_bytes = meter.read(), leader.memory_info().rss
        began = time.perf_counter()
        await submit_flow(client, nodes, width)
        submit_s, submit_cpu = time.perf_counter() - began, meter.read().since(before)
        await all_in_queue(client, nodes)
        unpack_s = time.perf_counter() - began - submit_s
        last = await submit_last(client, nodes, width)
        grown_bytes = leader.memory_info().rss - before_bytes
        before, began = meter.read(), time.perf_counter()
        await client.resume(QUEUE)
        (await last.result(RESULT_S_MAX)).raise_for_status()
        run_s, used = time.perf_counter() - began, meter.read().since(before)
        return Told(
            submit_s,
            submit_cpu.all,
            submit_cpu.client,
            unpack_s,
            grown_bytes / nodes,
            per_s=nodes / run_s,
            noop_per_s=0.0,
            node_cpu_us=used.all * 1e6 / nodes,
            noop_cpu_us=0.0,
        )


if __name__ == "__main__":
    sys.exit(main())

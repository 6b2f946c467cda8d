"""Tiny calls of a plain function: `python -m bench.functions [--calls N] [--runs N] [--quick]`.

`map` with one member and one worker of two slots, beside a `ProcessPoolExecutor`, Dask, Celery on a
redis that syncs, and Ray of two processes each, by turns in one run, all on this machine. Of these
rollq and Celery are durable. What is not installed is left out, and said.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final, NamedTuple

from rich.console import Console
from rich.table import Table

from bench import machine
from bench.cpu import CpuUse, Meter
from bench.figures import number
from bench.frame import paper, workplace
from bench.peers.dask import Dask
from bench.peers.pool_tasks import squared
from bench.peers.ray import Ray
from bench.peers.redis_queues import RESULT_S_MAX, Celery
from bench.peers.rollq import AHEAD, Rollq
from bench.rollq_app import squared as squared_task
from bench.targets import Target, show_targets
from rollq import BlockingClient

console = Console(stderr=True)
SLOTS: Final = 2
WARM_CALLS: Final = 2_000
CHUNK: Final = 256  # calls a message, for the pool, which must be told
SLOW_SHARE: Final = 50  # a job a call is measured with so much less

MAP: Final = "rollq: map"
NOOP: Final = "rollq: coroutine no-op, a job each"
MAP_SHARE_MIN: Final = 0.5
TARGETS: Final = (
    Target("map_vs_noop", "calls a second by map: × no-op jobs", at_least=MAP_SHARE_MIN),
)

Calls = Callable[[range], Iterable[Any]]


class Way(NamedTuple):
    """One way to make calls."""

    name: str
    calls: Calls
    meter: Meter
    is_slow: bool = False


class Told(NamedTuple):
    """What one way took, a run."""

    per_s: float
    worker_us: float
    all_us: float


def main() -> int:
    """Measure and report; 1 if the target is missed, unless it was quick."""
    options = parse(sys.argv[1:])
    with workplace(options.dir) as folder, ExitStack() as running:
        ways = [*rollq_ways(folder / "rollq", running), *pool_ways(running)]
        ways += dask_ways(folder / "dask", running)
        ways += celery_ways(folder / "celery", running)
        ways += ray_ways(folder / "ray", running)
        found: dict[str, list[Told]] = {}
        for way in ways:
            run_way(way, WARM_CALLS)
        for _ in range(options.runs):
            for way in ways:
                told = run_way(way, options.calls // (SLOW_SHARE if way.is_slow else 1))
                found.setdefault(way.name, []).append(told)
                said = f"{time.strftime('%H:%M:%S')} {way.name}: {number(told.per_s)} calls/s"
                console.print(said, highlight=False)
    figures = {name: medians(runs) for name, runs in found.items()}
    report(figures, paper())
    share = figures[MAP]["per_s"] / figures[NOOP]["per_s"]
    show_targets(TARGETS, {"map_vs_noop": share}, paper())
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    return int(not options.quick and share < MAP_SHARE_MIN)


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.functions", description=__doc__)
    parser.add_argument("--calls", type=int, default=100_000, help="a run (100000)")
    parser.add_argument("--runs", type=int, default=3, help="how often; the median counts (3)")
    parser.add_argument("--quick", action="store_true", help="few and once, to see that it runs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures")
    parser.add_argument("--dir", default=tempfile.gettempdir(), help="where everything is kept")
    options = parser.parse_args(arguments)
    if options.quick:
        options.calls, options.runs = 5_000, 1
    return options


def rollq_ways(folder: Path, running: ExitStack) -> Iterator[Way]:
    """A plain function in warm processes, and as a measure a coroutine that does nothing."""
    grid = Rollq("r1")
    grid.start(folder)
    running.callback(grid.stop)
    grid.start_worker("functions", "job.assign.>", slots=SLOTS, ahead=AHEAD)
    client = running.enter_context(BlockingClient(grid.servers))
    meter = Meter(grid)
    yield Way(MAP, partial(client.map, squared_task), meter)
    one_each = partial(client.map, squared_task, chunksize=1)
    yield Way("rollq: map, chunksize=1", one_each, meter, is_slow=True)
    nothing: Calls = lambda numbers: client.map("noop", (b"x" for _ in numbers))  # noqa: E731
    yield Way(NOOP, nothing, meter, is_slow=True)


def pool_ways(running: ExitStack) -> Iterator[Way]:
    """Python's own pool."""
    spawning = get_context("spawn")  # a fork would take along the threads of the client
    pool = running.enter_context(ProcessPoolExecutor(SLOTS, spawning))
    meter = Meter(pool)
    in_chunks = partial(pool.map, squared, chunksize=CHUNK)
    yield Way(f"ProcessPoolExecutor: chunksize={CHUNK}", in_chunks, meter)
    yield Way("ProcessPoolExecutor: chunksize=1", partial(pool.map, squared), meter, is_slow=True)


def dask_ways(folder: Path, running: ExitStack) -> Iterator[Way]:
    """Futures of Dask; nothing if it is not installed."""
    peer = Dask("")
    if why := peer.available():
        console.print(f"no Dask: {why}")
        return
    peer.start(folder)
    running.callback(peer.stop)
    client, meter = peer.client, Meter(peer)

    def one_each(numbers: range) -> Any:
        return client.gather(client.map(squared, numbers, pure=False))

    yield Way("Dask: client.map", one_each, meter, is_slow=True)


def celery_ways(folder: Path, running: ExitStack) -> Iterator[Way]:
    """A group of tasks; nothing if Celery or redis is not installed."""
    peer = Celery("durable")
    if why := peer.available():
        console.print(f"no Celery: {why}")
        return
    from celery import group  # noqa: PLC0415 - not a dependency

    from bench.peers.queue_apps.celery_app import make  # noqa: PLC0415

    peer.start(folder)
    running.callback(peer.stop)
    peer.run_workers()
    task = make(peer.url).app.tasks["bench.squared"]

    def one_each(numbers: range) -> Any:
        return group(map(task.s, numbers)).delay().get(timeout=RESULT_S_MAX)

    yield Way("Celery: group", one_each, Meter(peer), is_slow=True)


def ray_ways(folder: Path, running: ExitStack) -> Iterator[Way]:
    """Remote functions; nothing if Ray is not installed."""
    peer = Ray("")
    if why := peer.available():
        console.print(f"no Ray: {why}")
        return
    import ray  # noqa: PLC0415 - not a dependency

    peer.start(folder)
    running.callback(peer.stop)
    task = ray.remote(squared)

    def one_each(numbers: range) -> Any:
        return ray.get([task.remote(number) for number in numbers])

    yield Way("Ray: remote", one_each, Meter(peer), is_slow=True)


def run_way(way: Way, count: int) -> Told:
    """Calls, from the first argument to the last value."""
    before, started = way.meter.read(), time.perf_counter()
    got = sum(1 for _ in way.calls(range(count)))
    took_s = time.perf_counter() - started
    if got != count:
        raise RuntimeError(f"{way.name}: {got} values of {count} calls")
    used: CpuUse = way.meter.read().since(before)
    return Told(count / took_s, used.worker * 1e6 / count, used.all * 1e6 / count)


def medians(runs: list[Told]) -> dict[str, float]:
    """Of each figure."""
    return {name: statistics.median(getattr(one, name) for one in runs) for name in Told._fields}


def report(figures: dict[str, dict[str, float]], to: Console) -> None:
    """One row a way."""
    table = Table("", "calls/s", "CPU a call in the worker, µs", "CPU a call in all, µs")
    for name, told in figures.items():
        worker = f"{told['worker_us']:.1f}" if told["worker_us"] else "–"
        table.add_row(name, number(told["per_s"]), worker, f"{told['all_us']:.1f}")
    to.print(table)
    to.print(f"{machine.line()}; load {os.getloadavg()[0]:.1f}", highlight=False)


if __name__ == "__main__":
    sys.exit(main())

"""Many schedules of one second while leaders die:
`python -m bench.schedules [--schedules N] [--seconds N] [--kills N]`.

Three members and a worker. A third of the schedules has each catch-up rule. The leader is killed
(`kill -9`) at equal distances and started again. Afterwards the history of all members is asked for
every instant from the first to the last: it made one job, which ended once, or none by a rule that
was counted.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

from bench import loops, machine
from bench.figures import percentile
from bench.frame import paper, workplace
from bench.peers.rollq import AHEAD, Rollq
from bench.peers.rollq_failover import ENDS, rows_in_history
from bench.targets import Target, show_targets
from bench.works.noop import PAYLOAD
from rollq import Client, StateError
from rollq.base.schedules import CATCH_UPS, QUEUE
from rollq.history.schema import HistoryRow

EVERY_S: Final = 1
EVERY_MS: Final = 1_000 * EVERY_S
LOOK_S: Final = 0.2
END_S_MAX: Final = 300.0
PUTS: Final = 64  # at once
TARGETS: Final = (
    Target("instants_untold", "instants of which nothing is told", at_most=0),
    Target("instants_twice", "instants that are told twice", at_most=0),
    Target("jobs_not_ended", "jobs that did not end", at_most=0),
    Target("jobs_twice", "jobs that were accepted or ended twice", at_most=0),
    Target("missed", "instants passed over by a rule", at_most=0),
    Target("refused", "instants that the grid refused", at_most=0),
)


@dataclass(slots=True)
class Told:
    """What the history says."""

    instants: Counter[tuple[str, int]] = field(default_factory=Counter)
    late_ms: list[float] = field(default_factory=list)
    accepted: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    fired: dict[str, None] = field(default_factory=dict)  # ids of jobs
    missed: int = 0
    refused: int = 0


def main() -> int:
    """Run and judge; 1 if a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.schedules", description=__doc__)
    parser.add_argument("--schedules", type=int, default=1_000, help="how many (1000)")
    parser.add_argument("--seconds", type=float, default=60, help="how long they fire (60)")
    parser.add_argument("--kills", type=int, default=3, help="of the leader (3)")
    parser.add_argument("--dir", default=tempfile.gettempdir(), help="where the state is kept")
    options = parser.parse_args()
    print(machine.line())
    loops.choose(loops.UVLOOP)
    with workplace(options.dir) as folder:
        figures = measure(folder / "grid", options.schedules, options.seconds, options.kills)
    show_targets(TARGETS, figures, paper())
    return int(any(one.is_met(figures[one.key]) is False for one in TARGETS))


def measure(folder: Path, count: int, seconds: float, kills: int) -> dict[str, float]:
    """The figures of one grid."""
    grid = Rollq("r3")
    grid.start(folder)
    try:
        grid.start_worker("worker", "job.assign.>", ahead=AHEAD)
        states = [grid.state_of(address) for address in grid.members]
        first_ms, end_ms = loops.run(fire(grid, count, seconds, kills))
    finally:
        grid.stop()  # politely, so that the history is sealed
    return judge(read(rows_in_history(states)), first_ms, end_ms)


async def fire(grid: Rollq, count: int, seconds: float, kills: int) -> tuple[dict[str, int], int]:
    """The first instant of each schedule, and the time up to which all of them were fired."""
    async with grid.client("schedules") as client:
        first_ms = await put_all(client, count)
        for _ in range(kills):
            await asyncio.sleep(seconds / (kills + 1))
            leader = await asyncio.to_thread(grid.leader)
            await asyncio.to_thread(grid.kill, leader)
            await asyncio.to_thread(grid.revive, leader)
        await asyncio.sleep(seconds / (kills + 1))
        end_ms = max([one.next_ms async for one in client.schedules.list()])
        async with asyncio.timeout(END_S_MAX):
            await until(lambda: are_past(client, end_ms))
            await asyncio.gather(*(remove(client, name) for name in first_ms))
            await until(lambda: is_idle(client))
    return first_ms, end_ms


async def until(is_so: Callable[[], Awaitable[bool]]) -> None:
    """Look again and again."""
    while True:
        if await is_so():
            return
        await asyncio.sleep(LOOK_S)


async def are_past(client: Client, end_ms: int) -> bool:
    """Whether every schedule has fired up to a time."""
    return min([one.next_ms async for one in client.schedules.list()]) >= end_ms


async def is_idle(client: Client) -> bool:
    """Whether all jobs have ended."""
    counts = await client.counts()
    return not counts.waiting + counts.running


async def remove(client: Client, name: str) -> None:
    """Until it is gone: an answer may be lost with a leader."""
    while await client.schedules.get(name) is not None:
        with suppress(StateError):
            await client.schedules.remove(name)


async def put_all(client: Client, count: int) -> dict[str, int]:
    """Make the schedules; the first instant of each."""
    room = asyncio.Semaphore(PUTS)
    first_ms: dict[str, int] = {}

    async def put(number: int) -> None:
        async with room:
            view = await client.schedules.put(
                f"s{number}",
                "noop",
                payload=PAYLOAD,
                every=EVERY_S,
                overlap=QUEUE,
                catch_up=CATCH_UPS[number % len(CATCH_UPS)],
            )
        first_ms[view.name] = view.next_ms - EVERY_MS * view.fired

    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(put(number))
    return first_ms


def read(rows: Iterable[HistoryRow]) -> Told:
    """Note what is told of schedules and of their jobs."""
    told = Told()
    for row in rows:
        if row.type == "schedule_fire":
            name, due_ms = instant_of(row.detail.replace("@", " "))
            told.instants[name, due_ms] += 1
            told.late_ms.append(row.ts - due_ms)
            told.fired[row.jobId] = None
        elif row.type == "schedule_refuse":
            told.instants[instant_of(row.detail.replace("@", " "))] += 1
            told.refused += 1
        elif row.type == "schedule_miss":
            name, due_ms = instant_of(row.detail)
            told.instants.update((name, due_ms + EVERY_MS * one) for one in range(row.count))
            told.missed += row.count
        elif row.type == "enqueue":
            told.accepted[row.jobId] += 1
        elif row.type in ENDS:
            told.ended[row.jobId] += 1
    return told


def instant_of(detail: str) -> tuple[str, int]:
    """Name and milliseconds, from `NAME INSTANT`."""
    name, instant = detail.split(" ")[:2]
    return name, int(datetime.fromisoformat(instant).timestamp()) * 1_000


def judge(told: Told, first_ms: dict[str, int], end_ms: int) -> dict[str, float]:
    """What is wrong, and how late firings were."""
    expected = [
        (name, due_ms)
        for name, first in first_ms.items()
        for due_ms in range(first, end_ms, EVERY_MS)
    ]
    late_ms = sorted(told.late_ms)
    return {
        "instants_untold": float(sum(not told.instants[one] for one in expected)),
        "instants_twice": float(told.instants.total() - len(told.instants)),
        "jobs_not_ended": float(sum(not told.ended[one] for one in told.fired)),
        "jobs_twice": float(
            sum(told.accepted[one] != 1 or told.ended[one] > 1 for one in told.fired)
        ),
        "missed": float(told.missed),
        "refused": float(told.refused),
        "instants": float(len(expected)),
        "fired": float(len(told.fired)),
        "late_p50_ms": percentile(late_ms, 0.5),
        "late_p99_ms": percentile(late_ms, 0.99),
        "late_max_ms": late_ms[-1],
    }


if __name__ == "__main__":
    sys.exit(main())

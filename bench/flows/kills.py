"""A flow while leaders and workers are killed (`kill -9`, by turns) and started again.

What became of it, the history of all members tells: how often each node ended, and whether a node
was given to a worker before its parents had ended.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from bench import loops
from bench.flows.graph import (
    CLIENT,
    LOOK_S,
    QUEUE,
    RESULT_S_MAX,
    node_id,
    parents,
    submit_flow,
    submit_last,
)
from bench.peers.rollq import AHEAD, Rollq
from bench.peers.rollq_failover import ENDS, rows_in_history
from bench.procs import Process
from rollq import Client
from rollq.base.ids import guid_to_text
from rollq.base.jobs import Status
from rollq.history.schema import HistoryRow

WORKERS: Final = ("worker0", "worker1")


def survive(folder: Path, nodes: int, width: int, kills: int) -> dict[str, float]:
    """A flow through three members and two workers; the kills are at equal distances of it."""
    grid = Rollq("r3")
    grid.start(folder)
    try:
        workers = {name: start_worker(grid, name) for name in WORKERS}
        states = [grid.state_of(address) for address in grid.members]
        seconds = loops.run(run_flow(grid, workers, nodes, width, kills))
    finally:
        grid.stop()  # politely, so that the history is sealed
    return {"seconds": seconds, **judge(rows_in_history(states), nodes, width)}


def start_worker(grid: Rollq, name: str) -> Process:
    """Start one, or start it again on the disk it had."""
    return grid.start_worker(name, "job.assign.>", ahead=AHEAD)


async def run_flow(
    grid: Rollq, workers: dict[str, Process], nodes: int, width: int, kills: int
) -> float:
    """Seconds from the first node to the last."""
    async with grid.client(CLIENT) as client:
        await client.pause(QUEUE)
        await submit_flow(client, nodes, width)
        last = await submit_last(client, nodes, width)
        began = time.perf_counter()
        await client.resume(QUEUE)
        for number in range(kills):
            await done(client, nodes, nodes * (number + 1) // (kills + 1))
            if number % 2:
                name = WORKERS[number // 2 % len(WORKERS)]
                await asyncio.to_thread(workers[name].kill)
                workers[name] = await asyncio.to_thread(start_worker, grid, name)
            else:
                leader = await asyncio.to_thread(grid.leader)
                await asyncio.to_thread(grid.kill, leader)
                await asyncio.to_thread(grid.revive, leader)
        (await last.result(RESULT_S_MAX)).raise_for_status()
        return time.perf_counter() - began


async def done(client: Client, nodes: int, count: int) -> None:
    """Until so many nodes have ended."""
    while True:
        queue = await client.queue(QUEUE)
        assert queue is not None
        if queue.waiting + queue.running + queue.blocked <= nodes - count:
            return
        await asyncio.sleep(LOOK_S)


def judge(rows: Iterable[HistoryRow], nodes: int, width: int) -> dict[str, float]:
    """What the history says of the nodes."""
    numbers = {guid_to_text(node_id(number)): number for number in range(nodes)}
    ends: Counter[int] = Counter()
    begins: Counter[int] = Counter()
    is_ok = bytearray(nodes)
    too_early = 0
    for row in rows:
        number = numbers.get(row.jobId)
        if number is None:
            continue
        if row.type == "assign":
            begins[number] += 1
            too_early += not all(is_ok[one] for one in parents(number, width))
        elif row.type in ENDS:
            ends[number] += 1
            is_ok[number] = row.type == "ack" and row.status == Status.OK
    return {
        "not_ended_ok": float(nodes - sum(is_ok)),
        "ended_twice": float(ends.total() - len(ends)),
        "before_a_parent": float(too_early),
        "given_again": float(begins.total() - len(begins)),
    }

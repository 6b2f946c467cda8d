"""Another client of rollq, beside the one that is measured: `python -m bench.peers.rollq_load …`.

SERVERS steady PER_S SECONDS   no-op jobs at a steady rate
SERVERS many COUNT             that many jobs by `submit_many`
SERVERS commit COUNT           the same staged and committed, until all of them wait
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Final

from bench.loops import run
from rollq.base.limits import BATCH_JOBS_MAX
from rollq.roles.client.client import Client
from rollq.roles.client.jobs.specs import JobSpec

BEGAN: Final = "load began"
PAYLOAD: Final = b"x" * 200
TICK_S: Final = 0.005
LOOK_S: Final = 0.05


async def steady(client: Client, per_s: float, seconds: float) -> None:
    """A few jobs every few milliseconds, whether or not the last ones are back."""
    started = time.perf_counter()
    sent = 0
    running: set[asyncio.Task[None]] = set()
    while (now_s := time.perf_counter() - started) < seconds:
        due = int(now_s * per_s) - sent
        if due > 0:
            sent += due
            task = asyncio.create_task(run_some(client, due))
            running.add(task)
            task.add_done_callback(running.discard)
        await asyncio.sleep(TICK_S)
    await asyncio.gather(*running)


async def run_some(client: Client, count: int) -> None:
    """Jobs at once, and their results."""
    async for _ in client.map("noop", (PAYLOAD for _ in range(count)), window=count):
        pass


async def submit_many(client: Client, count: int) -> None:
    """All of them accepted."""
    await client.submit_many("noop", (PAYLOAD for _ in range(count)), keep_results=False)


async def commit(client: Client, count: int) -> None:
    """All of them staged, accepted by one commit, and unpacked into their queue."""
    spec = JobSpec("noop", payload=PAYLOAD)
    count = min(count, BATCH_JOBS_MAX)
    part = await client.stage("batch", "0", (spec for _ in range(count)))
    before = (await client.counts()).waiting
    await client.commit("batch", [part])
    while (await client.counts()).waiting < before + count:  # noqa: ASYNC110 - nobody tells it
        await asyncio.sleep(LOOK_S)


async def load(servers: str, how: str, numbers: list[float]) -> None:
    """As the command line says."""
    async with Client(servers, client_id=f"load-{how}") as client:
        await client.counts()
        print(BEGAN, flush=True)
        if how == "steady":
            await steady(client, *numbers)
        elif how == "many":
            await submit_many(client, int(numbers[0]))
        else:
            await commit(client, int(numbers[0]))


if __name__ == "__main__":
    run(load(sys.argv[1], sys.argv[2], [float(one) for one in sys.argv[3:]]))

"""A no-op worker on NATS: `python -m bench.peers.nats_worker PORT MODE`, until it is ended."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from bench.loops import run
from bench.procs import HOST, missing_module

FETCH = 64


async def work(port: int, mode: str) -> None:
    """Serve as the mode says."""
    import nats  # noqa: PLC0415 - not a dependency

    client = await nats.connect(f"nats://{HOST}:{port}")
    if mode == "core":

        async def on_request(message: Any) -> None:
            await message.respond(b"ok")

        await client.subscribe("jobs.noop", queue="workers", cb=on_request)
        await client.flush()
        print("worker ready", flush=True)
        await asyncio.Event().wait()
    stream = client.jetstream(timeout=20)
    consumer = await stream.pull_subscribe("jobs.noop", durable="workers", stream="JOBS")
    print("worker ready", flush=True)
    while True:
        try:
            jobs = await consumer.fetch(FETCH, timeout=5)
        except TimeoutError:
            continue
        if mode == "durable":
            await asyncio.gather(*(finish_durably(stream, job) for job in jobs))
        else:
            for job in jobs:
                await client.publish("results.client", job.data[:16])
                await job.ack()


async def finish_durably(stream: Any, job: Any) -> None:
    """The result is stored before the job is done."""
    await stream.publish("results.client", job.data[:16])
    await job.ack()


if __name__ == "__main__":
    if missing := missing_module("nats"):
        sys.exit(missing)
    run(work(int(sys.argv[1]), sys.argv[2]))

"""A no-op worker on RabbitMQ: `python -m bench.peers.rabbitmq_worker PORT`, until it is ended."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from bench.loops import run
from bench.peers.rabbitmq_client import JOBS, RESULTS, open_channel, persistent
from bench.procs import missing_module
from bench.window import IDLE_S_MAX


async def work(port: int) -> None:
    """Take jobs; a result is confirmed before its job is acked."""
    _connection, channel = await open_channel(port, IDLE_S_MAX)
    exchange = channel.default_exchange

    async def on_job(message: Any) -> None:
        await exchange.publish(persistent(b"ok", message.correlation_id), RESULTS)
        await message.ack()

    jobs = await channel.get_queue(JOBS, ensure=False)
    await jobs.consume(on_job)
    print("worker ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    if missing := missing_module("aio_pika"):
        sys.exit(missing)
    run(work(int(sys.argv[1])))

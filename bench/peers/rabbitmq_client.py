"""Clients of RabbitMQ through aio-pika: jobs with their results, and load while a node dies."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Final

from bench.figures import Sample
from bench.procs import HOST
from bench.window import IDLE_S_MAX

JOBS: Final = "jobs"
RESULTS: Final = "results"
PREFETCH: Final = 64
PUBLISH_S_MAX: Final = 0.5
CONNECT_S_MAX: Final = 0.5


class JobClient:
    """Publishes jobs with confirms; each result comes back under its job's number."""

    def __init__(self, port: int, payload: bytes) -> None:
        self._port = port
        self._payload = payload
        self._waiting: dict[str, asyncio.Future[None]] = {}
        self._last = 0
        self._connection: Any = None
        self._exchange: Any = None

    async def __aenter__(self) -> JobClient:
        self._connection, channel = await open_channel(self._port, IDLE_S_MAX)
        self._exchange = channel.default_exchange
        results = await channel.get_queue(RESULTS, ensure=False)
        await results.consume(self._on_result, no_ack=True)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._connection.close()

    async def run(self) -> None:
        """One job, from publish to result."""
        self._last += 1
        name = str(self._last)
        self._waiting[name] = done = asyncio.get_running_loop().create_future()
        await self._exchange.publish(persistent(self._payload, name), JOBS)
        await done

    async def _on_result(self, message: Any) -> None:
        done = self._waiting.pop(message.correlation_id, None)
        if done is not None and not done.done():
            done.set_result(None)


class RabbitmqLoad:
    """Publishes that are repeated, at the next node when one does not answer, until confirmed."""

    results = None  # not measured

    def __init__(self, ports: list[int], payload: bytes) -> None:
        self._ports = ports
        self._payload = payload
        self._at = 0
        self._connection: Any = None
        self._channel: Any = None
        self._moving = asyncio.Lock()
        self._closing: set[asyncio.Task[None]] = set()
        self._last = 0
        self._acked = 0

    async def open(self) -> None:
        """Connect to the first node."""
        self._connection, self._channel = await open_channel(self._ports[0], IDLE_S_MAX)

    async def submit(self) -> None:
        """One message."""
        self._last += 1
        message = persistent(self._payload, str(self._last))
        while True:
            channel = self._channel
            try:
                async with asyncio.timeout(PUBLISH_S_MAX):
                    await channel.default_exchange.publish(message, JOBS)
            except Exception:  # aiormq's errors have no common base; the message is sent again
                await self._move(channel)
                continue
            self._acked += 1
            return

    async def close(self) -> list[Sample]:
        """More confirms than messages in the queue: some were lost."""
        queue = await self._channel.declare_queue(JOBS, passive=True)
        stored = int(queue.declaration_result.message_count)
        await self._connection.close()
        return [Sample("lost", max(0, self._acked - stored))]

    async def _move(self, failed: Any) -> None:
        """Connect to the next node that answers, once for all who saw this channel fail."""
        async with self._moving:
            if self._channel is not failed:
                return
            closing = asyncio.create_task(close_quietly(self._connection))
            self._closing.add(closing)  # whoever hung up does not answer: nobody waits for it
            closing.add_done_callback(self._closing.discard)
            while True:
                self._at = (self._at + 1) % len(self._ports)
                try:
                    opened = await open_channel(self._ports[self._at], CONNECT_S_MAX)
                except Exception:  # whatever it is, the next node may answer
                    await asyncio.sleep(0)
                    continue
                self._connection, self._channel = opened
                return


async def close_quietly(connection: Any) -> None:
    """Hang up on a node that may be gone."""
    with contextlib.suppress(Exception):
        async with asyncio.timeout(CONNECT_S_MAX):
            await connection.close()


async def open_channel(port: int, seconds_max: float) -> tuple[Any, Any]:
    """A connection and its channel with confirms."""
    import aio_pika  # noqa: PLC0415 - not a dependency

    async with asyncio.timeout(seconds_max):
        connection = await aio_pika.connect(f"amqp://guest:guest@{HOST}:{port}/")
        channel = await connection.channel(publisher_confirms=True)
        await channel.set_qos(prefetch_count=PREFETCH)
    return connection, channel


def persistent(body: bytes, name: str) -> Any:
    """A message that is kept on disk."""
    from aio_pika import DeliveryMode, Message  # noqa: PLC0415

    return Message(body, delivery_mode=DeliveryMode.PERSISTENT, correlation_id=name)

"""Load on JetStream while the leader of its stream dies, and what the servers say of the stream."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from bench.figures import Sample
from bench.peers.nats_wire import NatsSocket
from bench.procs import HOST

JOBS: Final = "JOBS"
SUBJECT: Final = "jobs.noop"
ASK_S_MAX: Final = 1.0  # a cluster that is not ready yet does not answer
PUBLISH_S_MAX: Final = 0.25
PING_S: Final = 1


class NatsLoad:
    """Publishes that are repeated, under the same message id, until they are acked."""

    results = None  # not measured

    def __init__(self, ports: list[int], payload: bytes) -> None:
        self._ports = ports
        self._payload = payload
        self._acked = 0
        self._last = 0
        self._client: Any = None
        self._stream: Any = None

    async def open(self) -> None:
        """Connect to whichever server answers."""
        import nats  # noqa: PLC0415

        self._client = await nats.connect(
            [f"nats://{HOST}:{port}" for port in self._ports],
            reconnect_time_wait=0.05,
            max_reconnect_attempts=-1,
            ping_interval=PING_S,  # its own two minutes would be the gap if its server froze
            error_cb=_ignore,
        )
        self._stream = self._client.jetstream()

    async def submit(self) -> None:
        """One message."""
        import nats.errors  # noqa: PLC0415

        self._last += 1
        headers = {"Nats-Msg-Id": str(self._last)}
        while True:
            try:
                await self._stream.publish(
                    SUBJECT, self._payload, timeout=PUBLISH_S_MAX, headers=headers
                )
            except (nats.errors.Error, TimeoutError, OSError):
                await asyncio.sleep(0)
                continue
            self._acked += 1
            return

    async def close(self) -> list[Sample]:
        """More acks than messages in the stream: some were lost."""
        await self._client.close()
        info = await asyncio.to_thread(stream_info, self._ports)
        stored = int(info["state"]["messages"])
        return [Sample("lost", max(0, self._acked - stored))]


async def _ignore(_error: Exception) -> None:
    """Broken connections are what is measured."""


def stream_info(ports: list[int]) -> dict[str, Any]:
    """What the first server that answers says of the jobs' stream; empty if none does."""
    for port in ports:
        try:
            link = NatsSocket(port, ASK_S_MAX)
            answer = link.ask(f"$JS.API.STREAM.INFO.{JOBS}", {})
            link.close()
        except OSError:
            continue
        if "state" in answer:
            return answer
    return {}


def is_current(ports: list[int], name: str) -> bool:
    """Whether a server has all that the stream's leader has, or leads itself."""
    cluster = stream_info(ports).get("cluster", {})
    replicas = cluster.get("replicas", [])
    current = [one["name"] for one in replicas if one.get("current")]
    return name in (cluster.get("leader"), *current)

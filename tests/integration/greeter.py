"""A listener that welcomes everybody, and whoever dials it: for tests of links."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from rollq.net.dialer import dial
from rollq.net.link import DEFAULT_LIMITS, Link, LinkLimits
from rollq.net.listener import Listener
from rollq.security.credentials import NONE, Credentials
from rollq.security.identity import CertificateIdentity, CertificateRole
from rollq.security.mode import Mode
from rollq.wire import messages as wire
from rollq.wire.compact import Message
from rollq.wire.features import agree

HELLO = wire.HelloClient("me", 0, ("compact", "accepted"))


@dataclass
class Place:
    """A listener that welcomes everybody, and whom it has heard."""

    address: str = ""
    heard: list[CertificateIdentity | None] = field(default_factory=list)
    ends: asyncio.Queue[str] = field(default_factory=asyncio.Queue)  # why links were closed
    talks: list[Talk] = field(default_factory=list)


@dataclass
class Talk:
    """One side of a link, by what it hears."""

    link: Link
    words: asyncio.Queue[Message | str]
    over: asyncio.Event

    async def hear(self) -> Message | str:
        """The next message, or why the link was closed."""
        return await self.words.get()


@asynccontextmanager
async def listening(
    credentials: Credentials,
    tls: Mode | None = None,
    roles: tuple[CertificateRole, ...] = (),
    limits: LinkLimits = DEFAULT_LIMITS,
) -> AsyncIterator[Place]:
    """A listener. It answers a hello with a welcome, and a job with its body."""
    place = Place()

    def hear(link: Link, messages: list[Message]) -> None:
        for message in messages:
            if isinstance(message, wire.HelloClient):
                place.heard.append(link.certificate)
                link.send(wire.Welcome("g", 1, agree(message.features)))
            else:
                assert isinstance(message, wire.SubmitJob)
                link.send(wire.Result(message.job_id, "done", result=message.body))

    listener = Listener(
        "g",
        hear,
        lambda _, why: place.ends.put_nowait(why),
        limits,
        credentials=credentials,
        tls=tls,
        roles=roles,
    )
    place.address = f"127.0.0.1:{await listener.start('127.0.0.1', 0)}"
    try:
        yield place
    finally:
        for talk in place.talks:
            talk.link.abort("over")
            await talk.over.wait()
        await listener.stop("over")


async def call(place: Place, credentials: Credentials = NONE, **how: Any) -> Talk:
    """Dial it and say hello."""
    words: asyncio.Queue[Message | str] = asyncio.Queue()
    over = asyncio.Event()

    def hear(link: Link, messages: list[Message]) -> None:
        for message in messages:
            words.put_nowait(message)

    def closed(link: Link, reason: str) -> None:
        words.put_nowait(reason)
        over.set()

    link = await dial(place.address, "g", hear, closed, credentials=credentials, **how)
    link.send(HELLO)
    talk = Talk(link, words, over)
    place.talks.append(talk)
    return talk


@asynccontextmanager
async def dialed(
    place: Place,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A socket without a link."""
    host, port = place.address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def until_closed(reader: asyncio.StreamReader) -> None:
    """Nothing was said, and the other side has hung up."""
    with suppress(ConnectionResetError):
        assert await reader.read() == b""

"""How long a stranger may hold a link: from its socket on, whatever TLS took of that time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from rollq.base.limits import HELLO_MS_MAX
from rollq.net.link import Link
from rollq.wire.connection import Connection
from rollq.wire.handshake import Side


class Clock:
    """A loop that stands still, and notes what is to be called when."""

    def __init__(self) -> None:
        self.now_s = 10.0
        self.calls_at_s: list[float] = []

    def time(self) -> float:
        return self.now_s

    def call_at(self, when_s: float, _call: Callable[[], None]) -> None:
        self.calls_at_s.append(when_s)


class Socket:
    """A transport of which nothing is known but the peer."""

    def get_extra_info(self, name: str) -> Any:
        return ("host", 1) if name == "peername" else None


async def hello_due_s(handshake_s: float) -> float:
    link = Link(Connection(Side.ACCEPTER), lambda *_: None, lambda *_: None)
    clock, socket = Clock(), cast(asyncio.Transport, Socket())
    link.loop = cast(asyncio.AbstractEventLoop, clock)
    link.arrive(socket)
    clock.now_s += handshake_s
    link.connection_made(socket)
    (due_s,) = clock.calls_at_s
    return due_s - 10.0


def test_a_handshake_takes_from_the_time_for_the_hello() -> None:
    assert asyncio.run(hello_due_s(0.0)) == HELLO_MS_MAX / 1000
    assert asyncio.run(hello_due_s(3.0)) == HELLO_MS_MAX / 1000

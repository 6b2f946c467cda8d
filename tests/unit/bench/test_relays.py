"""The relays of `bench.chaos`, without members."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from bench.chaos.wires import Relays


@pytest.fixture
def relays() -> Iterator[Relays]:
    made = Relays(["red"])
    yield made
    made.close()


def test_who_dials_is_known_by_the_process(relays: Relays) -> None:
    relays.started("green", os.getpid())
    with socket.create_server(("127.0.0.1", 0)) as server:
        dialed = socket.create_connection(server.getsockname())
        port = dialed.getsockname()[1]
        assert relays._dialer(port) == "green"
        dialed.close()
        assert relays._dialer(port) == "?"


def test_a_port_that_was_used_a_moment_ago_is_that_of_the_open_connection(relays: Relays) -> None:
    relays.started("green", os.getpid())
    port = 0
    for _ in range(8):
        with (
            socket.create_server(("127.0.0.1", 0)) as server,
            dial_from(port, server.getsockname()) as dialed,
        ):
            port = dialed.getsockname()[1]
            taken, _ = server.accept()
            assert relays._dialer(port) == "green"
            dialed.close()  # first, so that this end stays in the table for a minute
            taken.close()


def test_a_connection_that_was_never_served_is_closed_at_the_end(relays: Relays) -> None:
    closed: list[bool] = []
    back: Any = SimpleNamespace(transport=SimpleNamespace(abort=lambda: closed.append(True)))

    async def take_and_end() -> None:
        relays._taker("red")(asyncio.StreamReader(), back)
        await relays._end()

    asyncio.run_coroutine_threadsafe(take_and_end(), relays._loop).result()
    assert closed == [True]


def dial_from(port: int, to: tuple[str, int]) -> socket.socket:
    dialed = socket.socket()
    dialed.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    dialed.bind(("127.0.0.1", port))
    dialed.connect(to)
    return dialed

"""Ports that are kept for processes to come."""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque

import pytest
import uvloop

from rollq.net import ports
from rollq.net.ports import free_ports


def test_a_port_is_given_to_nobody_else_and_can_be_listened_on_again_and_again() -> None:
    [port] = free_ports(1)

    async def listen() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(asyncio.Protocol, "127.0.0.1", port)
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()
        server.close()
        await server.wait_closed()

    for _ in range(2):
        asyncio.run(listen())
        uvloop.run(listen())
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
    with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
        stranger.bind(("127.0.0.1", port))


def test_so_many_are_kept_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_kept", deque())
    monkeypatch.setattr(ports, "KEPT_MAX", 3)
    [first] = free_ports(1)
    free_ports(3)
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", first))
    assert len(ports._kept) == 3
    for descriptor in ports._kept:
        os.close(descriptor)

"""What is said of an address where nobody answers."""

from __future__ import annotations

import asyncio
from typing import NoReturn

import pytest

from rollq.base.errors import DialError
from rollq.net.dialer import dial, is_served, join_address, split_address, takes_connections
from rollq.roles.reader.channel import Channel
from rollq.roles.worker.neighbours import own_host
from rollq.wire.reader_messages import HelloReader


def test_time_that_ran_out_is_named() -> None:
    async def story() -> None:
        async def slow(*_: object, **__: object) -> NoReturn:
            raise TimeoutError  # which has no text of its own

        asyncio.get_running_loop().getaddrinfo = slow  # type: ignore[method-assign]
        with pytest.raises(DialError) as raised:
            await dial("there:5000", "g", lambda *_: None, lambda *_: None)
        assert raised.value.message == "no answer at there:5000: timed out"

    asyncio.run(story())


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("grid.example", "grid.example:5000"),
        ("127.0.0.1", "127.0.0.1:5000"),
        ("::1", "[::1]:5000"),
        ("[::1]", "[::1]:5000"),
        ("fe80::1%eth0", "[fe80::1%eth0]:5000"),
    ],
)
def test_a_host_and_a_port_make_an_address(host: str, address: str) -> None:
    assert join_address(host, 5000) == address
    assert split_address(address) == (host.strip("[]"), 5000)


@pytest.mark.parametrize("address", ["a..b:5000", "." + "x" * 64 + ":5000"])
def test_a_host_that_can_be_no_name_is_not_reached(address: str) -> None:
    async def story() -> None:
        with pytest.raises(DialError, match="no answer at"):
            await dial(address, "g", lambda *_: None, lambda *_: None)
        assert not await takes_connections(address)
        assert not await is_served(address)

    asyncio.run(story())


def test_nor_by_what_asks_for_it_without_a_loop() -> None:
    with pytest.raises(DialError):
        Channel("a..b:5000", HelloReader(), 1.0)
    with pytest.raises(OSError, match="label"):
        own_host(["a..b:5000"])

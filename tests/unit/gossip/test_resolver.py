from __future__ import annotations

import asyncio
import socket

import pytest

from rollq.gossip.resolver import Resolver, SocketAddress

UNKNOWN = "x" * 64 + ":5000"  # no label of a name is so long: no name server is asked


@pytest.mark.parametrize(
    ("family", "address", "found"),
    [
        (socket.AF_INET, "10.0.0.1:5000", ("10.0.0.1", 5000)),
        (socket.AF_INET, "[::1]:5000", None),
        (socket.AF_INET6, "[::1]:5000", ("::1", 5000)),
        (socket.AF_INET6, "10.0.0.1:5000", ("::ffff:10.0.0.1", 5000)),
    ],
)
def test_addresses_need_no_lookup(family: int, address: str, found: SocketAddress | None) -> None:
    async def look() -> SocketAddress | None:
        resolver = Resolver(family)
        got = resolver.get(address)
        await resolver.stop()
        return got

    assert asyncio.run(look()) == found


def test_a_name_is_looked_up_beside_and_kept() -> None:
    async def look() -> list[SocketAddress | None]:
        resolver = Resolver(socket.AF_INET)
        first = resolver.get("localhost:5000")
        await asyncio.gather(*resolver._looking.values())
        second = resolver.get("localhost:5000")
        nothing = resolver.get(UNKNOWN)
        await asyncio.gather(*resolver._looking.values())
        later = resolver.get(UNKNOWN)
        await resolver.stop()
        return [first, second, nothing, later]

    assert asyncio.run(look()) == [None, ("127.0.0.1", 5000), None, None]

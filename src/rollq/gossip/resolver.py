"""Resolves host names without blocking the caller: while a lookup is under way, datagrams to
that name are dropped."""

from __future__ import annotations

import asyncio
import socket
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, Final, TypeAlias

from rollq.base.federation_limits import GOSSIP_RESOLVE_MS, GOSSIP_RESOLVED_MAX
from rollq.net.dialer import split_address

SocketAddress: TypeAlias = tuple[Any, ...]
IPV6: Final = 6
LOOKUPS_MAX: Final = 8  # concurrent: each blocks a thread until the name server answers


class Resolver:
    """Resolves addresses for sockets of one address family."""

    def __init__(self, family: int) -> None:
        self._family = family
        self._loop = asyncio.get_running_loop()
        # Results by address (None: the lookup failed), and when each expires.
        self._found: dict[str, tuple[SocketAddress | None, float]] = {}
        self._looking: dict[str, asyncio.Task[None]] = {}

    def get(self, address: str) -> SocketAddress | None:
        """The socket address; None while it is not known.

        Raises:
            LocalError: BAD_ADDRESS.
        """
        host, port = split_address(address)
        try:
            literal = self._literal(ip_address(host))
        except ValueError:  # it is a name
            return self._named(address, host, port)
        return None if literal is None else (literal, port)

    async def stop(self) -> None:
        """Cancel all lookups."""
        tasks = [*self._looking.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _named(self, address: str, host: str, port: int) -> SocketAddress | None:
        found, until_s = self._found.get(address, (None, 0.0))
        is_due = self._loop.time() >= until_s and address not in self._looking
        if is_due and len(self._looking) < LOOKUPS_MAX:
            self._looking[address] = self._loop.create_task(self._look_up(address, host, port))
        return found

    def _literal(self, host: IPv4Address | IPv6Address) -> str | None:
        """The address in the notation of the socket's family; None: not reachable from it."""
        if self._family == socket.AF_INET6:
            return str(host) if host.version == IPV6 else f"::ffff:{host}"
        return str(host) if host.version != IPV6 else None

    async def _look_up(self, address: str, host: str, port: int) -> None:
        flags = socket.AI_V4MAPPED if self._family == socket.AF_INET6 else 0
        found: SocketAddress | None = None
        try:
            rows = await self._loop.getaddrinfo(
                host, port, family=self._family, type=socket.SOCK_DGRAM, flags=flags
            )
            found = rows[0][4] if rows else None
        except (OSError, UnicodeError):
            pass  # cached as None until it expires
        finally:
            self._looking.pop(address, None)
        self._found.pop(address, None)
        self._found[address] = found, self._loop.time() + GOSSIP_RESOLVE_MS / 1000
        if len(self._found) > GOSSIP_RESOLVED_MAX:
            del self._found[next(iter(self._found))]

"""The groups of a router: their addresses and whether they are reachable."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from rollq.base.log_events import GROUP_GONE, GROUP_REACHED, tell
from rollq.base.router_limits import ROUTER_PROBE_MS
from rollq.net.dialer import is_served, takes_connections
from rollq.roles.client.addresses import as_addresses
from rollq.roles.client.several_groups.routes import GroupTable

log = logging.getLogger("rollq.router")

ROUTER = "router"  # as the name of a group: all groups


@dataclass(slots=True)
class RoutedGroup:
    """One group.

    Attributes:
        name: As in routes.
        addresses: Of its members, `host:port,host:port…`.
        is_up: Whether a member accepted a connection in the last probe; None: not probed yet.
    """

    name: str
    addresses: str
    is_up: bool | None = None


class Groups:
    """All groups of the router. They are probed every ROUTER_PROBE_MS.

    Args:
        table: Groups, weights and routes for the placement of jobs.
    """

    def __init__(self, table: GroupTable) -> None:
        self.table = table
        self.found: dict[int, RoutedGroup] = {}
        self._probing: asyncio.Task[None] | None = None

    def add(self, name: str, addresses: str, weight: int = 1) -> int:
        """Add a group and return its number. Raises LocalError: BAD_OPTIONS or BAD_ADDRESS."""
        as_addresses(addresses)
        number = self.table.add(name, weight)
        self.found[number] = RoutedGroup(name, addresses)
        return number

    def remove(self, number: int) -> None:
        """Remove a group."""
        self.table.remove(number)
        del self.found[number]

    async def start(self) -> None:
        """Probe once, then periodically."""
        await self._probe()
        self._probing = asyncio.get_running_loop().create_task(self._probe_periodically())

    async def stop(self) -> None:
        """Stop probing."""
        if self._probing is not None:
            self._probing.cancel()
            await asyncio.gather(self._probing, return_exceptions=True)

    def is_away(self, number: int) -> bool:
        """Whether a group is unknown or failed its last probe."""
        group = self.found.get(number)
        return group is None or group.is_up is False

    @property
    def spread(self) -> dict[str, int]:
        """Count of results by group."""
        return {name: self.table.ended[number] for number, name in self.table.names.items()}

    async def _probe_periodically(self) -> None:
        while True:
            await asyncio.sleep(ROUTER_PROBE_MS / 1000)
            await self._probe()

    async def _probe(self) -> None:
        await asyncio.gather(*(self._probe_group(one) for one in list(self.found.values())))

    async def _probe_group(self, group: RoutedGroup) -> None:
        served = await asyncio.gather(*map(_is_serving, as_addresses(group.addresses)))
        was_up, group.is_up = group.is_up, any(served)
        if group.is_up and not was_up:
            tell(log, GROUP_REACHED, group=group.name, members=group.addresses)
        elif was_up is not False and not group.is_up:
            tell(log, GROUP_GONE, group=group.name, members=group.addresses)


async def _is_serving(address: str) -> bool:
    """Whether a process accepts connections at this address and serves them."""
    return await takes_connections(address) and await is_served(address)

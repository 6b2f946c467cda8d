"""The asyncio client of several groups."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from rollq.roles.client.asking import ClientCalls
from rollq.roles.client.discovery import Federation
from rollq.roles.client.jobs import SubmitCalls
from rollq.roles.client.multi_engine import MultiEngine
from rollq.roles.client.routes import Policy, must_weigh
from rollq.security.credentials import NONE, Credentials
from rollq.security.files import as_credentials


class MultiClient(ClientCalls, SubmitCalls):
    """A client that spreads its jobs over several groups.

    Each job is with one group at a time, also each of a bulk; an array stays together. If a group
    cannot be reached for 10 s, the jobs it had go to the others under the same ids; the first
    result counts, and the other copy is cancelled when its group is back. Within a group a job ends
    exactly once. **Across groups this is at-least-once**: a group that was cut off may have run the
    job as well, and of an array that moves, tasks that had ended run again.

    Args:
        groups: The members of each group, as for `Client`; or these by the names of the groups; or
            as `discover` has it.
        client_id: As for `Client`; the same in every group.
        desired_parallelism: How many jobs may run at once, split evenly over the groups.
        policy: `round-robin` or `least-inflight`, both by weight.
        weights: How much more than others groups get, by their names; 1 where none is given.
        routes: Where jobs of some queues go: lines like `render.>=gpu:3,cpu:1`, a pattern over
            names of queues and groups with weights. The most specific pattern counts; jobs that
            none matches may go to every group.
        timeout: How many seconds a call waits for an answer, unless it says otherwise.
        credentials: As for `Client`; the same for every group.
    """

    _engine: MultiEngine

    def __init__(
        self,
        groups: Sequence[str] | Mapping[str, str] | Federation,
        *,
        client_id: str = "",
        desired_parallelism: int = 0,
        policy: str = Policy.ROUND_ROBIN,
        weights: Mapping[str, int] | None = None,
        routes: Sequence[str] = (),
        timeout: float = 30.0,
        credentials: Credentials | str | Path = NONE,
    ) -> None:
        engine = MultiEngine(
            groups,
            client_id,
            desired_parallelism=desired_parallelism,
            policy=policy,
            weights=weights or {},
            routes=routes,
            timeout_s=timeout,
            credentials=as_credentials(credentials),
        )
        super().__init__(engine)

    @classmethod
    def discover(cls, addresses: str, **options: Any) -> Self:
        """A client of all groups of a federation, found from one address: those that come later
        get their share, and what a group had that is gone goes to the others. Its start takes as
        long as the first look.

        Args:
            addresses: Of members or routers that gossip, `host:port,host:port…`; one is enough.
            options: As for the client itself, but for `groups`. Weights and routes name groups
                by their names in the federation, also those that are not there yet.
        """
        return cls(Federation(addresses), **options)

    @property
    def inflight(self) -> tuple[int, ...]:
        """How many jobs each group has."""
        return tuple(len(group.inflight) for group in self._engine.machine.groups.values())

    @property
    def spread(self) -> dict[str, int]:
        """How many results that counted came from each group, by its name; a group without a name
        is named by its addresses."""
        table = self._engine.table
        return {name: table.ended[number] for number, name in table.names.items()}

    @property
    def pending(self) -> int:
        """How many jobs wait for a group."""
        return self._engine.machine.pending_count

    async def add_group(self, addresses: str, *, name: str = "", weight: int = 1) -> None:
        """Use one more group from now on; it gets its share of what waits.

        Raises:
            LocalError: BAD_OPTIONS, if there is one of this name, or too many.
        """
        self._engine.add_group(name or addresses, addresses, must_weigh(str(weight)))
        await asyncio.sleep(0)  # its first connection is on its way

    async def remove_group(self, name: str) -> None:
        """Use a group no longer. What it has not ended goes to the others under the same ids, and
        is cancelled there: some of it may run twice.

        Raises:
            LocalError: BAD_OPTIONS, if there is none of this name.
        """
        await self._engine.remove_group(name)

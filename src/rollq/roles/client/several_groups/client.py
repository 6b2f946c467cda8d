"""The asyncio client of several groups."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from rollq.roles.client.calls.facades import ClientCalls
from rollq.roles.client.calls.jobs import SubmitCalls
from rollq.roles.client.several_groups.discovery import Federation
from rollq.roles.client.several_groups.engine import MultiEngine
from rollq.roles.client.several_groups.routes import Policy, parse_weight
from rollq.security.credentials import NONE, Credentials
from rollq.security.files import as_credentials


class MultiClient(ClientCalls, SubmitCalls):
    """A client that distributes its jobs over several groups.

    Each job, also of a bulk, is assigned to one group; an array as a whole. If a group cannot be
    reached for 10 s, its jobs are submitted to other groups under the same ids; the first result
    counts, and the other copy is cancelled when its group is reachable again. Within a group a job
    ends exactly once. **Across groups this is at-least-once**: a group that was cut off may have
    run the job as well, and tasks of an array that moves run again even if they had ended.

    Args:
        groups: The addresses of each group, as for `Client`: a list, a dict by group name, or a
            `Federation` (see `discover`).
        client_id: As for `Client`; the same in every group.
        desired_parallelism: How many jobs may run at once, divided evenly among the groups.
        policy: `round-robin` or `least-inflight`, both weighted.
        weights: Relative shares by group name; default 1.
        routes: The groups for jobs of some queues: lines like `render.>=gpu:3,cpu:1`, a pattern of
            queue names and groups with weights. The most specific pattern applies; jobs that match
            none may go to every group.
        timeout: Default timeout of calls, in seconds.
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
        """Create a client of all groups of a federation, found from one address. New groups get a
        share of the jobs, and jobs of removed groups move to others. `start` queries the federation
        before it returns.

        Args:
            addresses: Members or routers that gossip, `host:port,host:port…`; one is enough.
            options: As for the client itself, except `groups`. Weights and routes use the names of
                the federation; they may name groups that do not exist yet.
        """
        return cls(Federation(addresses), **options)

    @property
    def inflight(self) -> tuple[int, ...]:
        """The number of jobs in flight in each group."""
        return tuple(len(group.inflight) for group in self._engine.machine.groups.values())

    @property
    def spread(self) -> dict[str, int]:
        """The number of results per group, by name. The name of an unnamed group is its addresses.
        Duplicate results are not counted."""
        table = self._engine.table
        return {name: table.ended[number] for number, name in table.names.items()}

    @property
    def pending(self) -> int:
        """The number of jobs that are not assigned to a group yet."""
        return self._engine.machine.pending_count

    async def add_group(self, addresses: str, *, name: str = "", weight: int = 1) -> None:
        """Add a group. It gets a share of the pending jobs.

        Raises:
            LocalError: BAD_OPTIONS, if the name is in use, or there are too many groups.
        """
        self._engine.add_group(name or addresses, addresses, parse_weight(str(weight)))
        await asyncio.sleep(0)  # let it start to connect

    async def remove_group(self, name: str) -> None:
        """Remove a group. Its unfinished jobs are submitted to other groups under the same ids, and
        cancelled in it: some may run twice.

        Raises:
            LocalError: BAD_OPTIONS, if there is no group of this name.
        """
        await self._engine.remove_group(name)

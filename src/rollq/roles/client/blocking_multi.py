"""The blocking client of several groups."""

from __future__ import annotations

from collections.abc import Sequence

from rollq.roles.client.blocking_many import BlockingSubmitter
from rollq.roles.client.multi import MultiClient
from rollq.roles.client.multi_machine import Policy


class BlockingMultiClient(BlockingSubmitter):
    """The same as `MultiClient`, for code without an event loop. Arguments as there."""

    def __init__(
        self,
        groups: Sequence[str],
        *,
        client_id: str = "",
        desired_parallelism: int = 0,
        policy: str = Policy.ROUND_ROBIN,
        timeout: float = 30.0,
    ) -> None:
        self._client = MultiClient(
            groups,
            client_id=client_id,
            desired_parallelism=desired_parallelism,
            policy=policy,
            timeout=timeout,
        )
        super().__init__(self._client, self._client)

    @property
    def inflight(self) -> tuple[int, ...]:
        """How many jobs each group has."""
        return self._client.inflight

    @property
    def pending(self) -> int:
        """How many jobs wait for a group."""
        return self._client.pending

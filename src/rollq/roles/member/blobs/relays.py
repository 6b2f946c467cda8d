"""Relays uploads to the other voters while they arrive, so that an upload can continue on another
member if leadership changes.

A partial copy does not count: only when its holder has verified and synced it, and confirmed that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from rollq.base.digests import Digest, digest_to_text
from rollq.base.errors import RollqError
from rollq.base.ids import MemberId
from rollq.base.limits import BLOB_RELAYS_MAX, BLOB_WINDOW_BYTES
from rollq.raft.types import Member
from rollq.roles.blobs.carrier import Source
from rollq.roles.blobs.client import BlobClient
from rollq.roles.blobs.relay import Relay
from rollq.roles.service import end_tasks

log = logging.getLogger("rollq.blobs")


class Relays:
    """All relays under way. `stop` is idempotent.

    Args:
        open_part: Opens the part of a blob that has arrived; on a thread.
        me: The id of this member.
        voters: The present voters.
        peer: The blob link to a member, by address.
    """

    def __init__(
        self,
        open_part: Callable[[Digest, int], Source],
        me: Callable[[], MemberId],
        voters: Callable[[], tuple[Member, ...]],
        peer: Callable[[str], BlobClient],
    ) -> None:
        self._open_part = open_part
        self._me = me
        self._voters = voters
        self._peer = peer
        self._tasks: dict[asyncio.Task[None], Relay] = {}

    def begin(self, digest: Digest, size: int, offset: int) -> Relay | None:
        """Relay a blob of which `offset` bytes are here. None if too little is missing to be worth
        it, or enough blobs are relayed."""
        others = [voter.address for voter in self._voters() if voter.id != self._me()]
        under_way = len({id(relay) for relay in self._tasks.values()})
        if size - offset <= BLOB_WINDOW_BYTES or not others or under_way >= BLOB_RELAYS_MAX:
            return None
        tasks: list[asyncio.Task[None]] = []
        relay = Relay(offset, partial(_cancel, tasks))
        for address in others:
            task = asyncio.create_task(self._pass_on(relay, address, digest, size))
            tasks.append(task)
            self._tasks[task] = relay
            task.add_done_callback(self._tasks.pop)
        return relay

    async def stop(self) -> None:
        """Cancel all relays."""
        await end_tasks(self._tasks)

    async def _pass_on(self, relay: Relay, address: str, digest: Digest, size: int) -> None:
        try:
            await self._peer(address).give(
                digest,
                partial(self._open_part, digest, size),
                relay.growth,
                lambda offset, _: relay.moved(address, offset),
            )
        except RollqError as error:  # the complete blob is copied later
            log.info("blob %s cannot be relayed to %s: %s", digest_to_text(digest), address, error)
        finally:
            relay.left(address)


def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()

"""Blobs between members: the leader copies them to others, and a member that lacks one fetches it.

All of it runs on the loop; disk work is done on one pool of threads for all peers. Each peer has a
blob link of its own, opened on demand.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from rollq.base.digests import Digest, digest_to_text
from rollq.base.errors import DiskError, ErrorCode, RollqError, StateError
from rollq.base.ids import MemberId
from rollq.base.limits import BLOB_BEHIND_MAX, BLOB_PEER_PATIENCE_MS
from rollq.raft.types import Member
from rollq.roles.blobs.client import BlobClient
from rollq.roles.blobs.pace import Throttle
from rollq.roles.blobs.turns import TransferSlots
from rollq.roles.member.blobs.member_store import MemberBlobStore
from rollq.roles.service import end_tasks
from rollq.security.credentials import Credentials
from rollq.security.mode import Mode
from rollq.store.blobs.failures import blob_missing
from rollq.wire.blob_messages import MEMBER

log = logging.getLogger("rollq.blobs")


class Copies:
    """Moves blobs between this member and the others. `stop` is idempotent.

    Args:
        store: Of this member.
        group: Its name.
        me: The id of this member.
        voters: The present voters.
        turns: Serialises all writes of the same blob into the store.
        pool: Threads for disk work.
        pace: The share of the machine to use.
        credentials: As for `dial`, and so `tls`.
    """

    def __init__(
        self,
        *,
        store: MemberBlobStore,
        group: str,
        me: Callable[[], MemberId],
        voters: Callable[[], tuple[Member, ...]],
        turns: TransferSlots[Digest, object],
        pool: ThreadPoolExecutor,
        pace: Throttle,
        credentials: Credentials,
        tls: Mode,
    ) -> None:
        self._store = store
        self._credentials = credentials
        self._tls = tls
        self._group = group
        self._me = me
        self._voters = voters
        self._turns = turns
        self._peers: dict[str, BlobClient] = {}
        self._behind: dict[str, int] = {}  # copies under way, by peer
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._pool = pool
        self._pace = pace

    async def stop(self) -> None:
        """Close all links; what is under way fails."""
        await end_tasks(self._tasks)
        peers, self._peers = list(self._peers.values()), {}
        for peer in peers:
            await peer.stop()

    async def spread(self, digest: Digest) -> None:
        """Copy a blob to all other voters; returns when a majority holds it. The other copies
        continue in the background; a member whose copy fails fetches it later if it needs it.

        Raises:
            RollqError: NOT_READY if too few members are up, OVERLOADED, DISK_FULL, BLOB_CORRUPT if
                the copy here is damaged.
        """
        voters = self._voters()
        others = [voter for voter in voters if voter.id != self._me()]
        wanted = len(voters) // 2 + 1 - (len(voters) - len(others))
        if wanted <= 0:
            return
        tasks = [
            self._start(voter.address, digest)
            for voter in others
            if self._behind.get(voter.address, 0) < BLOB_BEHIND_MAX
        ]
        if len(tasks) < wanted:
            raise StateError(
                ErrorCode.OVERLOADED, "replication of blobs is overloaded", "send it again"
            )
        failures: list[BaseException] = []
        for given in asyncio.as_completed(tasks):
            try:
                await given
            except RollqError as error:
                failures.append(error)
                if len(tasks) - len(failures) < wanted:
                    raise _too_few(digest, failures, len(voters)) from None
            else:
                wanted -= 1
                if not wanted:
                    return

    async def take(self, digest: Digest) -> None:
        """Fetch a blob into the store, from any member that has it.

        Raises:
            RollqError: of the last member tried; BLOB_MISSING if no member has it.
        """
        if await self._has(digest):
            return
        others = [voter.address for voter in self._voters() if voter.id != self._me()]
        lookups = [asyncio.ensure_future(self._locate(address, digest)) for address in others]
        failure: RollqError = blob_missing(digest)
        try:
            for answer in asyncio.as_completed(lookups):
                try:
                    await self._fetch(digest, *await answer)
                except RollqError as error:
                    log.info("blob %s: %s", digest_to_text(digest), error)
                    failure = error
                    if isinstance(error, DiskError):
                        break
                else:
                    return
        finally:
            await end_tasks(lookups)
        raise failure

    def peer(self, address: str) -> BlobClient:
        """The blob link to a member, opened on first use."""
        peer = self._peers.get(address)
        if peer is None:
            patience_s = BLOB_PEER_PATIENCE_MS / 1000
            peer = BlobClient(
                [address],
                self._group,
                MEMBER,
                patience_s,
                pool=self._pool,
                pace=self._pace,
                credentials=self._credentials,
                tls=self._tls,
            )
            self._peers[address] = peer
        return peer

    # --- helpers

    async def _locate(self, address: str, digest: Digest) -> tuple[str, int]:
        size = (await self.peer(address).have((digest,))).get(digest)
        if size is None:
            raise blob_missing(digest)
        return address, size

    async def _fetch(self, digest: Digest, address: str, size: int) -> None:
        """Fetch from one member; waits if the blob is arriving another way."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def begin() -> None:
            if not turn.done():
                turn.set_result(None)

        self._turns.enter(digest, turn, begin)
        try:
            await turn
            if not await self._has(digest):
                await self.peer(address).fetch(digest, self._store, size)
                log.info("blob %s is fetched from %s", digest_to_text(digest), address)
        finally:
            self._turns.leave(digest, turn)

    async def _has(self, digest: Digest) -> bool:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, self._store.size, digest) is not None

    def _start(self, address: str, digest: Digest) -> asyncio.Task[None]:
        self._behind[address] = self._behind.get(address, 0) + 1
        task = asyncio.get_running_loop().create_task(self._give(address, digest))
        self._tasks[task] = None
        task.add_done_callback(partial(self._given, address))
        return task

    async def _give(self, address: str, digest: Digest) -> None:
        try:
            await self.peer(address).give(digest, partial(self._store.open, digest))
        except RollqError as error:
            text = error.message if address in error.message else f"{address}: {error.message}"
            raise type(error)(error.code, text, error.hint) from None

    def _given(self, address: str, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        self._behind[address] -= 1
        if not task.cancelled() and task.exception() is not None:
            log.info("no copy for %s", task.exception())


def _too_few(digest: Digest, failures: list[BaseException], voters: int) -> RollqError:
    """The error for a blob that too few members could store."""
    text = f"blob {digest_to_text(digest)} is not on a majority of {voters} members: " + "; ".join(
        str(error) for error in failures
    )
    for error in failures:
        if isinstance(error, RollqError) and error.code in PERMANENT:
            return type(error)(error.code, text, error.hint)
    return StateError(ErrorCode.NOT_READY, text, "send it again when a majority is up")


# Failures that a retry does not repair.
PERMANENT = frozenset((ErrorCode.DISK_FULL, ErrorCode.BLOB_CORRUPT))

"""The blobs of a member, as the node uses them: a store, a server, copies, care.

Clients and workers upload to the leader, which confirms when a majority of the voters holds the
blob. Commands that refer to blobs are proposed only then. So whatever the applied state refers to
survives the loss of any minority, and a member that lacks some of it fetches it.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from rollq.base.digests import Digest, digest_to_text
from rollq.base.errors import ErrorCode, RollqError, StateError
from rollq.base.ids import NIL_ID, MemberId
from rollq.base.jobs import BlobRef
from rollq.base.limits import BLOB_LOOKS_MAX
from rollq.raft.types import Member, Role
from rollq.roles.blobs.carrier import make_pool
from rollq.roles.blobs.pace import Throttle
from rollq.roles.blobs.relay import Relay
from rollq.roles.blobs.server import ANY_MEMBER, BlobServer, Greeting
from rollq.roles.member.blobs.care import Care
from rollq.roles.member.blobs.copies import Copies
from rollq.roles.member.blobs.majority import GroupKnowledge, MajorityBlobs
from rollq.roles.member.blobs.member_store import MemberBlobStore
from rollq.roles.member.blobs.relays import Relays
from rollq.roles.member.driver import Driver
from rollq.roles.member.inlining import completed
from rollq.roles.member.outputs import Complete
from rollq.roles.member.setup import MemberSetup
from rollq.roles.service import end_tasks
from rollq.store.blobs.failures import blob_missing
from rollq.store.blobs.keeper import Keeper
from rollq.store.blobs.local import FOLDER, LocalBlobs
from rollq.store.blobs.protocol import BlobStore
from rollq.store.blobs.remote import FsspecBlobs
from rollq.wire.blob_messages import HelloBlobs
from rollq.wire.compression import ZSTD
from rollq.wire.messages import AssignJob, Error, NotLeader, Result, Welcome

T = TypeVar("T")

BUSY_MS = 250
STAGING = "staging"  # in the folder of blobs: uploads for a shared store


class MemberBlobs:
    """Constructed on a thread, as that opens and scans the store. `start` runs on the loop."""

    def __init__(self, setup: MemberSetup, state_dir: Path, driver: Driver) -> None:
        self._setup = setup.blobs
        self._group = setup.group
        self._credentials = setup.credentials
        self._tls = setup.tls
        self._driver = driver
        self.now_ms = steady_clock()
        self._started_ms = self.now_ms()
        self._state = driver.state
        self._store, keeper = self._open(state_dir / FOLDER)
        self._member_store = MemberBlobStore(self._store, keeper, self._setup.lease_ms, self.now_ms)
        self._pace = Throttle(self._is_busy)
        self.server = BlobServer(
            self._member_store,
            self._greet,
            self._stored,
            pace=self._pace,
            heal=self._heal,
            relay=self._relay,
        )
        self._majority = MajorityBlobs()
        self.knowledge = GroupKnowledge(
            self._majority, lambda: driver.state, self._voter_ids, self.now_ms, self._look_for
        )
        self._keeper = keeper
        self._term_seen = 0
        self._applied_index = 0
        self._busy_until_ms = 0
        self._led = False
        self._securing: dict[Digest, asyncio.Task[None]] = {}
        self._keeping: dict[Digest, asyncio.Task[None]] = {}
        self._pool: ThreadPoolExecutor | None = None
        self._care: Care | None = None

    def start(self) -> None:
        """Serve and copy blobs from now on."""
        self._pool = make_pool()
        self._copies = Copies(
            store=self._member_store,
            group=self._group,
            me=lambda: self._driver.raft.member_id,
            voters=self._voters,
            turns=self.server.uploads,
            pool=self._pool,
            pace=self._pace,
            credentials=self._credentials,
            tls=self._tls,
        )
        self._relays = Relays(
            self._store.open_part,
            lambda: self._driver.raft.member_id,
            self._voters,
            self._copies.peer,
        )
        if self._keeper is not None:
            self._care = Care(
                setup=self._setup,
                store=self._store,
                keeper=self._keeper,
                copies=self._copies,
                may_evict=self._may_evict,
                lost=self._majority.forget,
                now_ms=self.now_ms,
            )
            self._care.start()
        self.server.start()

    async def stop(self) -> None:
        """Finish pending writes, and close. Idempotent."""
        pool, self._pool = self._pool, None
        if pool is not None:
            if self._care is not None:
                await self._care.stop()
            await end_tasks(self._keeping.values())
            await end_tasks(self._securing.values())
            await self.server.stop()
            await self._relays.stop()
            await self._copies.stop()
            await asyncio.get_running_loop().run_in_executor(None, pool.shutdown)
        self._store.close()

    @property
    def bytes_stored(self) -> int:
        """Of the blobs here; 0 with a shared store."""
        return 0 if self._keeper is None else self._keeper.bytes_stored

    @property
    def missing_count(self) -> int:
        """The number of blobs that the state refers to and this member lacks."""
        return 0 if self._keeper is None else len(self._keeper.wanted())

    def follow(self) -> None:
        """After every turn: pin what the state refers to, and follow changes of leadership."""
        leads = self._driver.raft.role is Role.LEADER
        if self._led and not leads:
            self.server.redirect_clients(self._not_leader())
        elif leads and not self._led:
            self.server.end_copies()
        self._led = leads
        applied_index = self._driver.state.applied_index
        if applied_index != self._applied_index:
            self._applied_index = applied_index
            self._busy_until_ms = self.now_ms() + BUSY_MS
        if self._keeper is not None:
            self._follow_state(self._keeper)

    # --- blobs of the leader, for peers without blob support

    async def keep(self, data: bytes) -> BlobRef:
        """Store bytes as a blob; returns when a majority holds it.

        Raises:
            RollqError: NOT_READY, OVERLOADED, DISK_FULL and so on.
        """
        digest = await self._on_pool(lambda: hashlib.sha256(data).digest())
        ref = BlobRef(digest, len(data))
        keeping = self._keeping.get(digest)
        if keeping is None:
            keeping = asyncio.get_running_loop().create_task(self._keep(ref, data))
            self._keeping[digest] = keeping
            keeping.add_done_callback(lambda over: self._kept(digest, over))
        await asyncio.shield(keeping)
        return ref

    async def _keep(self, ref: BlobRef, data: bytes) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        turns = self.server.uploads  # serialises writes of the same blob

        def begin() -> None:
            if not turn.done():
                turn.set_result(None)

        turns.enter(ref.digest, turn, begin)
        try:
            await turn
            await self._on_pool(lambda: self._member_store.store_bytes(ref.digest, data))
        finally:
            turns.leave(ref.digest, turn)
        await self._secure(ref.digest)

    def _kept(self, digest: Digest, task: asyncio.Task[None]) -> None:
        del self._keeping[digest]
        if not task.cancelled():
            task.exception()  # retrieved; the waiting callers get it

    async def complete(self, order: Complete) -> AssignJob | Result:
        """Put the contents of blobs into a message.

        Raises:
            RollqError: a blob is missing here and cannot be fetched now, or it is damaged.
        """
        for ref in order.message.blobs:
            if await self._on_pool(partial(self._member_store.size, ref.digest)) != ref.size:
                await self._heal(ref.digest)
        return await self._on_pool(
            lambda: completed(order.message, self._member_store.read, knows_blobs=order.knows_blobs)
        )

    # --- the store and its index

    def _open(self, folder: Path) -> tuple[BlobStore, Keeper | None]:
        if self._setup.url:
            return FsspecBlobs(self._setup.url, folder / STAGING), None
        store = LocalBlobs(folder)
        try:
            keeper = Keeper(store, ((digest, 1) for digest in self._state.blobs))
        except BaseException:
            store.close()
            raise
        self._state.blob_news = []
        return store, keeper

    def _follow_state(self, keeper: Keeper) -> None:
        state = self._driver.state
        lacks = False
        if state is not self._state:  # replaced by a snapshot of the leader
            self._state = state
            state.blob_news = []
            keeper.repin(((digest, 1) for digest in state.blobs), self.now_ms())
            lacks = True
        elif state.blob_news:
            news, state.blob_news = state.blob_news, []
            now_ms = self.now_ms()
            for digest, is_referred_to in news:
                if is_referred_to:
                    keeper.pin(digest)
                    lacks = lacks or not keeper.holds(digest)
                else:
                    keeper.unpin(digest, now_ms)
        if lacks and self._care is not None:
            self._care.wake()

    def _may_evict(self) -> bool:
        """Whether eviction is safe. Leases are lost with a process, and a committed command may not
        be applied here: so not soon after a start, nor without a leader, nor behind it."""
        raft = self._driver.raft
        is_settled = bool(raft.leader_id) and raft.term == self._term_seen
        self._term_seen = raft.term
        return (
            is_settled
            and self._driver.state.applied_index >= raft.commit
            and self.now_ms() >= self._started_ms + self._setup.lease_ms
        )

    # --- callbacks of the server

    def _greet(self, hello: HelloBlobs) -> Greeting:
        raft = self._driver.raft
        if hello.group not in ("", self._group):
            return Error(
                NIL_ID,
                ErrorCode.BAD_HANDSHAKE,
                f"this is the group {self._group!a}, not {hello.group[:64]!a}",
                "check the addresses of the members",
            )
        if hello.who not in ANY_MEMBER and raft.role is not Role.LEADER:
            return self._not_leader()
        features = (ZSTD,) if ZSTD in hello.features else ()
        return Welcome(self._group, raft.member_id, features)

    async def _stored(self, digest: Digest) -> None:
        """A blob was uploaded here; returns when a majority holds it."""
        self._must_lead(digest)
        await self._secure(digest)
        self._must_lead(digest)

    def _relay(self, digest: Digest, size: int, offset: int) -> Relay | None:
        """An upload begins: relay it. With a shared store there are no copies."""
        return None if self._keeper is None else self._relays.begin(digest, size, offset)

    async def _heal(self, digest: Digest) -> None:
        """A peer misses a blob, or found the one here corrupt."""
        if not await self._on_pool(lambda: self._member_store.is_sound(digest)):
            self._majority.forget(digest)
            if self._keeper is not None:
                await self._copies.take(digest)

    def _is_busy(self) -> bool:
        """Whether commands were applied a moment ago, so jobs are active. On any thread."""
        return self.now_ms() < self._busy_until_ms

    # --- majority leases

    def _look_for(self, digest: Digest) -> None:
        """A command refers to a blob without a majority lease; look for one, for the retry."""
        if self._pool is not None and len(self._securing) < BLOB_LOOKS_MAX:
            self._securing_of(digest)

    def _secure(self, digest: Digest) -> asyncio.Future[None]:
        """Have a majority hold a blob; to be awaited."""
        return asyncio.shield(self._securing_of(digest))

    def _securing_of(self, digest: Digest) -> asyncio.Task[None]:
        """The task that has a majority hold a blob; one at a time for each blob."""
        task = self._securing.get(digest)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._spread(digest))
            self._securing[digest] = task
            task.add_done_callback(lambda over: self._secured(digest, over))
        return task

    def _secured(self, digest: Digest, task: asyncio.Task[None]) -> None:
        del self._securing[digest]
        if not task.cancelled():
            task.exception()  # retrieved; the waiting callers get it, if there are any

    async def _spread(self, digest: Digest) -> None:
        until_ms = self.now_ms() + self._setup.lease_ms // 2
        voters = self._voter_ids()
        size = await self._on_pool(lambda: self._member_store.size(digest))
        if self._keeper is not None:
            if size is None:
                await self._copies.take(digest)
                size = await self._on_pool(lambda: self._member_store.size(digest))
            try:
                await self._copies.spread(digest)
            except RollqError as error:
                if error.code is ErrorCode.BLOB_CORRUPT:
                    await self._must_be_sound(digest)
                raise
        if size is None:
            raise blob_missing(digest)
        self._majority.vouch(digest, size, until_ms, voters)

    async def _must_be_sound(self, digest: Digest) -> None:
        if not await self._on_pool(lambda: self._member_store.is_sound(digest)):
            text = f"the copy of {digest_to_text(digest)} here was rotten"
            raise StateError(ErrorCode.NOT_READY, text, "upload it again")

    def _must_lead(self, digest: Digest) -> None:
        if self._driver.raft.role is not Role.LEADER:
            text = f"the leader changed while {digest_to_text(digest)} came"
            raise StateError(ErrorCode.NOT_LEADER, text, "ask the leader")

    # --- helpers

    def _not_leader(self) -> NotLeader:
        raft = self._driver.raft
        return NotLeader(raft.leader_address, tuple(one.address for one in raft.config.voters))

    def _voters(self) -> tuple[Member, ...]:
        return self._driver.raft.config.voters

    def _voter_ids(self) -> tuple[MemberId, ...]:
        return tuple(voter.id for voter in self._driver.raft.config.voters)

    async def _on_pool(self, task: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, task)


def steady_clock() -> Callable[[], int]:
    """Milliseconds since 1970 as of the start, then monotonic: later clock changes have no
    effect."""
    ahead_ns = time.time_ns() - time.monotonic_ns()
    return lambda: (time.monotonic_ns() + ahead_ns) // 1_000_000

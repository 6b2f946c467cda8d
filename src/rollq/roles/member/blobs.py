"""The blobs of a member: its store below the state directory, served on links of their own.

What a client or worker gives goes to the leader. A member is served by any other.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rollq.base.digests import Digest, digest_to_text
from rollq.base.errors import ErrorCode, StateError
from rollq.base.ids import NIL_ID
from rollq.net.link import Link
from rollq.raft.types import Role
from rollq.roles.blobs.server import BlobServer, Greeting
from rollq.roles.member.driver import Driver
from rollq.store.blobs.local import LocalBlobs
from rollq.wire.blob_messages import MEMBER, HelloBlobs
from rollq.wire.compact import Message
from rollq.wire.compression import ZSTD
from rollq.wire.messages import Error, NotLeader, Welcome

FOLDER: Final = "blobs"
BUSY_MS: Final = 250


class MemberBlobs:
    """Store and server. Making one opens the store, which waits for the disk."""

    def __init__(self, state_dir: Path, group: str, driver: Driver) -> None:
        self.store = LocalBlobs(state_dir / FOLDER)
        self.server = BlobServer(self.store, self._greet, self._stored, self._is_busy)
        self._group = group
        self._driver = driver
        self._applied_index = 0
        self._busy_until = 0.0

    def takes(self, link: Link, messages: Sequence[Message]) -> bool:
        """Whether a link is for blobs; what came on it is dealt with then."""
        if link not in self.server and not isinstance(messages[0], HelloBlobs):
            return False
        self.server.hear(link, messages)
        return True

    async def stop(self) -> None:
        """Finish what is being written, and close."""
        await self.server.stop()
        self.store.close()

    def _greet(self, hello: HelloBlobs) -> Greeting:
        raft = self._driver.raft
        if hello.group not in ("", self._group):
            return Error(
                NIL_ID,
                ErrorCode.BAD_HANDSHAKE,
                f"this is the group {self._group!a}, not {hello.group[:64]!a}",
                "check the addresses of the members",
            )
        if hello.who != MEMBER and raft.role is not Role.LEADER:
            members = tuple(member.address for member in raft.config.voters)
            return NotLeader(raft.leader_address, members)
        features = (ZSTD,) if ZSTD in hello.features else ()
        return Welcome(self._group, raft.member_id, features)

    def _is_busy(self) -> bool:
        """Whether commands were applied a moment ago: jobs come and go."""
        now = time.monotonic()
        applied_index = self._driver.state.applied_index
        if applied_index != self._applied_index:
            self._applied_index = applied_index
            self._busy_until = now + BUSY_MS / 1000
        return now < self._busy_until

    def _stored(self, digest: Digest) -> asyncio.Future[None]:
        """A blob is in our store; done when that may be told."""
        future = asyncio.get_running_loop().create_future()
        if self._driver.raft.role is Role.LEADER:
            future.set_result(None)
        else:
            text = f"the leader changed while {digest_to_text(digest)} came"
            future.set_exception(StateError(ErrorCode.NOT_LEADER, text, "ask the leader"))
        return future

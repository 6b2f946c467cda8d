"""Links of readers: each has a thread, because an answer may take seconds."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from rollq.base.access import Principal
from rollq.base.errors import ErrorCode
from rollq.base.ids import NIL_ID
from rollq.base.limits import READER_LINKS_MAX, READER_SILENT_MS_MAX
from rollq.net.link import Link
from rollq.net.thread_stream import ThreadStream
from rollq.roles.member.driver import Driver
from rollq.roles.member.readers.copies_keeper import CopiesKeeper
from rollq.roles.member.readers.handlers import HANDLERS
from rollq.roles.member.readers.reader_context import ReaderContext
from rollq.roles.member.readers.session import ReaderSession
from rollq.roles.member.setup import MemberSetup
from rollq.roles.member.tables.exports import Exports
from rollq.store.real_disk import RealDisk
from rollq.wire.compact import Message
from rollq.wire.features import BACKUP, VIEWS
from rollq.wire.messages import Error, Welcome
from rollq.wire.reader_messages import HelloReader

log = logging.getLogger("rollq.readers")

FEATURES: Final = (VIEWS, BACKUP)


class ReaderServer:
    """Serves all readers of a member. Made on the loop, before the member serves."""

    def __init__(
        self,
        driver: Driver,
        disk: RealDisk,
        setup: MemberSetup,
        state_dir: Path,
        wake: Callable[[], None],
    ) -> None:
        self._exports = Exports(state_dir, disk, lambda: driver.state)
        self._context = ReaderContext(
            driver, disk, group=setup.group, wake=wake, exports=self._exports
        )
        self._driver = driver
        self._group = setup.group
        self._copies = CopiesKeeper(state_dir, setup, lambda: driver.state.applied_index)
        self._loop = asyncio.get_running_loop()
        self._streams: dict[Link, ThreadStream] = {}  # of open links
        self._threads: dict[threading.Thread, None] = {}  # each may outlive its link briefly
        self._last_number = 0
        self._copies.start()

    def hear(self, link: Link, messages: Sequence[Message], principal: Principal) -> None:
        """Handle the hello or the requests of a reader."""
        stream = self._streams.get(link)
        if stream is not None:
            stream.feed(messages)
            return
        hello = messages[0]
        assert isinstance(hello, HelloReader), "the door begins with the hello"
        refusal = self._refusal(hello)
        if refusal is not None:
            link.send(refusal)
            link.close(refusal.message)
        else:
            self._begin(link, principal, hello)

    def closed(self, link: Link, reason: str) -> None:
        """A reader's link closed; its thread ends when it notices."""
        stream = self._streams.pop(link, None)
        if stream is not None:
            stream.link_closed(reason)

    def table_of(self, export_id: str, number: int) -> str:
        """The table of a part of an export; empty: unknown."""
        return self._exports.table_of(export_id, number)

    async def stop(self) -> None:
        """Close all links. Idempotent."""
        self._context.stop()
        await self._exports.stop()
        await self._copies.stop()
        for stream in self._streams.values():
            stream.close("the member stops")
        for thread in list(self._threads):
            await self._loop.run_in_executor(None, thread.join)

    def _refusal(self, hello: HelloReader) -> Error | None:
        if hello.group not in ("", self._group):
            return Error(
                NIL_ID,
                int(ErrorCode.BAD_HANDSHAKE),
                f"this is the group {self._group!a}, not {hello.group[:64]!a}",
                f"check the addresses of the members, or name this group: --group {self._group}",
            )
        if len(self._threads) >= READER_LINKS_MAX:
            return Error(
                NIL_ID,
                int(ErrorCode.OVERLOADED),
                f"reader limit reached: {READER_LINKS_MAX} are connected",
                "ask another member, or later",
                retryable=True,
            )
        return None

    def _begin(self, link: Link, principal: Principal, hello: HelloReader) -> None:
        stream = self._streams[link] = ThreadStream(link, READER_SILENT_MS_MAX / 1000)
        session = ReaderSession(self._context, stream, HANDLERS)
        features = tuple(one for one in FEATURES if one in hello.features)
        raft = self._driver.raft
        members = tuple(member.address for member in raft.config.voters)
        welcome = Welcome(self._group, raft.member_id, features, members=members)
        self._last_number += 1

        def serve() -> None:
            try:
                session.serve(welcome)
            finally:  # also after a bug: the slot is free again
                self._loop.call_soon_threadsafe(self._threads.pop, thread, None)

        thread = threading.Thread(target=serve, name=f"reader-{self._last_number}", daemon=True)
        self._threads[thread] = None
        log.info("reader connected from %s", principal.address)
        thread.start()

"""Takes links of readers over from the loop: a socket and a thread each."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from rollq.base.access import Principal
from rollq.base.errors import ErrorCode
from rollq.base.ids import NIL_ID
from rollq.base.limits import READER_LINKS_MAX
from rollq.net.link import Link
from rollq.roles.member.driver import Driver
from rollq.roles.member.readers.columns_keeper import ColumnsKeeper
from rollq.roles.member.readers.desk import Desk
from rollq.roles.member.readers.handlers import HANDLERS
from rollq.roles.member.readers.session import ReaderSession
from rollq.roles.member.setup import MemberSetup
from rollq.roles.member.tables.exports import Exports
from rollq.store.real_disk import RealDisk
from rollq.wire.compact import Message
from rollq.wire.messages import Error, Welcome
from rollq.wire.reader_messages import HelloReader

log = logging.getLogger("rollq.readers")


class ReaderServer:
    """All readers of one member. Made on the loop, when the member is about to serve."""

    def __init__(
        self,
        driver: Driver,
        disk: RealDisk,
        setup: MemberSetup,
        state_dir: Path,
        wake: Callable[[], None],
    ) -> None:
        self._exports = Exports(state_dir, disk, lambda: driver.state)
        self._desk = Desk(driver, disk, setup.group, wake, self._exports)
        self._driver = driver
        self._group = setup.group
        self._columns = ColumnsKeeper(state_dir, setup.group, setup.columns_niceness)
        self._loop = asyncio.get_running_loop()
        self._threads: dict[ReaderSession, threading.Thread] = {}
        self._last_number = 0
        self._columns.start()

    def hear(self, link: Link, messages: Sequence[Message], principal: Principal) -> None:
        """A reader said hello."""
        hello = messages[0]
        assert isinstance(hello, HelloReader), "the link is given away with its hello"
        refusal = self._refusal(hello)
        if refusal is not None:
            link.send(refusal)
            link.close(refusal.message)
        else:
            self._take_over(link, principal)

    def closed(self, link: Link, reason: str) -> None:
        """Its thread goes on with the socket."""

    async def stop(self) -> None:
        """Hang up on everybody. Twice is no error."""
        self._desk.stop()
        await self._exports.stop()
        await self._columns.stop()
        threads = list(self._threads.values())
        for session in self._threads:
            session.hang_up()
        for thread in threads:
            await self._loop.run_in_executor(None, thread.join)

    def _refusal(self, hello: HelloReader) -> Error | None:
        if hello.group not in ("", self._group):
            return Error(
                NIL_ID,
                int(ErrorCode.BAD_HANDSHAKE),
                f"this is the group {self._group!a}, not {hello.group[:64]!a}",
                "check the addresses of the members",
            )
        if len(self._threads) >= READER_LINKS_MAX:
            return Error(
                NIL_ID,
                int(ErrorCode.OVERLOADED),
                f"{READER_LINKS_MAX} readers are here already",
                "ask another member, or later",
                retryable=True,
            )
        return None

    def _take_over(self, link: Link, principal: Principal) -> None:
        sock = link.release("it is a reader's, and goes on beside the loop")
        session = ReaderSession(self._desk, link.connection, sock, HANDLERS, principal)
        welcome = Welcome(self._group, self._driver.raft.member_id)
        self._last_number += 1

        def serve() -> None:
            try:
                session.serve(welcome)
            finally:  # also if one of us made a mistake: the place is free again
                self._loop.call_soon_threadsafe(self._threads.pop, session, None)

        thread = threading.Thread(target=serve, name=f"reader-{self._last_number}", daemon=True)
        self._threads[session] = thread
        log.info("reader connected from %s", principal.address)
        thread.start()

"""What a reader's thread may see of its member."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, TypeVar

from rollq.base.errors import ErrorCode, StateError
from rollq.base.limits import READER_WAIT_MS_MAX, READER_WAIT_STEP_MS
from rollq.history.segments import Segments
from rollq.raft.types import Role, SnapshotMeta
from rollq.roles.member.driver import Driver
from rollq.roles.member.tables.exports import Exports
from rollq.store.disk import Disk

T = TypeVar("T")

ELSEWHERE = "ask another member, or later"
SOUND_MAX: Final = 16_384  # of more segments, those that were verified first are verified again


class MemberView:
    """One for all readers of a member. Made on the loop; its methods are called on threads.

    Attributes:
        disk: of the member; reading is safe on any thread.
        segments: the sealed history.
        group: of the member.
        exports: tables that are written down.
    """

    def __init__(
        self, driver: Driver, disk: Disk, group: str, wake: Callable[[], None], exports: Exports
    ) -> None:
        self.disk = disk
        self.exports = exports
        self.segments = Segments(disk)
        self.group = group
        self._driver = driver
        self._wake = wake
        self._loop = asyncio.get_running_loop()
        self._ending = threading.Event()
        self._sound: dict[tuple[int, int], None] = {}  # segments that were verified here

    @property
    def applied_index(self) -> int:
        """How far this member has applied the log."""
        return self._driver.state.applied_index

    @property
    def leads(self) -> bool:
        """Whether this member is the leader."""
        return self._driver.raft.role is Role.LEADER

    def stop(self) -> None:
        """Whoever waits, waits no longer. On the loop."""
        self._ending.set()

    def on_loop(self, task: Callable[[Driver], T]) -> T:
        """Do something small between two turns of the loop, and wait for it."""
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(task(self._driver))
            except Exception as error:
                future.set_exception(error)

        self._must_go_on()
        self._loop.call_soon_threadsafe(run)
        try:
            return future.result(READER_WAIT_MS_MAX / 1000)
        except TimeoutError:
            raise StateError(ErrorCode.NOT_READY, "member overloaded", ELSEWHERE) from None

    def is_sound(self, first: int, last: int) -> bool:
        """Whether a segment verifies; it is read as a whole for that, once."""
        if (first, last) not in self._sound:
            if not self.segments.is_sound(first, last):
                return False
            self._sound[first, last] = None
            while len(self._sound) > SOUND_MAX:
                self._sound.pop(next(iter(self._sound)), None)
        return True

    def wait_applied(self, index: int) -> None:
        """Return when this member has applied so far.

        Raises:
            StateError: NOT_READY if that takes too long.
        """
        self._wait_until(
            lambda: self.applied_index >= index,
            lambda: f"index {index} is not applied here: {self.applied_index} is",
        )

    def fresh_index(self) -> int:
        """An index that this member has applied, and that is not before anything that was committed
        when this was called.

        Raises:
            StateError: NOT_READY if there is no leader that could tell.
        """
        told: list[int] = []

        def ask(driver: Driver) -> None:
            driver.read_points.ask(driver.raft, told.append)
            self._wake()

        asked = 0

        def is_told() -> bool:
            nonlocal asked
            if asked == len(told):  # not asked yet, or there was no leader to ask
                asked += 1
                self.on_loop(ask)
            return bool(told) and told[-1] > 0

        self._wait_until(is_told, lambda: "no leader says what is committed")
        self.wait_applied(told[-1])
        return told[-1]

    def snapshot_from(self, index: int) -> Future[SnapshotMeta | None]:
        """A snapshot on this member's disk, at an index that it has applied or a later one; None:
        it could not be written."""
        found: Future[SnapshotMeta | None] = Future()

        def ask(driver: Driver) -> None:
            newest = driver.raft.snapshot
            if newest.index >= index:
                found.set_result(newest)
            else:
                driver.snapshots.want(index, found.set_result)
                self._wake()

        self.on_loop(ask)
        return found

    def later(self, task: Callable[[], None]) -> None:
        """Do something small between two turns of the loop, some time; not if the member stops."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(task)

    def check_running(self) -> None:
        """Raises StateError NOT_READY if the member stops."""
        self._must_go_on()

    def _wait_until(self, is_true: Callable[[], bool], complaint: Callable[[], str]) -> None:
        deadline = time.monotonic() + READER_WAIT_MS_MAX / 1000
        while not is_true():
            self._must_go_on()
            if time.monotonic() > deadline:
                raise StateError(ErrorCode.NOT_READY, complaint(), ELSEWHERE)
            self._ending.wait(READER_WAIT_STEP_MS / 1000)

    def _must_go_on(self) -> None:
        if self._ending.is_set():
            raise StateError(ErrorCode.NOT_READY, "the member stops", ELSEWHERE)

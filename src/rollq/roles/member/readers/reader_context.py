"""What the readers of a member share."""

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
SOUND_MAX: Final = 16_384  # verified segments to remember; the oldest are verified again


class ReaderContext:
    """One for all readers of a member. Made on the loop; its methods are called on threads.

    Attributes:
        disk: Of the member; reading is safe on any thread.
        segments: The sealed history.
        group: Of the member.
        exports: Tables written to files.
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
        self._sound: dict[tuple[int, int], None] = {}  # verified segments

    @property
    def applied_index(self) -> int:
        """The last log index applied by this member."""
        return self._driver.state.applied_index

    @property
    def leads(self) -> bool:
        """Whether this member is the leader."""
        return self._driver.raft.role is Role.LEADER

    def stop(self) -> None:
        """Wake all waiting threads with an error. On the loop."""
        self._ending.set()

    def on_loop(self, task: Callable[[Driver], T]) -> T:
        """Run a short task between two turns of the loop, and wait for its result."""
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
        """Wait until this member has applied the log up to an index.

        Raises:
            StateError: NOT_READY if that takes too long.
        """
        self._wait_until(
            lambda: self.applied_index >= index,
            lambda: f"index {index} is not applied here: {self.applied_index} is",
        )

    def fresh_index(self) -> int:
        """A read index that this member has applied: at or after everything committed at the call.

        Raises:
            StateError: NOT_READY without a leader.
        """
        answers: list[int] = []

        def ask(driver: Driver) -> None:
            driver.read_points.ask(driver.raft, answers.append)
            self._wake()

        asked = 0

        def is_answered() -> bool:
            nonlocal asked
            if asked == len(answers):  # not requested yet, or there was no leader
                asked += 1
                self.on_loop(ask)
            return bool(answers) and answers[-1] > 0

        self._wait_until(is_answered, lambda: "no leader says what is committed")
        self.wait_applied(answers[-1])
        return answers[-1]

    def snapshot_from(self, index: int) -> Future[SnapshotMeta | None]:
        """A snapshot on this member's disk, at or after an applied index; None: it failed."""
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
        """Run a short task on the loop later, without waiting; not if the member stops."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(task)

    def check_running(self) -> None:
        """Raises StateError NOT_READY if the member stops."""
        self._must_go_on()

    def _wait_until(self, is_true: Callable[[], bool], problem: Callable[[], str]) -> None:
        deadline = time.monotonic() + READER_WAIT_MS_MAX / 1000
        while not is_true():
            self._must_go_on()
            if time.monotonic() > deadline:
                raise StateError(ErrorCode.NOT_READY, problem(), ELSEWHERE)
            self._ending.wait(READER_WAIT_STEP_MS / 1000)

    def _must_go_on(self) -> None:
        if self._ending.is_set():
            raise StateError(ErrorCode.NOT_READY, "the member stops", ELSEWHERE)

"""Snapshots of a running member: written by a forked child, published by the persist thread.

The child (see `fork`) writes only to files that were open before the fork: its parent may be dead
by then, and a successor may use the disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from functools import partial
from typing import Final

from rollq.base.errors import DiskError, ErrorCode, RollqError
from rollq.base.log_events import SNAPSHOT_FAILED, SNAPSHOT_TAKEN, tell
from rollq.roles.member.driver import Driver
from rollq.roles.member.fork import ChildAnswer, Fork
from rollq.roles.member.snapshot_order import SnapshotOrder
from rollq.store.real_disk import RealDisk

log = logging.getLogger("rollq.member")

NICENESS: Final = 2  # below the loop, but high enough that the log stays short meanwhile


class SnapshotRunner:
    """Runs at most one snapshot at a time, beside the turns of the loop."""

    def __init__(
        self,
        driver: Driver,
        disk: RealDisk,
        persist: Executor,
        done: Callable[[RollqError | None], None],
    ) -> None:
        """Call `maybe_begin` after turns.

        Args:
            driver: Orders the snapshots.
            disk: The member's own.
            persist: The persist thread.
            done: Called on the loop when a snapshot is over; an error must stop the member.
        """
        self._driver = driver
        self._disk = disk
        self._persist = persist
        self._done = done
        self._loop = asyncio.get_running_loop()
        self._order: SnapshotOrder | None = None
        self._fork: Fork | None = None
        self._fork_ms = 0
        self._began_s = 0.0  # of the present phase
        self._ordered_s = 0.0
        self._stopped = False

    def maybe_begin(self) -> None:
        """Start a snapshot if one is due. Raises DiskError if there is no room for its files."""
        if self._order is not None:
            return
        order = self._driver.begin_snapshot()
        if order is None:
            return
        self._order = order
        self._began_s = self._ordered_s = time.perf_counter()
        if not hasattr(os, "fork"):  # written on the loop
            self._publish(order, order.write())
            return
        try:
            written = partial(self._written, order)
            self._fork = Fork(self._disk, order.write, written, niceness=NICENESS)
        except OSError as error:  # no memory or no process slot is free
            self._failed(order, error)

    def stop(self) -> None:
        """Abandon the snapshot under way; its files are removed at the next start."""
        self._stopped = True
        if self._fork is not None:
            self._fork.kill()
            self._fork = None

    def _written(self, order: SnapshotOrder, answer: ChildAnswer) -> None:
        assert self._fork is not None, "no child was started"
        self._fork_ms = self._fork.fork_ms
        self._fork = None
        if answer.given:
            self._publish(order, answer.given)
        elif answer.code:
            self._over(order, DiskError(ErrorCode(answer.code), answer.message, answer.hint))
        else:
            self._failed(order, answer)

    def _failed(self, order: SnapshotOrder, why: object) -> None:
        self._driver.counters.snapshots_failed += 1
        tell(log, SNAPSHOT_FAILED, index=order.index, cause=str(why))
        self._over(order, None)

    def _publish(self, order: SnapshotOrder, written: bytes) -> None:
        self._phase_over("write")
        self._step(order, order.steps(written), order.seal_count)

    def _phase_over(self, phase: str) -> None:
        now_s = time.perf_counter()
        took_ms = int((now_s - self._began_s) * 1000)
        self._driver.counters.snapshot_ms[phase].add(took_ms)
        self._began_s = now_s

    def _step(self, order: SnapshotOrder, steps: Iterator[None], seals_left: int) -> None:
        """Queue one step on the persist thread, and the next one when it is done."""
        counters = self._driver.counters

        def do() -> bool:
            """On the persist thread; true if there are no more steps."""
            began_s = time.perf_counter()
            is_last = next(steps, steps) is steps
            if seals_left > 0:
                counters.seal_ms.add(int((time.perf_counter() - began_s) * 1000))
            return is_last

        def done(future: asyncio.Future[bool]) -> None:
            error = future.exception()
            if error is not None and seals_left > 0:
                counters.seals_failed += 1
            if self._stopped:
                return
            if error is not None and not isinstance(error, RollqError):
                raise error
            if error is None and not future.result():
                self._step(order, steps, seals_left - 1)
                return
            if error is None:
                self._phase_over("publish")
            self._over(order, error)
            self._persist.submit(trim_memory)

        self._loop.run_in_executor(self._persist, do).add_done_callback(done)

    def _over(self, order: SnapshotOrder, error: RollqError | None) -> None:
        self._order = None
        if error is not None:
            self._driver.counters.snapshots_failed += 1
        else:
            self._driver.finish_snapshot(order)
            if order.taken is not None:
                tell(
                    log,
                    SNAPSHOT_TAKEN,
                    index=order.index,
                    bytes=order.file_bytes,
                    compacted_to=order.compact_to,
                    took_ms=int((time.perf_counter() - self._ordered_s) * 1000),
                    fork_ms=int(self._fork_ms),
                )
        self._done(error)


def trim_memory() -> None:
    """Return freed memory to the system, after large objects were dropped."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)

"""Snapshots of a running member: written by a forked child, published by the persist thread.

The child has the memory of the moment of the fork (the system copies a page when somebody writes
to it), so the loop stands still only for the fork itself. Only the thread that forked lives on in
the child: it touches no loop, no lock of another thread and no socket, writes to files that were
open already, answers through a pipe, and dies with its parent.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import logging
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from typing import Final, NoReturn

import msgspec

from rollq.base.errors import DiskError, ErrorCode, RollqError
from rollq.roles.member.driver import Driver
from rollq.roles.member.snapshot_order import SnapshotOrder
from rollq.store.real_disk import RealDisk

log = logging.getLogger("rollq.member")

DESCRIPTORS_MAX: Final = 1 << 20
PR_SET_PDEATHSIG: Final = 1
NICENESS: Final = 2  # behind the loop, but not so far that the log grows long meanwhile


class Answer(msgspec.Struct):
    """What a child says at its end."""

    written: bytes = b""
    code: int = 0  # of a DiskError; 0: none
    message: str = ""
    hint: str = ""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Answer).decode


class SnapshotRunner:
    """At most one snapshot at a time, beside the turns of the loop."""

    def __init__(
        self,
        driver: Driver,
        disk: RealDisk,
        persist: Executor,
        done: Callable[[RollqError | None], None],
    ) -> None:
        """Call `maybe_begin` after turns.

        Args:
            driver: whose snapshots.
            disk: where they go.
            persist: the persist thread.
            done: called on the loop when a snapshot is over; an error must stop the member.
        """
        self._driver = driver
        self._disk = disk
        self._persist = persist
        self._done = done
        self._loop = asyncio.get_running_loop()
        self._order: SnapshotOrder | None = None
        self._child = 0
        self._fork_ms = 0
        self._pipe = -1
        self._answer = bytearray()
        self._stopped = False

    def maybe_begin(self) -> None:
        """Start a snapshot if one is due. Raises DiskError if there is no room for its files."""
        if self._order is not None:
            return
        order = self._driver.begin_snapshot()
        if order is None:
            return
        self._order = order
        if hasattr(os, "fork"):
            self._fork(order)
        else:  # the loop stands still meanwhile
            self._publish(order, order.write())

    def stop(self) -> None:
        """Give up what is under way; its files are removed at the next start."""
        self._stopped = True
        if self._child:
            os.kill(self._child, signal.SIGKILL)
            self._reap()

    def _fork(self, order: SnapshotOrder) -> None:
        self._pipe, answer_to = os.pipe()
        # No handler of ours may run in the child, not even between two of its first steps.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        begun_ns = time.perf_counter_ns()
        try:
            self._child = os.fork()
            if not self._child:
                _write_in_child(order, self._disk, answer_to)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        self._fork_ms = (time.perf_counter_ns() - begun_ns) // 1_000_000
        os.close(answer_to)
        os.set_blocking(self._pipe, False)
        self._answer.clear()
        self._loop.add_reader(self._pipe, self._readable, order)

    def _readable(self, order: SnapshotOrder) -> None:
        data = os.read(self._pipe, 64 * 1024)
        if data:
            self._answer += data
            return
        self._reap()
        try:
            answer = _decode(self._answer)
        except msgspec.MsgspecError:
            answer = Answer(message="the process that wrote it was killed")
        if answer.written:
            self._publish(order, answer.written)
        elif answer.code:
            self._over(order, DiskError(ErrorCode(answer.code), answer.message, answer.hint))
        else:
            log.error("the snapshot at %d failed, the next one may do: %s", order.index, answer)
            self._over(order, None)

    def _reap(self) -> None:
        self._loop.remove_reader(self._pipe)
        os.close(self._pipe)
        os.waitpid(self._child, 0)
        self._child = 0

    def _publish(self, order: SnapshotOrder, written: bytes) -> None:
        self._step(order, order.steps(written))

    def _step(self, order: SnapshotOrder, steps: Iterator[None]) -> None:
        """Do one step after what waits for the disk already, then the next."""

        def done(future: asyncio.Future[bool]) -> None:
            error = future.exception()
            if self._stopped:
                return
            if error is not None and not isinstance(error, RollqError):
                raise error
            if error is None and not future.result():
                self._step(order, steps)
                return
            self._over(order, error)
            self._persist.submit(trim_memory)

        self._loop.run_in_executor(self._persist, _is_last, steps).add_done_callback(done)

    def _over(self, order: SnapshotOrder, error: RollqError | None) -> None:
        self._order = None
        if error is None:
            self._driver.finish_snapshot(order)
            if order.taken is not None:
                log.info(
                    "snapshot at %d, %d bytes; the log begins after %d; the fork took %d ms",
                    order.index,
                    order.taken.size_bytes,
                    order.compact_to,
                    self._fork_ms,
                )
        self._done(error)


def _write_in_child(order: SnapshotOrder, disk: RealDisk, answer_to: int) -> NoReturn:
    """All that the child does."""
    answer = Answer()
    try:
        gc.disable()  # a collection would write to every page
        os.nice(NICENESS)
        _leave_parent(disk.open_fds(), answer_to)
        disk.forked()
        answer.written = order.write()
    except DiskError as error:
        answer = Answer(b"", int(error.code), error.message, error.hint)
    except BaseException as error:
        answer = Answer(message=repr(error))
    with contextlib.suppress(OSError):
        os.write(answer_to, _encode(answer))
    os._exit(0)


def _is_last(steps: Iterator[None]) -> bool:
    """Do the next step; whether there is no other."""
    return next(steps, steps) is steps


def trim_memory() -> None:
    """Give freed memory back to the system: after something large is gone."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _leave_parent(files: list[int], answer_to: int) -> None:
    """Hold nothing of the parent: a socket that we hold would look alive when the parent is not."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    first = 3
    for kept in sorted({answer_to, *files}):
        os.closerange(first, kept)
        first = kept + 1
    os.closerange(first, DESCRIPTORS_MAX)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())

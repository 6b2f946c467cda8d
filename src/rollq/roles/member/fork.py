"""Run work on the present memory beside the loop, in a forked child.

The child has the memory of the moment of the fork (copy on write), so the loop stands still only
for the fork itself. Only the forking thread lives on in the child: it touches no loop, no lock of
another thread and no socket, answers through a pipe, and dies with its parent.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import os
import signal
import time
from collections.abc import Callable
from typing import Final, NoReturn

import msgspec

from rollq.base.errors import DiskError, StateError
from rollq.store.real_disk import RealDisk

DESCRIPTORS_MAX: Final = 1 << 20
PR_SET_PDEATHSIG: Final = 1
READ_BYTES: Final = 64 * 1024


class ChildAnswer(msgspec.Struct):
    """The answer of a child: the result of its work, or the error."""

    given: bytes = b""
    code: int = 0  # of a DiskError or StateError; 0: none
    message: str = ""
    hint: str = ""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ChildAnswer).decode


class Fork:
    """One child process."""

    def __init__(
        self,
        disk: RealDisk,
        work: Callable[[], bytes],
        done: Callable[[ChildAnswer], None],
        *,
        niceness: int,
    ) -> None:
        """Fork now; on the loop.

        Args:
            disk: The member's own; the child may read it, and write to open files.
            work: Runs in the child. Its result must not be empty.
            done: Called on the loop with the child's answer, unless it is killed before.
            niceness: Added to that of the loop.

        Raises:
            OSError: the system has no room for another process.
        """
        self._loop = asyncio.get_running_loop()
        self._done = done
        self._answer = bytearray()
        self._pipe, answer_to = os.pipe()
        # No signal handler of ours may run in the child, not even between two of its first steps.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        begun_ns = time.perf_counter_ns()
        try:
            self._pid = os.fork()
            if not self._pid:
                _work_in_child(work, disk, answer_to, niceness)
        except OSError:
            os.close(self._pipe)
            os.close(answer_to)
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        self.fork_ms = (time.perf_counter_ns() - begun_ns) // 1_000_000
        os.close(answer_to)
        os.set_blocking(self._pipe, False)
        self._loop.add_reader(self._pipe, self._readable)

    def kill(self) -> None:
        """End the child; `done` is not called. Once, and not after `done` was called."""
        os.kill(self._pid, signal.SIGKILL)
        self._reap()

    def _readable(self) -> None:
        data = os.read(self._pipe, READ_BYTES)
        if data:
            self._answer += data
            return
        self._reap()
        try:
            answer = _decode(self._answer)
        except msgspec.MsgspecError:
            answer = ChildAnswer(message="the child process was killed")
        self._done(answer)

    def _reap(self) -> None:
        self._loop.remove_reader(self._pipe)
        os.close(self._pipe)
        os.waitpid(self._pid, 0)


def _work_in_child(
    work: Callable[[], bytes], disk: RealDisk, answer_to: int, niceness: int
) -> NoReturn:
    """The whole life of the child."""
    answer = ChildAnswer()
    try:
        gc.disable()  # a collection would write to every page
        os.nice(niceness)
        _leave_parent(disk.open_fds(), answer_to)
        disk.forked()
        answer.given = work()
    except (DiskError, StateError) as error:
        answer = ChildAnswer(b"", int(error.code), error.message, error.hint)
    except BaseException as error:
        answer = ChildAnswer(message=repr(error))
    with contextlib.suppress(OSError):
        os.write(answer_to, _encode(answer))
    os._exit(0)


def _leave_parent(files: list[int], answer_to: int) -> None:
    """Close all descriptors of the parent: an inherited socket would stay open after its death."""
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

"""The pool of warm processes for plain functions: each runs one call at a time.

If a process dies, or is killed at a limit or by a cancel, its call fails and it is replaced.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Final, cast

import msgspec
from msgspec import UNSET

from rollq.base.amounts import size_text
from rollq.base.environ import fits
from rollq.base.ids import NIL_ID
from rollq.base.job_events import JobProgress
from rollq.base.jobs import Status
from rollq.base.limits import FRAME_BYTES_MAX, STREAM_WHOLE_BYTES_MAX, VALUE_BYTES_MAX
from rollq.base.outcomes import SIGNAL_BASE
from rollq.roles.worker import warm_main
from rollq.roles.worker.capture import SpooledTail
from rollq.roles.worker.child_processes import ChildProcesses
from rollq.roles.worker.directories import Directories, Directory
from rollq.roles.worker.environment import INTERPRETER
from rollq.roles.worker.exits import watch_exit
from rollq.roles.worker.fd_poller import FdPoller
from rollq.roles.worker.fitting import END_BYTES, set_stream
from rollq.roles.worker.outputs import ExecutionEnd, SeparatePart
from rollq.roles.worker.sandbox.launcher import NotLayeredError
from rollq.roles.worker.sandbox.paths import module_paths
from rollq.roles.worker.sandbox.sandbox import NO_PLACE, Place, Sandbox
from rollq.roles.worker.warm_main import LENGTH_BYTES, Reply, WarmRequest

log = logging.getLogger("rollq.worker")

RESTART_S: Final = 1.0  # pause after a process died during its start
_decode_reply: Final = msgspec.msgpack.Decoder(Reply).decode


class WarmCall:
    """A waiting or running call. `on_begin` is called when a process takes it, `on_end` once."""

    __slots__ = (
        *("blobs", "call", "cancelled", "notes"),
        *("on_begin", "on_end", "on_progress", "process"),
    )

    def __init__(
        self,
        call: WarmRequest,
        on_begin: Callable[[], None],
        on_end: Callable[[ExecutionEnd], None],
        on_progress: Callable[[JobProgress], None],
        *,
        blobs: Sequence[Path],
    ) -> None:
        self.call = call
        self.blobs = blobs  # for files of its arguments
        self.on_begin = on_begin
        self.on_end = on_end
        self.on_progress = on_progress
        self.process: WarmProcess | None = None
        self.notes: list[str] = []
        self.cancelled = False

    def end_softly(self, why: str) -> None:
        """Raise TimeoutError in the function."""
        self.notes.append(why)
        if self.process is not None:
            self.process.signal(signal.SIGTERM)

    def end_hard(self, why: str) -> None:
        """Kill the process that runs it."""
        self.notes.append(why)
        if self.process is not None:
            self.process.kill()


class WarmPool:
    """One process for each slot of the worker, started at once and kept. Large returned values are
    written to unnamed files in the folder of `directories`.

    In a sandbox each process has a temporary directory and a user of its own: its calls share them.
    Limits are those of the process.
    """

    def __init__(
        self,
        poller: FdPoller,
        children: ChildProcesses,
        modules: tuple[str, ...],
        size: int,
        *,
        directories: Directories,
        sandbox: Sandbox,
        measuring: Executor,
    ) -> None:
        self.loop = poller.loop
        self.poller = poller
        self.children = children
        self.modules = modules
        self.directories = directories
        self.sandbox = sandbox
        self.measuring = measuring
        self.folder = directories.path
        self._environ = {
            name: value for name, value in os.environ.items() if fits(name, INTERPRETER)
        }
        self._size = size
        self._processes: dict[WarmProcess, None] = {}
        self._idle: list[WarmProcess] = []
        self._waiting: deque[WarmCall] = deque()  # bounded by the worker's slots
        self._open = False

    async def start(self) -> None:
        """Start the processes; each takes calls once it is ready."""
        self._open = True
        for _ in range(self._size):
            await self._add()

    def close(self) -> None:
        """Kill all processes; running calls are not reported."""
        self._open = False
        self._waiting.clear()
        for process in list(self._processes):
            process.call = None
            process.kill()

    def run(self, call: WarmCall) -> None:
        """Run a call now, or when a process is free."""
        if self._idle:
            self._idle.pop().run(call)
        else:
            self._waiting.append(call)

    def drop(self, call: WarmCall) -> bool:
        """Remove a call that has not started; false if it has."""
        if call in self._waiting:
            self._waiting.remove(call)
            return True
        return False

    def sample(self) -> None:
        """Sample the processes; called a few times a second."""
        for process in list(self._processes):
            process.sample()

    def ready(self, process: WarmProcess) -> None:
        """A process is free."""
        if self._waiting:
            process.run(self._waiting.popleft())
        else:
            self._idle.append(process)

    def died(self, process: WarmProcess) -> None:
        """A process has exited; replace it."""
        self._processes.pop(process, None)
        if process in self._idle:
            self._idle.remove(process)
        if self._open:
            if not process.was_ready:
                log.error("function process exited during startup: see its output above")
            self.loop.call_later(0 if process.was_ready else RESTART_S, self._refill)

    def _refill(self) -> None:
        if self._open:
            task = self.loop.create_task(self._add())
            task.add_done_callback(self._refilled)

    def _refilled(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("function process cannot be started: %s", error)
            self.loop.call_later(RESTART_S, self._refill)

    async def _add(self) -> None:
        if not self._open:  # closed since this was planned: nothing would end the process
            return
        ours, theirs = socket.socketpair()
        process = WarmProcess(self)
        argv = [sys.executable, "-m", warm_main.__name__, *self.modules]
        with theirs:
            # Output of functions goes to the worker's log; it is no result.
            stdio = (theirs.fileno(), 2, 2)
            try:
                place, environ = self._place(process)
                process.pid = self.children.spawn(
                    [os.fsencode(arg) for arg in argv],
                    [],
                    os.fsencode(os.getcwd()),
                    stdio,
                    environ,
                    place=place,
                )
            except (OSError, NotLayeredError):
                process.leave()
                ours.close()
                raise
        self._processes[process] = None
        process.socket = ours
        watch_exit(self.poller, process.pid, process.exited)
        ours.setblocking(False)
        await self.loop.create_unix_connection(lambda: process, sock=ours)

    def _place(self, process: WarmProcess) -> tuple[Place, dict[str, str]]:
        """A directory and a user of its own, if it is in a sandbox, and its environment."""
        if not self.sandbox.is_launching:
            return NO_PLACE, self._environ
        process.user = self.sandbox.take_user()
        process.directory = directory = self.directories.take(NIL_ID)
        if process.user:
            directory.hand_over(process.user)
        own, tmp = directory.folders
        environ = self._environ | {"TMPDIR": tmp}
        if process.user:
            environ["HOME"] = tmp
        reads = (*module_paths(), os.path.realpath(os.getcwd()))
        return Place((own, tmp), reads, process.user), environ


class WarmProcess(asyncio.Protocol):
    """The worker's end of one process."""

    def __init__(self, pool: WarmPool) -> None:
        self.pid = 0
        self.user = 0  # of its own, until the sandbox takes it over
        self.directory: Directory | None = None  # of its own, in a sandbox
        self.socket: socket.socket | None = None  # for descriptors, which the transport cannot send
        self.was_ready = False
        self.call: WarmCall | None = None
        self._pool = pool
        self._transport: asyncio.WriteTransport | None = None
        self._buffer = bytearray()
        self._reply: Reply | None = None  # a reply whose value is arriving
        self._value: SpooledTail | None = None
        self._measure: Future[int] | None = None  # of its directory, under way
        self._causes: list[str] = []  # why the worker killed it
        self._is_killed = False  # its last reply may still arrive

    def run(self, call: WarmCall) -> None:
        """Send it a call; it must be idle."""
        self.call = call
        call.process = self
        call.on_begin()
        assert self._transport is not None, "an idle process is connected"
        self._transport.write(warm_main.pack(call.call))

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._pool.children.signal_group(self.pid, number)

    def kill(self) -> None:
        """Kill it with all its descendants."""
        self._is_killed = True
        self._pool.children.kill(self.pid)

    def leave(self) -> None:
        """It was not started: return its user and directory."""
        self._pool.sandbox.give_user(self.user)
        self._discard()

    def sample(self) -> None:
        """Measure its disk usage."""
        limit_bytes = self._pool.sandbox.setup.disk_bytes
        if limit_bytes and self.directory is not None and self._measure is None:
            self._measure = self._pool.measuring.submit(self.directory.used_bytes, limit_bytes)
            self._measure.add_done_callback(self._measured)

    def _measured(self, measure: Future[int]) -> None:
        """The directory was measured; on a thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._pool.loop.call_soon_threadsafe(self._check_room, measure.result())

    def _check_room(self, used_bytes: int) -> None:
        self._measure = None
        limit_bytes = self._pool.sandbox.setup.disk_bytes
        if used_bytes > limit_bytes and self.directory is not None:
            limit, used = size_text(limit_bytes), size_text(used_bytes)
            self._causes.append(f"killed, disk limit of {limit} exceeded: it wrote {used} or more")
            self.kill()

    def _discard(self) -> None:
        directory, self.directory = self.directory, None
        if directory is not None:
            self._pool.directories.discard(directory)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open."""
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        """Handle received bytes: replies, or a large value."""
        if self._value is not None:
            self._take_value(data)
            return
        self._buffer += data
        while self._value is None and len(self._buffer) >= LENGTH_BYTES:
            buffer = self._buffer
            length = int.from_bytes(buffer[:LENGTH_BYTES], "little")
            if length > FRAME_BYTES_MAX:
                self.kill()
                return
            end = LENGTH_BYTES + length
            if len(buffer) < end:
                return
            reply = _decode_reply(bytes(buffer[LENGTH_BYTES:end]))
            if reply.progress is not None or reply.wants_blobs:
                self._buffer = buffer[end:]
                if self.call is not None and reply.progress is not None:
                    self.call.on_progress(reply.progress)
                if self.call is not None and reply.wants_blobs:
                    self._send_blobs(self.call)
                continue
            self._buffer = bytearray()
            if reply.large:
                whole_max = VALUE_BYTES_MAX if reply.data_kind else STREAM_WHOLE_BYTES_MAX
                self._reply, self._value = reply, SpooledTail(self._pool.folder, whole_max)
                self._take_value(bytes(buffer[end:]))
            else:
                self._replied(reply)

    def _send_blobs(self, call: WarmCall) -> None:
        """Send the blobs as open files, as it cannot access our store. It waits for them, so the
        socket has space."""
        assert self.socket is not None, "started"
        fds: list[int] = []
        try:
            for path in call.blobs:
                fds.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
            for first in range(0, len(fds), warm_main.FDS_AT_ONCE):
                some = fds[first : first + warm_main.FDS_AT_ONCE]
                is_last = first + len(some) == len(fds)
                mark = warm_main.LAST if is_last else warm_main.MORE
                socket.send_fds(self.socket, [mark], some)
        except OSError as error:
            call.end_hard(f"its arguments cannot be read: {error.strerror}")
        finally:
            for fd in fds:
                os.close(fd)

    def _take_value(self, data: bytes) -> None:
        value, reply = self._value, self._reply
        assert value is not None, "called only for a large value"
        assert reply is not None, "set with the value"
        if data:
            value.feed(data)
        if value.total >= reply.large_bytes:
            self._reply = self._value = None
            self._replied(reply, value)

    def _replied(self, reply: Reply, value: SpooledTail | None = None) -> None:
        if not self.was_ready and reply.stderr:
            log.error("function process cannot run all tasks: %s", reply.stderr)
        self.was_ready = True
        call, self.call = self.call, None
        box = self._pool.children.box_of(self.pid)
        causes: list[str] = []
        if box is not None and reply.status == Status.FAILED:
            causes = box.why_call_failed(reply.stderr)
        if causes:
            self.kill()  # leftovers of the call would affect the next one
        elif not self._is_killed:
            self._pool.ready(self)
        if call is not None:
            ending = ExecutionEnd(
                Status.FAILED if call.notes else reply.status,
                reply.stdout,
                reply.stderr,
                reply.exit_code,
                user_ms=reply.user_ms,
                system_ms=reply.system_ms,
                data=UNSET if reply.data is None else reply.data,
                is_value=reply.is_value,
                data_kind=reply.data_kind or UNSET,
            )
            ending.notes.extend((*call.notes, *causes))
            if value is not None:
                _add_value(ending, reply.large, value)
            call.on_end(ending)
        elif value is not None:
            value.close()

    def exited(self) -> None:
        """The process has exited: its call has failed."""
        reaped = self._pool.children.reap(self.pid)
        self._discard()
        if self._transport is not None:
            self._transport.close()
        if self._value is not None:
            self._value.close()
            self._value = None
        call, self.call = self.call, None
        self._pool.died(self)
        if call is not None:
            code = os.waitstatus_to_exitcode(reaped.status)
            ending = ExecutionEnd(
                Status.CANCELLED if call.cancelled else Status.FAILED,
                exit_code=code if code >= 0 else SIGNAL_BASE - code,
                signal=max(-code, 0),
            )
            causes = [*call.notes, *self._causes, *reaped.causes]
            ending.notes.extend(causes or ["the process that ran the function is gone"])
            call.on_end(ending)


def _add_value(ending: ExecutionEnd, name: str, value: SpooledTail) -> None:
    """Add a large value as a separate part; if it is larger than values may be, the job fails."""
    if value.is_cut or not value.is_spooled:
        value.close()
        ending.status = Status.FAILED
        ending.exit_code = ending.exit_code or 1
        ending.notes.append(f"the returned {value.total} bytes are lost: {value.cut}")
        return
    ending.separate = (SeparatePart(name, value),)
    if name == "stdout":
        set_stream(ending, name, value.end()[-END_BYTES:], value.total)

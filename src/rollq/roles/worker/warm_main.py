"""A warm process: imports the application once, then runs one function call after another.

Talks to the worker over the socket on its stdin: frames of a 4-byte little-endian length and
msgpack. A `WarmRequest` comes in, a `Reply` goes out, followed by the raw value if that is large;
the first reply reports the end of imports and initializers, with their errors. During a call,
replies may report its progress, and one may request the blobs of its arguments, which come as open
files. On SIGTERM the running function gets `TimeoutError`, and may clean up.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
import traceback
from _signal import getsignal  # type: ignore[import-not-found]
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any, Final

import msgspec
from msgspec import UNSET

from rollq.base.ids import NIL_ID
from rollq.base.job_events import JobProgress
from rollq.base.jobs import AttemptRef, ParentEnd
from rollq.base.limits import INLINE_BYTES_MAX
from rollq.roles.worker.app import load_apps, raised, raised_value, returned, returned_value
from rollq.roles.worker.bundles import BundleRun
from rollq.roles.worker.call_files import CallFiles, Listed
from rollq.roles.worker.outputs import ExecutionEnd
from rollq.tasks import ATTEMPT, ENDS, Task, report_to
from rollq.values.calls import Bundle, is_bundle, unpack_call
from rollq.values.codec import Buffer, size_of

NO_ATTEMPT: Final = AttemptRef(NIL_ID, 0, 0)


class WarmRequest(msgspec.Struct, array_like=True, gc=False):
    """A call of a function. `args` is None for a bare payload, or a call with values."""

    name: str
    args: tuple[str, ...] | None
    body: bytes
    env: dict[str, str] | None = None  # set during the call
    call: bytes | None = None  # Python values
    files: Listed = ()  # of the values
    ref: AttemptRef = NO_ATTEMPT
    ends: tuple[ParentEnd, ...] = ()  # of the parents of the job


class Reply(msgspec.Struct, array_like=True, gc=False):
    """The end of a call; fields as in `ExecutionEnd`."""

    status: int = 0
    stdout: str = ""
    stderr: str = ""
    exit_code: int = 0
    data: bytes | None = None
    user_ms: int = 0
    system_ms: int = 0
    is_value: bool = False
    large: str = ""  # the field whose bytes follow the frame
    large_bytes: int = 0
    progress: JobProgress | None = None  # then only this field counts: the call goes on
    data_kind: str = ""
    wants_blobs: bool = False  # the call waits for the blobs of its arguments


LENGTH_BYTES = 4
LIMIT_REACHED: Final = "the job's time limit is reached"
FDS_AT_ONCE: Final = 250  # the kernel permits 253 in one message
MORE: Final = b"+"  # sent with descriptors: more follow
LAST: Final = b"."
_sending = threading.Lock()  # a thread of a function may report progress while the call ends
SIGTERM = int(signal.SIGTERM)
encode = msgspec.msgpack.Encoder().encode
_decode_call = msgspec.msgpack.Decoder(WarmRequest).decode


def pack(value: WarmRequest | Reply) -> bytes:
    """Encode a frame."""
    body = encode(value)
    return len(body).to_bytes(LENGTH_BYTES, "little") + body


def main(modules: list[str]) -> None:
    """Serve calls until the worker closes the socket."""
    link = socket.socket(fileno=os.dup(0))
    limit = Limit()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    tasks = load_apps(modules)
    causes = _initialize(tasks)
    link.sendall(pack(Reply(stderr="\n".join(dict.fromkeys(causes.values())))))
    report_to(lambda _, progress: _tell(link, progress))
    before = os.times()
    with link, link.makefile("rb") as incoming:
        while head := incoming.read(LENGTH_BYTES):
            call = _decode_call(incoming.read(int.from_bytes(head, "little")))
            ATTEMPT.set(call.ref)
            ENDS.set(call.ends)
            limit.is_reached = False
            parts: list[Buffer] = []
            task = tasks.get(call.name)
            if task is None:
                ending = raised(LookupError(f"{' '.join(modules)}: no task {call.name!r}"))
            elif call.name in causes:
                error = RuntimeError(causes[call.name])
                ending = raised(error) if call.call is None else raised_value(error)
            elif call.call is None:
                ending = _run(task, call, limit)
            else:
                ending, parts = _run_call(link, task, call, limit)
            after = os.times()
            user_ms = int((after.user - before.user) * 1000)
            system_ms = int((after.system - before.system) * 1000)
            _send(link, ending, parts, user_ms, system_ms)
            before = after  # waiting uses no CPU time


def _initialize(tasks: Mapping[str, Task[..., Any]]) -> dict[str, str]:
    """Call each initializer once; returns the errors of failed ones, by task name."""
    done: dict[Callable[[], Any], str] = {}
    for task in tasks.values():
        run = task.initializer
        if run is None or run in done:
            continue
        done[run] = ""
        try:
            run()
        except BaseException as error:  # SystemExit too, or the process would restart for ever
            name = getattr(run, "__qualname__", repr(run))
            traceback.print_exception(error)
            done[run] = f"the initializer {name} raised {type(error).__name__}: {error}"
    return {
        name: done[task.initializer]
        for name, task in tasks.items()
        if task.initializer is not None and done[task.initializer]
    }


class Limit:
    """The SIGTERM handler: raises TimeoutError while a function runs, else does nothing.

    The handler stays installed, as setting it for each call would cost as much as the call. An
    application may have replaced it, so it is checked before each call."""

    __slots__ = ("_handler", "holds", "is_reached")

    def __init__(self) -> None:
        self.holds = False
        self.is_reached = False  # for the running job
        self._handler = self._reached

    def watch(self) -> None:
        """A function starts."""
        # `signal.getsignal` converts to an enum, which takes longer than a call.
        if getsignal(SIGTERM) is not self._handler:
            signal.signal(signal.SIGTERM, self._handler)
        self.holds = True

    def check(self) -> None:
        """Raise the timeout before a further call of the same job."""
        if self.is_reached:
            raise TimeoutError(LIMIT_REACHED)

    def _reached(self, number: int, frame: FrameType | None) -> None:
        self.is_reached = True
        if self.holds:
            self.holds = False
            raise TimeoutError(LIMIT_REACHED)


def _run(task: Task[..., Any], call: WarmRequest, limit: Limit) -> ExecutionEnd:
    try:
        try:
            limit.watch()
            given = call.args
            args = task.payload_args(call.body) if given is None else task.call_args(given)
            if call.env is None:
                return returned(task.function(*args))
            with _environment(call.env):
                return returned(task.function(*args))
        finally:
            limit.holds = False
    except Exception as error:
        return raised(error, task.exit_code_of(error))


def _run_call(
    link: socket.socket, task: Task[..., Any], call: WarmRequest, limit: Limit
) -> tuple[ExecutionEnd, list[Buffer]]:
    """Run a call with values, or a bundle; returns its end, and the parts of its data."""
    files = CallFiles(call.files, lambda: _receive_blobs(link))
    packed = call.call or b""
    try:
        try:
            with _environment(call.env or {}):
                if is_bundle(packed):
                    return _run_bundle(BundleRun(task, Bundle(packed, files)), task, limit)
                limit.watch()
                args, kwargs = task.checked_values(*unpack_call(packed, files))
                return returned_value(task.function(*args, **kwargs))
        finally:
            limit.holds = False
            files.close()
    except Exception as error:
        return raised_value(error, task.exit_code_of(error)), []


def _run_bundle(
    run: BundleRun, task: Task[..., Any], limit: Limit
) -> tuple[ExecutionEnd, list[Buffer]]:
    """Run the calls one after the other."""
    values, checked, function = run.bundle.values, task.checked_values, task.function
    for row in run.bundle.rows:
        try:
            try:
                limit.watch()
                limit.check()
                args, kwargs = checked(*values(row))
                value = function(*args, **kwargs)
            finally:
                limit.holds = False
        except Exception as error:
            run.raised(error)
        else:
            run.returned(value)
    return run.ending()


def _receive_blobs(link: socket.socket) -> list[int]:
    """Request open files from the worker. During a call nothing else arrives on the socket."""
    with _sending:
        link.sendall(pack(Reply(wants_blobs=True)))
    fds: list[int] = []
    while True:
        more, received, _, _ = socket.recv_fds(link, 1, FDS_AT_ONCE)
        fds += received
        if more != MORE:
            return fds


@contextlib.contextmanager
def _environment(env: dict[str, str]) -> Iterator[None]:
    """Set variables, and restore them afterwards."""
    before = {name: os.environ.get(name) for name in env}
    os.environ.update(env)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _send(
    link: socket.socket, ending: ExecutionEnd, parts: list[Buffer], user_ms: int, system_ms: int
) -> None:
    data = None if ending.data is UNSET else ending.data
    text = ending.stdout
    name, large = "", list[Buffer]()
    if parts and size_of(parts) > INLINE_BYTES_MAX:
        name, large = "data", parts
    elif parts:
        data = b"".join(parts)
    elif data is not None and len(data) > INLINE_BYTES_MAX:
        name, large, data = "data", [data], None
    elif len(text) > INLINE_BYTES_MAX:
        name, large, text = "stdout", [text.encode()], ""
    reply = Reply(
        *(ending.status, text, ending.stderr, ending.exit_code, data),
        *(user_ms, system_ms, ending.is_value, name, size_of(large)),
        data_kind="" if ending.data_kind is UNSET else ending.data_kind,
    )
    with _sending:
        link.sendall(pack(reply))
        for part in large:
            link.sendall(part)


def _tell(link: socket.socket, progress: JobProgress) -> None:
    """Send progress, as a whole or not at all: a limit may be reached meanwhile, and a worker that
    does not read now gets the next report."""
    with _sending, contextlib.suppress(BlockingIOError):
        link.send(pack(Reply(progress=progress)), socket.MSG_DONTWAIT)


if __name__ == "__main__":
    main(sys.argv[1:])

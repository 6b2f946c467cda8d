"""A warm process: imports the application once, then runs one function call after another.

Talks to the worker over the socket it has as stdin: frames of a 4-byte little-endian length and
msgpack. A `Call` comes in, a `Reply` goes out, and behind it the value as it is, if that is large;
the first reply says that the imports are done. On
SIGTERM the function that runs sees `TimeoutError`, and may clean up.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
from _signal import getsignal  # type: ignore[import-not-found]
from collections.abc import Iterator
from types import FrameType

import msgspec
from msgspec import UNSET

from rollq.base.limits import INLINE_BYTES_MAX
from rollq.roles.worker.app import load_apps, raised, returned
from rollq.roles.worker.outputs import Ending
from rollq.tasks import Task


class Call(msgspec.Struct, array_like=True, gc=False):
    """Run this function. `args` is None for a job that is a bare payload."""

    name: str
    args: tuple[str, ...] | None
    body: bytes
    env: dict[str, str] | None = None  # to be set around the call


class Reply(msgspec.Struct, array_like=True, gc=False):
    """How a call ended; fields as in `Ending`."""

    status: int = 0
    stdout: str = ""
    stderr: str = ""
    exit_code: int = 0
    data: bytes | None = None
    user_ms: int = 0
    system_ms: int = 0
    is_value: bool = False
    large: str = ""  # the field whose bytes follow the frame, if it is large
    large_bytes: int = 0  # how many


LENGTH_BYTES = 4
SIGTERM = int(signal.SIGTERM)
encode = msgspec.msgpack.Encoder().encode
_decode_call = msgspec.msgpack.Decoder(Call).decode


def pack(value: Call | Reply) -> bytes:
    """A frame."""
    body = encode(value)
    return len(body).to_bytes(LENGTH_BYTES, "little") + body


def main(modules: list[str]) -> None:
    """Serve until the worker hangs up."""
    link = socket.socket(fileno=os.dup(0))
    limit = Limit()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    tasks = load_apps(modules)
    link.sendall(pack(Reply()))
    before = os.times()
    with link, link.makefile("rb") as incoming:
        while head := incoming.read(LENGTH_BYTES):
            call = _decode_call(incoming.read(int.from_bytes(head, "little")))
            ending = _run(tasks, call, limit)
            after = os.times()
            _send(
                link,
                ending,
                int((after.user - before.user) * 1000),
                int((after.system - before.system) * 1000),
            )
            before = after  # waiting for the next call costs nothing


class Limit:
    """What a SIGTERM does: nothing, except while a function runs.

    The handler stays: to set it for each call would cost as much as the call. An application may
    have set one of its own, so it is looked at before each.
    """

    __slots__ = ("_handler", "holds")

    def __init__(self) -> None:
        self.holds = False
        self._handler = self._reached

    def watch(self) -> None:
        """A function begins."""
        # Not that of `signal`: it looks for an enum first, which takes longer than a call.
        if getsignal(SIGTERM) is not self._handler:
            signal.signal(signal.SIGTERM, self._handler)
        self.holds = True

    def _reached(self, number: int, frame: FrameType | None) -> None:
        if self.holds:
            self.holds = False
            raise TimeoutError("the job's time limit is reached")


def _run(tasks: dict[str, Task], call: Call, limit: Limit) -> Ending:
    try:
        try:
            limit.watch()
            task = tasks[call.name]
            given = call.args
            args = task.payload_args(call.body) if given is None else task.call_args(given)
            if call.env is None:
                return returned(task.function(*args))
            with _environment(call.env):
                return returned(task.function(*args))
        finally:
            limit.holds = False
    except Exception as error:
        return raised(error)


@contextlib.contextmanager
def _environment(env: dict[str, str]) -> Iterator[None]:
    """What was there before is there again afterwards, whatever the function did to these."""
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


def _send(link: socket.socket, ending: Ending, user_ms: int, system_ms: int) -> None:
    data = None if ending.data is UNSET else ending.data
    text = ending.stdout
    name, large = "", b""
    if data is not None and len(data) > INLINE_BYTES_MAX:
        name, large, data = "data", data, None
    elif len(text) > INLINE_BYTES_MAX:
        name, large, text = "stdout", text.encode(), ""
    reply = Reply(
        *(ending.status, text, ending.stderr, ending.exit_code, data),
        *(user_ms, system_ms, ending.is_value, name, len(large)),
    )
    link.sendall(pack(reply))
    if large:
        link.sendall(large)


if __name__ == "__main__":
    main(sys.argv[1:])

"""A warm process: imports the application once, then runs one function call after another.

Talks to the worker over the socket it has as stdin: frames of a 4-byte little-endian length and
msgpack. A `Call` comes in, a `Reply` goes out; the first reply says that the imports are done. On
SIGTERM the function that runs sees `TimeoutError`, and may clean up.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from types import FrameType

import msgspec
from msgspec import UNSET

from rollq.base.limits import FRAME_BYTES_MAX
from rollq.roles.worker.app import load_apps, raised, returned
from rollq.roles.worker.outputs import Ending


class Call(msgspec.Struct, array_like=True, gc=False):
    """Run this function. `args` is None for a job that is a bare payload."""

    name: str
    args: tuple[str, ...] | None
    body: bytes


class Reply(msgspec.Struct, array_like=True, gc=False):
    """How a call ended; fields as in `Ending`."""

    status: int = 0
    stdout: str = ""
    stderr: str = ""
    exit_code: int = 0
    data: bytes | None = None
    user_ms: int = 0
    system_ms: int = 0


LENGTH_BYTES = 4
encode = msgspec.msgpack.Encoder().encode
_decode_call = msgspec.msgpack.Decoder(Call).decode


def pack(value: Call | Reply) -> bytes:
    """A frame."""
    body = encode(value)
    return len(body).to_bytes(LENGTH_BYTES, "little") + body


def main(modules: list[str]) -> None:
    """Serve until the worker hangs up."""
    link = socket.socket(fileno=os.dup(0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    tasks = load_apps(modules)
    link.sendall(pack(Reply()))
    with link, link.makefile("rb") as incoming:
        while head := incoming.read(LENGTH_BYTES):
            call = _decode_call(incoming.read(int.from_bytes(head, "little")))
            before = os.times()
            signal.signal(signal.SIGTERM, _out_of_time)
            try:
                task = tasks[call.name]
                args = task.payload_args(call.body) if call.args is None else call.args
                ending = returned(task.function(*args))
            except Exception as error:
                ending = raised(error)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            after = os.times()
            link.sendall(
                _reply(
                    ending,
                    int((after.user - before.user) * 1000),
                    int((after.system - before.system) * 1000),
                )
            )


def _out_of_time(number: int, frame: FrameType | None) -> None:
    raise TimeoutError("the job's time limit is reached")


def _reply(ending: Ending, user_ms: int, system_ms: int) -> bytes:
    data = None if ending.data is UNSET else ending.data
    packed = pack(
        Reply(
            ending.status,
            ending.stdout,
            ending.stderr,
            ending.exit_code,
            data,
            user_ms,
            system_ms,
        )
    )
    if len(packed) <= FRAME_BYTES_MAX:
        return packed
    error = ValueError(f"a result of {len(packed)} bytes is over {FRAME_BYTES_MAX}")
    return _reply(raised(error), user_ms, system_ms)


if __name__ == "__main__":
    main(sys.argv[1:])

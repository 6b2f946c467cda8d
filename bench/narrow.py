"""A narrow network: `python -m bench.narrow BITS_PER_S HOST:PORT=HOST:PORT…`.

A relay in front of each address. All connections through one relay share its rate, each direction
its own, like those of a computer share its network card.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
import time
from functools import partial
from typing import Final

READ_BYTES: Final = 65_536
BUFFER_BYTES: Final = 131_072  # of a socket: a network of some milliseconds holds no more
BURST_S: Final = 0.002
READY: Final = "narrow"


class Lane:
    """One direction of one relay: whoever has sent waits until that much had fitted through."""

    def __init__(self, bytes_per_s: float) -> None:
        self._bytes_per_s = bytes_per_s
        self._free_s = 0.0  # when all that was sent is through

    async def pass_through(self, size_bytes: int) -> None:
        """Take this much; returns when the lane has room for more."""
        now_s = time.perf_counter()
        self._free_s = max(self._free_s, now_s) + size_bytes / self._bytes_per_s
        if self._free_s - now_s > BURST_S:
            await asyncio.sleep(self._free_s - now_s)


async def serve(bytes_per_s: float, pairs: list[str]) -> None:
    """Relay until the process is ended."""
    for pair in pairs:
        outer, _, inner = pair.partition("=")
        forth, back = Lane(bytes_per_s), Lane(bytes_per_s)
        host, _, port = outer.rpartition(":")
        await asyncio.start_server(
            partial(_relay, inner, forth, back), sock=_listen(host, int(port))
        )
    print(READY, flush=True)
    await asyncio.Event().wait()


def _listen(host: str, port: int) -> socket.socket:
    server = socket.create_server((host, port))
    _narrow(server)  # what it accepts is like it
    return server


def _narrow(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)


async def _relay(
    inner: str,
    forth: Lane,
    back: Lane,
    near: asyncio.StreamReader,
    to_near: asyncio.StreamWriter,
) -> None:
    host, _, port = inner.rpartition(":")
    writers = [to_near]
    try:
        sock = socket.socket()
        _narrow(sock)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, (host, int(port)))
        far, to_far = await asyncio.open_connection(sock=sock)
        writers.append(to_far)
        ways = _pass(near, to_far, forth), _pass(far, to_near, back)
        passing = [asyncio.ensure_future(way) for way in ways]
        await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
        for one in passing:
            one.cancel()
    except OSError:
        pass  # the member is not there yet, or no more
    finally:
        for writer in writers:
            writer.transport.abort()


async def _pass(source: asyncio.StreamReader, sink: asyncio.StreamWriter, lane: Lane) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(READ_BYTES):
            await lane.pass_through(len(data))
            sink.write(data)
            await sink.drain()


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1]) / 8, sys.argv[2:]))

"""AMQP 0-9-1 on a blocking socket: just enough to publish to a queue with confirms, pipelined."""

from __future__ import annotations

import socket
import struct
from typing import Final

from bench.procs import HOST

RECV_BYTES: Final = 1 << 18
SOCKET_S_MAX: Final = 30.0
FRAME_END: Final = b"\xce"
METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
START, START_OK = (10, 10), (10, 11)
TUNE, TUNE_OK = (10, 30), (10, 31)
OPEN, OPEN_OK = (10, 40), (10, 41)
CHANNEL_OPEN, CHANNEL_OPEN_OK = (20, 10), (20, 11)
DECLARE, DECLARE_OK = (50, 10), (50, 11)
CONFIRM, CONFIRM_OK = (85, 10), (85, 11)
PUBLISH, ACK = (60, 40), (60, 80)
GET, GET_OK, GET_EMPTY = (60, 70), (60, 71), (60, 72)
DURABLE: Final = b"\x02"
PERSISTENT: Final = struct.pack(">HB", 0x1000, 2)  # the flag of delivery-mode, and its value

Method = tuple[tuple[int, int], bytes]  # class and method, arguments


class AmqpSocket:
    """One connection with one channel in confirm mode."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection((HOST, port), SOCKET_S_MAX)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""
        self._socket.sendall(b"AMQP\x00\x00\x09\x01")
        self._wait_for(START)
        login = struct.pack(">I", 0) + short("PLAIN") + long(b"\0guest\0guest") + short("en_US")
        self.send(method(0, START_OK, login))
        tuned = self._wait_for(TUNE)
        self.send(method(0, TUNE_OK, tuned[:6] + b"\0\0"))  # as the server wants, no heartbeat
        self.send(method(0, OPEN, short("/") + short("") + b"\0"))
        self._wait_for(OPEN_OK)
        self.send(method(1, CHANNEL_OPEN, short("")))
        self._wait_for(CHANNEL_OPEN_OK)
        self.send(method(1, CONFIRM, b"\0"))
        self._wait_for(CONFIRM_OK)

    def declare_quorum(self, queue: str, members: int) -> None:
        """Make a durable quorum queue."""
        table = short("x-queue-type") + b"S" + long(b"quorum")
        table += short("x-quorum-initial-group-size") + b"I" + struct.pack(">i", members)
        arguments = b"\0\0" + short(queue) + DURABLE + long(table)
        self.send(method(1, DECLARE, arguments))
        self._wait_for(DECLARE_OK)

    def get(self, queue: str) -> bool:
        """Whether a message of a queue was delivered. Without an ack it goes back with `close`."""
        self.send(method(1, GET, b"\0\0" + short(queue) + b"\0"))
        name, arguments = self.receive()[0]
        if name not in (GET_OK, GET_EMPTY):
            raise ConnectionError(f"the server said {name}: {arguments[:100]!r}")
        return name == GET_OK

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def send(self, data: bytes) -> None:
        """Send frames."""
        self._socket.sendall(data)

    def receive(self) -> list[Method]:
        """Wait for methods: all that have come.

        Raises:
            ConnectionError: the server hung up.
        """
        methods: list[Method] = []
        while not methods:
            data = self._socket.recv(RECV_BYTES)
            if not data:
                raise ConnectionError("the server hung up")
            self._buffer += data
            methods = self._cut()
        return methods

    def _cut(self) -> list[Method]:
        methods: list[Method] = []
        data, at = self._buffer, 0
        while len(data) - at >= 8:
            kind, _channel, size = struct.unpack_from(">BHI", data, at)
            if len(data) - at < size + 8:
                break
            if kind == METHOD:
                start = at + 7
                name = struct.unpack_from(">HH", data, start)
                methods.append(((name[0], name[1]), data[start + 4 : start + size]))
            at += size + 8
        self._buffer = data[at:]
        return methods

    def _wait_for(self, wanted: tuple[int, int]) -> bytes:
        for name, arguments in self.receive():
            if name == wanted:
                return arguments
            raise ConnectionError(f"the server said {name}: {arguments[:100]!r}")
        raise AssertionError("receive gives at least one")


class ConfirmPipeline:
    """Persistent publishes, counted by the server's confirms, which may come for many at once."""

    def __init__(self, link: AmqpSocket, queue: str, payload: bytes) -> None:
        self._link = link
        head = struct.pack(">HHQ", 60, 0, len(payload)) + PERSISTENT
        publish = b"\0\0" + short("") + short(queue) + b"\0"
        self._one = method(1, PUBLISH, publish) + frame(HEADER, 1, head) + frame(BODY, 1, payload)
        self._all_to = 0  # every publish up to this number is confirmed
        self._beyond: set[int] = set()  # and these

    def send(self, count: int) -> None:
        """Send so many more."""
        self._link.send(self._one * count)

    def acked(self) -> int:
        """How many were confirmed since."""
        before = self._all_to + len(self._beyond)
        for name, arguments in self._link.receive():
            if name != ACK:
                raise RuntimeError(f"refused: {name} {arguments[:100]!r}")
            tag, is_multiple = struct.unpack(">QB", arguments)
            if is_multiple:
                self._all_to = max(self._all_to, tag)
                self._beyond = {one for one in self._beyond if one > tag}
            else:
                self._beyond.add(tag)
            while self._all_to + 1 in self._beyond:
                self._all_to += 1
                self._beyond.remove(self._all_to)
        return self._all_to + len(self._beyond) - before


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    """One frame."""
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + FRAME_END


def method(channel: int, name: tuple[int, int], arguments: bytes) -> bytes:
    """One method in its frame."""
    return frame(METHOD, channel, struct.pack(">HH", *name) + arguments)


def short(text: str) -> bytes:
    """A short string."""
    return bytes([len(text)]) + text.encode()


def long(data: bytes) -> bytes:
    """A long string, or a table."""
    return struct.pack(">I", len(data)) + data

"""NATS on a blocking socket: the text protocol, pipelined. Enough for publishes with acks."""

from __future__ import annotations

import json
import socket
from typing import Any, Final

from bench.procs import HOST

RECV_BYTES: Final = 1 << 18
SOCKET_S_MAX: Final = 20.0
INBOX: Final = "_INBOX.bench"


class NatsSocket:
    """One connection with one inbox, in which acks are counted as they come."""

    def __init__(self, port: int, seconds_max: float = SOCKET_S_MAX) -> None:
        self._socket = socket.create_connection((HOST, port), seconds_max)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""
        options = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True}
        hello = f"CONNECT {json.dumps(options)}\r\nSUB {INBOX} 1\r\nPING\r\n"
        self._socket.sendall(hello.encode())
        while b"PONG\r\n" not in self._buffer:
            self._read()
        self._buffer = b""

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def ask(self, subject: str, body: dict[str, Any]) -> dict[str, Any]:
        """One request and its JSON answer."""
        self.send(publish(subject, json.dumps(body).encode()))
        answer: dict[str, Any] = json.loads(self.receive()[0])
        return answer

    def send(self, data: bytes) -> None:
        """Send bytes of the protocol."""
        self._socket.sendall(data)

    def receive(self) -> list[bytes]:
        """Wait for messages in the inbox; the payloads of all that have come."""
        payloads: list[bytes] = []
        while not payloads:
            self._read()
            while (payload := self._next()) is not None:
                if payload:
                    payloads.append(payload)
        return payloads

    def _next(self) -> bytes | None:
        """The payload of the next whole message; empty for other lines, None if there is none."""
        head, found, rest = self._buffer.partition(b"\r\n")
        if not found:
            return None
        if head.startswith((b"MSG ", b"HMSG ")):
            words = head.split(b" ")
            size = int(words[-1])
            if len(rest) < size + 2:
                return None
            self._buffer = rest[size + 2 :]
            skip = int(words[-2]) if head.startswith(b"H") else 0
            return rest[skip:size] or b"{}"
        if head.startswith(b"-ERR"):
            raise ConnectionError(head.decode())
        if head == b"PING":
            self._socket.sendall(b"PONG\r\n")
        self._buffer = rest
        return b""

    def _read(self) -> None:
        data = self._socket.recv(RECV_BYTES)
        if not data:
            raise ConnectionError("the server hung up")
        self._buffer += data


class PublishPipeline:
    """Publishes into a stream, each acknowledged in the inbox."""

    def __init__(self, link: NatsSocket, subject: str, payload: bytes) -> None:
        self._link = link
        self._one = publish(subject, payload)

    def send(self, count: int) -> None:
        """Send so many more."""
        self._link.send(self._one * count)

    def acked(self) -> int:
        """How many were stored since."""
        payloads = self._link.receive()
        for payload in payloads:
            if b'"error"' in payload or b'"seq"' not in payload:
                raise RuntimeError(f"refused: {payload[:200]!r}")
        return len(payloads)


def publish(subject: str, payload: bytes, reply: str = INBOX) -> bytes:
    """The bytes of one PUB."""
    return f"PUB {subject} {reply} {len(payload)}\r\n".encode() + payload + b"\r\n"

"""A client of rollq on a blocking socket: what members give without the client library.

It speaks through `wire.Connection`, as the product's client does. Acks come in the order of the
submits because one link is one order.
"""

from __future__ import annotations

import socket
import time
from typing import Final

from rollq.wire import messages as m
from rollq.wire.compact import Message
from rollq.wire.connection import Connection
from rollq.wire.features import ACCEPTED, COMPACT
from rollq.wire.handshake import (
    Side,
)

RECV_BYTES: Final = 1 << 18
SOCKET_S_MAX: Final = 20.0
GROUP: Final = "default"
FEATURES: Final = (COMPACT, ACCEPTED)


class RawClient:
    """A blocking client: messages in batches both ways."""

    def __init__(self, address: str, client_id: str, hello: Message | None = None) -> None:
        self.client_id = client_id
        self._connection = Connection(Side.DIALER, GROUP)
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), SOCKET_S_MAX)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._outbox: list[bytes] = []
        self._last_id = time.time_ns() << 32
        self.send(hello or m.HelloClient(client_id, 0, FEATURES))
        self.flush()
        self.greeting = self.receive()[0]

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def next_id(self) -> bytes:
        """A job id that was not used before."""
        self._last_id += 1
        return self._last_id.to_bytes(16, "big")

    def send(self, message: Message) -> None:
        """Queue a message until `flush`."""
        self._outbox.append(self._connection.send(message))

    def submit(self, payload: bytes) -> None:
        """Queue a submit."""
        self.send(m.SubmitJob(self.next_id(), self.client_id, "", "noop", payload))

    def flush(self) -> None:
        """Send what is queued."""
        if self._outbox:
            self._socket.sendall(b"".join(self._outbox))
            self._outbox.clear()

    def receive(self) -> list[Message]:
        """Wait for messages: all that one read gives.

        Raises:
            ConnectionError: the member is gone or hung up.
        """
        while True:
            data = self._socket.recv(RECV_BYTES)
            if not data:
                raise ConnectionError("the member hung up")
            messages = self._connection.receive_data(data)
            if self._connection.error is not None:
                raise self._connection.error
            if messages:
                return messages


class SubmitPipeline:
    """Submits in flight on one link."""

    def __init__(self, client: RawClient, payload: bytes) -> None:
        self._client = client
        self._payload = payload

    def send(self, count: int) -> None:
        """Send so many more."""
        for _ in range(count):
            self._client.submit(self._payload)
        self._client.flush()

    def acked(self) -> int:
        """How many were accepted since."""
        while True:
            count = 0
            for message in self._client.receive():
                if type(message) is m.Accepted:
                    count += 1
                elif type(message) is m.Error:
                    raise RuntimeError(f"refused: {message.message}")
            if count:
                return count


def who_leads(address: str) -> str:
    """Whom a member takes for the leader; empty if it knows nobody or does not answer."""
    try:
        with RawClient(address, "probe") as client:
            answer = client.greeting
    except OSError:
        return ""
    if isinstance(answer, m.NotLeader):
        return answer.leader
    return address if isinstance(answer, m.Welcome) else ""

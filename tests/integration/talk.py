"""A client or worker on a blocking socket, one word at a time, for tests of real members."""

from __future__ import annotations

import socket
import time
from collections import deque
from collections.abc import Iterable
from typing import Any, TypeVar

from rollq.base.errors import LocalError
from rollq.wire import messages as wire
from rollq.wire.compact import Message
from rollq.wire.connection import Connection
from rollq.wire.handshake import Side
from tests.integration.patience import DEADLINE_S

OPEN: list[socket.socket] = []
FEATURES = ("compact", "accepted", "lease", "batch")
M = TypeVar("M")


def job(number: int) -> bytes:
    """The id of a test's job."""
    return number.to_bytes(16, "big")


def submit(number: int, body: bytes = b"{}") -> wire.SubmitJob:
    """A small job."""
    return wire.SubmitJob(job(number), "ann", "calc", "calc", body)


def hang_up_all() -> None:
    """Nothing stays open after a test."""
    while OPEN:
        OPEN.pop().close()


class Talker:
    """One connection. Raises ConnectionError when the member has hung up."""

    def __init__(self, address: str, group: str = "default") -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), DEADLINE_S)
        OPEN.append(self.socket)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection = Connection(Side.DIALER, group)
        self._waiting: deque[Message] = deque()

    def say(self, *messages: Message) -> None:
        """Send."""
        try:
            data = self._connection.send_all(messages)
        except LocalError:  # it heard a NotLeader already
            raise ConnectionResetError("the member ended the conversation") from None
        self.socket.sendall(data)

    def hear(self, kind: type[M]) -> M:
        """The next message, which must be of this kind."""
        message = self.hear_any()
        assert isinstance(message, kind), message
        return message

    def hear_any(self) -> Any:
        """The next message."""
        while not self._waiting:
            data = self.socket.recv(1 << 18)
            if not data:
                raise ConnectionResetError("the member hung up")
            self._waiting.extend(self._connection.receive_data(data))
            assert self._waiting or self._connection.error is None, self._connection.error
        return self._waiting.popleft()

    def is_over(self) -> bool:
        """Wait until the member hangs up."""
        try:
            while True:
                self.hear_any()
        except ConnectionError:
            return True

    def close(self) -> None:
        """Hang up."""
        self.socket.close()


def client(address: str, name: str = "ann", features: tuple[str, ...] = FEATURES) -> Talker:
    """A client that was welcomed."""
    talker = Talker(address)
    talker.say(wire.HelloClient(name, 0, features))
    talker.hear(wire.Welcome)
    return talker


def worker(address: str, number: int, credit: int, *holding: Any) -> Talker:
    """A worker that was welcomed."""
    talker = Talker(address)
    talker.say(wire.HelloWorker(bytes([number]) * 16, ("",), "", 1, 0, holding, FEATURES))
    talker.hear(wire.Welcome)
    talker.say(wire.Credit(credit))
    return talker


def find_leader(addresses: Iterable[str], name: str = "ann") -> tuple[str, Talker]:
    """Ask around until somebody leads; the address, and a client that was welcomed there."""
    todo = deque(addresses)
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        todo.rotate(-1)
        talker = None
        try:
            talker = Talker(todo[0])
            talker.socket.settimeout(2.0)  # a hello may wait for an election
            talker.say(wire.HelloClient(name, 0, FEATURES))
            if isinstance(talker.hear_any(), wire.Welcome):
                talker.socket.settimeout(DEADLINE_S)
                return todo[0], talker
        except OSError:
            time.sleep(0.005)
        if talker is not None:
            talker.close()
    raise AssertionError("nobody leads")


def accepted(talker: Talker, numbers: Iterable[int], body: bytes = b"{}") -> dict[bytes, bool]:
    """Submit these and wait for every answer; whether each was known before, by id."""
    wanted = list(numbers)
    talker.say(*(submit(number, body) for number in wanted))
    answers: dict[bytes, bool] = {}
    while len(answers) < len(wanted):
        answer = talker.hear(wire.Accepted)
        answers[answer.request_id] = answer.known
    return answers

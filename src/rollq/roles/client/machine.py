"""The client as a pure machine: one door, events in, instructions out. No IO, no clock, no chance.

Laws kept here:
- a request stays pending until it is answered, and goes out again (same ids) to the next leader;
- an administrative change is not sent twice: if the session breaks before its answer, its outcome
  is unknown and the application is told so;
- a result reaches the application once, and is confirmed only after the application has it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from rollq.base.errors import ErrorCode
from rollq.base.ids import ClientId, JobId, MessageId
from rollq.base.limits import CLIENT_DELIVERED_MAX, CLIENT_PENDING_MAX, REDIAL_MIN_MS
from rollq.base.stamp import Jitter
from rollq.roles.client.signals import (
    Asked,
    Connect,
    Connected,
    Deliver,
    Disconnect,
    Disconnected,
    Event,
    GivenUp,
    Instruction,
    Received,
    Request,
    Send,
    Started,
    Taken,
    Tell,
    Tick,
)
from rollq.roles.redial import Redial
from rollq.wire import messages as wire

RETRY_MS: Final = REDIAL_MIN_MS


@dataclass(slots=True, frozen=True)
class ClientSetup:
    """Who this client is."""

    client_id: ClientId
    addresses: tuple[str, ...]
    desired_parallelism: int = 0
    features: tuple[str, ...] = ()


class Link(enum.IntEnum):
    """Where the session with a member stands."""

    DOWN = 0
    GREETING = 1
    OPEN = 2


class ClientMachine:
    """Pending requests, results handed over, and the session. `handle` is the only mutator.

    Attributes:
        link: Where the session stands.
    """

    __slots__ = (
        "_delivered",
        "_now_ms",
        "_out",
        "_pending",
        "_put_off",
        "_redial",
        "_retry_at_ms",
        "_setup",
        "_untaken",
        "link",
    )

    def __init__(self, setup: ClientSetup, jitter: Jitter) -> None:
        self._setup = setup
        self._redial = Redial(setup.addresses, jitter)
        self.link = Link.DOWN
        self._pending: dict[MessageId, Request] = {}  # in the order they were asked
        self._put_off: dict[MessageId, None] = {}  # refused for now; asked again soon
        self._retry_at_ms = 0
        self._untaken: dict[JobId, tuple[int, str]] = {}  # with the application right now
        self._delivered: dict[JobId, tuple[int, str]] = {}  # attempt and outcome, oldest first
        self._now_ms = 0
        self._out: list[Instruction] = []

    def handle(self, event: Event) -> list[Instruction]:
        """Take one event; what the shell must now do, in order."""
        out: list[Instruction] = []
        self._out = out
        HANDLERS[type(event)](self, event)
        return out

    @property
    def pending_count(self) -> int:
        """Requests without an answer."""
        return len(self._pending)

    # --- the application asks

    def _on_asked(self, event: Asked) -> None:
        request = event.request
        request_id = id_of(request)
        if len(self._pending) >= CLIENT_PENDING_MAX:
            self._tell_error(request_id, ErrorCode.OVERLOADED, "too many requests wait", True)
            return
        self._pending[request_id] = request
        # The application may run a forgotten id anew: then its result counts anew.
        if isinstance(request, wire.SubmitJob):
            self._delivered.pop(request.job_id, None)
        if self.link is Link.OPEN:
            self._out.append(Send(request))

    def _on_given_up(self, event: GivenUp) -> None:
        self._pending.pop(event.request_id, None)
        self._put_off.pop(event.request_id, None)

    def _on_taken(self, event: Taken) -> None:
        mark = self._untaken.pop(event.job_id, None)
        if mark is None:
            return
        self._delivered[event.job_id] = mark
        if len(self._delivered) > CLIENT_DELIVERED_MAX:
            del self._delivered[next(iter(self._delivered))]
        if self.link is Link.OPEN:  # else the next leader sends it again and is told then
            self._out.append(Send(wire.Confirm((event.job_id,))))

    def _on_tick(self, event: Tick) -> None:
        self._now_ms = event.now_ms
        if not self._put_off or self.link is not Link.OPEN or event.now_ms < self._retry_at_ms:
            return
        for request_id in self._put_off:
            self._out.append(Send(self._pending[request_id]))
        self._put_off.clear()

    # --- the session

    def _on_started(self, event: Started) -> None:
        self._out.append(Connect(self._redial.address, 0))

    def _on_connected(self, event: Connected) -> None:
        setup = self._setup
        self.link = Link.GREETING
        hello = wire.HelloClient(setup.client_id, setup.desired_parallelism, setup.features)
        self._out.append(Send(hello))

    def _on_disconnected(self, event: Disconnected) -> None:
        self._lose_session()
        self._out.append(Connect(*self._redial.failed()))

    def _on_not_leader(self, message: wire.NotLeader) -> None:
        self._lose_session()
        self._out.append(Disconnect())
        self._out.append(Connect(*self._redial.redirected(message.leader, message.members)))

    def _lose_session(self) -> None:
        """Changes that were sent and not answered may or may not have happened."""
        was_open = self.link is Link.OPEN
        self.link = Link.DOWN
        self._put_off.clear()
        if was_open:
            for request_id, request in list(self._pending.items()):
                if isinstance(request, wire.Admin):
                    del self._pending[request_id]
                    self._tell_error(
                        request_id, ErrorCode.OUTCOME_UNKNOWN, "the session broke", False
                    )

    def _on_welcome(self, message: wire.Welcome) -> None:
        self.link = Link.OPEN
        self._redial.welcomed()
        for request in self._pending.values():
            self._out.append(Send(request))

    def _on_received(self, event: Received) -> None:
        on_message = ON_MESSAGE.get(type(event.message))
        if on_message is not None:
            on_message(self, event.message)

    # --- answers

    def _on_answered(self, message: wire.Accepted | wire.Answer) -> None:
        if self._pending.pop(message.request_id, None) is not None:
            self._put_off.pop(message.request_id, None)
            self._out.append(Tell(message.request_id, message))

    def _on_error(self, message: wire.Error) -> None:
        if message.request_id not in self._pending:
            return
        if message.retryable:
            if not self._put_off:
                self._retry_at_ms = self._now_ms + RETRY_MS
            self._put_off[message.request_id] = None
            return
        del self._pending[message.request_id]
        self._out.append(Tell(message.request_id, message))

    def _on_result(self, message: wire.Result) -> None:
        mark = (message.attempt, message.outcome)
        if self._delivered.get(message.job_id) == mark:
            self._out.append(Send(wire.Confirm((message.job_id,))))
        elif self._untaken.get(message.job_id) != mark:
            self._untaken[message.job_id] = mark
            self._out.append(Deliver(message))

    def _tell_error(
        self, request_id: MessageId, code: ErrorCode, text: str, retryable: bool
    ) -> None:
        error = wire.Error(request_id, int(code), text, retryable=retryable)
        self._out.append(Tell(request_id, error))


def id_of(request: Request) -> MessageId:
    """The id that the answer to a request carries."""
    if isinstance(request, wire.SubmitJob):
        return request.job_id
    if isinstance(request, wire.SubmitArray):
        return request.array_id
    return request.request_id


HANDLERS: dict[type, Callable[[ClientMachine, Any], None]] = {
    Started: ClientMachine._on_started,
    Connected: ClientMachine._on_connected,
    Disconnected: ClientMachine._on_disconnected,
    Received: ClientMachine._on_received,
    Asked: ClientMachine._on_asked,
    GivenUp: ClientMachine._on_given_up,
    Taken: ClientMachine._on_taken,
    Tick: ClientMachine._on_tick,
}

ON_MESSAGE: dict[type, Callable[[ClientMachine, Any], None]] = {
    wire.Welcome: ClientMachine._on_welcome,
    wire.NotLeader: ClientMachine._on_not_leader,
    wire.Accepted: ClientMachine._on_answered,
    wire.Answer: ClientMachine._on_answered,
    wire.Error: ClientMachine._on_error,
    wire.Result: ClientMachine._on_result,
}

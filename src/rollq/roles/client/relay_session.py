"""A session with a group for somebody else: what is sent is nobody's request here, and what the
group says is handed on. Finding the leader, logging in and silence are as in any session."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rollq.base.errors import ErrorCode
from rollq.base.ids import NIL_ID, ClientId
from rollq.base.limits import REDIAL_GROUP_MAX_MS
from rollq.net.link import Link
from rollq.roles.client import signals
from rollq.roles.client.machine import ClientMachine
from rollq.roles.client.session import GroupSession, as_addresses
from rollq.roles.client.standing import ClientSetup
from rollq.roles.service import SystemJitter
from rollq.security.credentials import Credentials
from rollq.wire import messages as wire
from rollq.wire.compact import Message

OF_SESSION = (wire.Welcome, wire.NotLeader, wire.Pong)


class RelaySession(GroupSession):
    """The way of one client to one group, in a process between them.

    Args:
        addresses: As for `GroupSession`, and so most others.
        client_id, desired_parallelism, features: What the client said in its hello.
        credentials: What members are checked by, and the token that the client showed.
        on_told: Called with what the group says on an open session.

    Attributes:
        features: What the leader that welcomed us speaks of what was offered.
    """

    def __init__(
        self,
        addresses: str,
        client_id: ClientId,
        *,
        desired_parallelism: int,
        features: tuple[str, ...],
        credentials: Credentials,
        is_awaiting: Callable[[], bool],
        on_standing: Callable[[bool], None],
        on_told: Callable[[list[Message]], None],
    ) -> None:
        super().__init__(
            addresses,
            client_id,
            credentials=credentials,
            on_results=lambda results: (),
            is_awaiting=is_awaiting,
            on_standing=on_standing,
        )
        setup = ClientSetup(
            client_id=client_id,
            addresses=as_addresses(addresses),
            desired_parallelism=desired_parallelism,
            features=features,
            redial_ms_max=REDIAL_GROUP_MAX_MS,
        )
        self._machine = ClientMachine(setup, SystemJitter())
        self.features: tuple[str, ...] = ()
        self._on_told = on_told
        self._last_error: wire.Error | None = None  # about the session

    @property
    def refusal(self) -> wire.Error | None:
        """Why no member lets us in; None: one may."""
        if not self._machine.is_refused:
            return None
        failed = wire.Error(NIL_ID, int(ErrorCode.LOGIN_FAILED), self.last_trouble)
        return self._last_error or failed

    @property
    def waiting_bytes(self) -> int:
        """What was sent and is not on its way yet."""
        return 0 if self._link is None else self._link.waiting_bytes

    def relay(self, messages: Sequence[Message]) -> None:
        """Send messages at once; nothing, if there is no leader."""
        if self._link is not None and self.is_open:
            self._link.post_all(messages)
            self._link.flush()

    def stop_reading(self) -> None:
        """Stop reading: whoever is to get it does not read."""
        if self._link is not None:
            self._link.pause()

    def read_on(self) -> None:
        """Read again."""
        if self._link is not None:
            self._link.resume()

    def _messages(self, link: Link, messages: list[Message]) -> None:
        if link is not self._link:
            return
        rest: list[Message] = []
        own: list[wire.MemberMessage] = []
        for message in messages:
            if isinstance(message, OF_SESSION):
                own.append(message)
            elif type(message) is wire.Error and message.request_id == NIL_ID:
                own.append(message)
                self._last_error = message
                self._note_complaint(link, [message])
            else:
                rest.append(message)
            if isinstance(message, wire.Welcome):
                self.features = message.features
        # Whatever is said proves that the group is there.
        self._feed(signals.Heard(own or (wire.Pong(),)))
        if rest and self.is_open:
            self._on_told(rest)

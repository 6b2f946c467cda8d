"""A session with a group on behalf of another client, in a router: messages are passed through in
both directions. Finding the leader, login and ping are as in any session."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rollq.base.errors import ErrorCode
from rollq.base.ids import NIL_ID, ClientId
from rollq.base.limits import REDIAL_GROUP_MAX_MS
from rollq.net.link import Link
from rollq.roles.client.addresses import as_addresses
from rollq.roles.client.session import signals
from rollq.roles.client.session.group_session import GroupSession
from rollq.security.credentials import Credentials
from rollq.wire import messages as wire
from rollq.wire.compact import Message

OF_SESSION = (wire.Welcome, wire.NotLeader, wire.Pong)  # handled here, not passed on


class RelaySession(GroupSession):
    """The session of one client with one group, in a router between them.

    Args:
        addresses: The members of the group, `host:port,host:port…`.
        client_id, desired_parallelism, features: From the hello of the client.
        credentials: What members are verified by, and the token of the client.
        is_awaiting, on_session_change: As for `GroupSession`.
        on_messages: Called with messages of the group on an open session.

    Attributes:
        features: The features that the leader accepted.
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
        on_session_change: Callable[[bool], None],
        on_messages: Callable[[list[Message]], None],
    ) -> None:
        super().__init__(
            as_addresses(addresses),
            client_id,
            desired_parallelism=desired_parallelism,
            features=features,
            redial_ms_max=REDIAL_GROUP_MAX_MS,
            credentials=credentials,
            on_results=lambda results: (),
            is_awaiting=is_awaiting,
            on_session_change=on_session_change,
        )
        self.features: tuple[str, ...] = ()
        self._on_messages = on_messages
        self._session_refusal: wire.Error | None = None  # the last error about the session itself

    @property
    def refusal(self) -> wire.Error | None:
        """Why all members refuse the login; None if not all do."""
        if not self._machine.is_refused:
            return None
        failed = wire.Error(NIL_ID, int(ErrorCode.LOGIN_FAILED), self.last_error)
        return self._session_refusal or failed

    @property
    def waiting_bytes(self) -> int:
        """The number of bytes in the send buffer."""
        return 0 if self._link is None else self._link.waiting_bytes

    def relay(self, messages: Sequence[Message]) -> None:
        """Send messages at once; they are dropped if there is no leader."""
        if self._link is not None and self.is_open:
            self._link.post_all(messages)
            self._link.flush()

    def stop_reading(self) -> None:
        """Stop reading, because the client does not read."""
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
                self._session_refusal = message
                self._note_session_error(link, [message])
            else:
                rest.append(message)
            if isinstance(message, wire.Welcome):
                self.features = message.features
        # Any message proves that the group is alive.
        self._feed(signals.MessagesReceived(own or (wire.Pong(),)))
        if rest and self.is_open:
            self._on_messages(rest)

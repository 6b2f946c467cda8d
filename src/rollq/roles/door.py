"""The one way in: every message of every accepted link passes here before its handler.

The first message says what a link is for: it names the principal and chooses the service that takes
the messages of the link from then on. What the principal may not say ends the link with an error,
and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from rollq.base.access import LinkRole, Principal
from rollq.base.errors import ErrorCode, RemoteError
from rollq.net.link import Link
from rollq.roles.access import MAY_SAY, check, principal_of
from rollq.wire.checks import request_id_of
from rollq.wire.compact import Message
from rollq.wire.messages import Error


class Service(Protocol):
    """Takes the messages of links of a role."""

    def hear(self, link: Link, messages: list[Message], principal: Principal) -> None:
        """Messages came that the principal may say; on a new link the hello is the first."""

    def closed(self, link: Link, reason: str) -> None:
        """A link that was heard is gone."""


class _Entry(NamedTuple):
    """A link that said hello."""

    principal: Principal
    service: Service
    may_say: frozenset[type]


class Door:
    """The links of one listener.

    Args:
        services: By role; a link of any other role is refused.
    """

    def __init__(self, services: Mapping[LinkRole, Service]) -> None:
        self._services = services
        self._entries: dict[Link, _Entry] = {}  # from the hello until the link is closed

    def messages(self, link: Link, messages: list[Message]) -> None:
        """Messages came on a link."""
        message = messages[0]
        try:
            known = self._entries.get(link)
            entry = known or self._entry_of(link, message)
            if not entry.may_say.issuperset(map(type, messages)):  # one test for a whole read
                for message in messages:
                    check(entry.principal, message)
        except RemoteError as error:
            self._refuse(link, message, error)
            return
        if known is None:  # only now: a service is not told the end of a link that it never heard
            self._entries[link] = entry
        entry.service.hear(link, messages, entry.principal)

    def closed(self, link: Link, reason: str) -> None:
        """A link is gone."""
        entry = self._entries.pop(link, None)
        if entry is not None:
            entry.service.closed(link, reason)

    def _entry_of(self, link: Link, hello: Message) -> _Entry:
        principal = principal_of(hello, link.address)
        service = self._services.get(principal.role)
        if service is None:
            roles = " or ".join(self._services)
            raise RemoteError(
                ErrorCode.BAD_HANDSHAKE,
                f"a {principal.role} session is not served here, only {roles}",
                "check the address",
            )
        return _Entry(principal, service, MAY_SAY[principal.role])

    def _refuse(self, link: Link, message: Message, error: RemoteError) -> None:
        request_id = request_id_of(message)
        link.send(Error(request_id, int(error.code), error.message, error.hint))
        link.close(str(error))

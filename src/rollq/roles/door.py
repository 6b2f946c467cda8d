"""The one way in: every message of every accepted link passes here before its handler.

A link may log in first. Its hello says what it is for: it names the principal, together with what
the link has proved, and chooses the service that takes the messages of the link from then on. What
the principal may not say ends the link with an error, and nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from rollq.base.access import LinkRole, Principal
from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.repeats import Repeats
from rollq.net.link import Link
from rollq.roles.access import MAY_SAY, check, principal_of
from rollq.roles.login import (
    NOBODY,
    Identity,
    LoginFailedError,
    LoginMachine,
    LoginSetup,
    identify,
)
from rollq.wire.checks import request_id_of
from rollq.wire.compact import Message
from rollq.wire.login_messages import LoginMessage
from rollq.wire.messages import Error

log = logging.getLogger("rollq.door")

FAILED_LINES: Final = 3  # of failed logins from one address, until they are counted


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
        logins: What links are judged by. None: nobody logs in here, and nobody is asked to.
    """

    def __init__(
        self, services: Mapping[LinkRole, Service], logins: LoginSetup | None = None
    ) -> None:
        self._services = services
        self._logins = logins
        self._entries: dict[Link, _Entry] = {}  # from the hello until the link is closed
        # From the first message of a login until the hello: how far it is, or what came of it.
        self._arriving: dict[Link, LoginMachine | Identity] = {}
        self._failed = Repeats(FAILED_LINES)

    def messages(self, link: Link, messages: list[Message]) -> None:
        """Messages came on a link."""
        message = messages[0]
        try:
            known = self._entries.get(link)
            if known is None:
                messages = self._log_in(link, messages)
                if not messages:
                    return
                message = messages[0]
            entry = known or self._entry_of(link, message)
            if not entry.may_say.issuperset(map(type, messages)):  # one test for a whole read
                for message in messages:
                    check(entry.principal, message)
        except RemoteError as error:
            self._refuse(link, message, error)
            return
        if known is None:  # only now: a service is not told the end of a link that it never heard
            self._entries[link] = entry
            self._arriving.pop(link, None)
        entry.service.hear(link, messages, entry.principal)

    def closed(self, link: Link, reason: str) -> None:
        """A link is gone."""
        self._arriving.pop(link, None)
        entry = self._entries.pop(link, None)
        if entry is not None:
            entry.service.closed(link, reason)

    def _log_in(self, link: Link, messages: list[Message]) -> list[Message]:
        """Hear what of the first messages of a link is a login; the rest."""
        logins = self._logins
        if logins is None:
            return messages
        for count, message in enumerate(messages):
            if not isinstance(message, LoginMessage):
                return messages[count:] if count else messages
            machine = self._arriving.setdefault(link, LoginMachine(logins))
            if not isinstance(machine, LoginMachine):
                raise LoginFailedError(machine.account, "a second login")
            answer = machine.hear(message)
            if isinstance(answer, Identity):
                self._arriving[link] = answer
            else:
                link.send(answer)
        return []

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
        if self._logins is not None:
            arrived = self._arriving.get(link, NOBODY)
            if isinstance(arrived, LoginMachine):
                raise LoginFailedError("", "a hello before the proof")
            identity = identify(self._logins, principal.role, arrived, link.certificate)
            principal = principal._replace(**identity._asdict())
        return _Entry(principal, service, MAY_SAY[principal.role])

    def _refuse(self, link: Link, message: Message, error: RemoteError) -> None:
        if isinstance(error, LoginFailedError):
            self._note_failed(link, error)
        request_id = request_id_of(message)
        link.send(Error(request_id, int(error.code), error.message, error.hint))
        link.close(str(error))

    def _note_failed(self, link: Link, error: LoginFailedError) -> None:
        host = link.address.rpartition(":")[0]
        text = f"{link.address}: a login failed: {error.why}"
        line = self._failed.line(host, text, int(link.loop.time() * 1000))
        if line:
            log.warning("%s", line)

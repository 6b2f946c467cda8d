"""The entry of a member: every message of every accepted link passes here before its handler.

A link may log in first. Its hello names the role: with the result of the login it makes the
principal, and chooses the service for the messages of the link. A message type that the role may
not send closes the link with an error. If accounts are in use, a guard checks every message:
services never do."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from rollq.base.access import LinkRole, Principal
from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.log_events import LOGIN_FAILED, seldom, tell
from rollq.base.repeats import Repeats
from rollq.net.link import Link
from rollq.roles.access import PERMITTED, Guard, RefusedError, check, principal_of
from rollq.roles.login import (
    NOBODY,
    LinkIdentity,
    LoginFailedError,
    LoginMachine,
    LoginSetup,
    identify,
    is_withdrawn,
)
from rollq.wire.checks import request_id_of
from rollq.wire.compact import Message
from rollq.wire.features import ACCEPTED, COMPACT
from rollq.wire.login_messages import LoginMessage
from rollq.wire.messages import Error, HelloClient, HelloWorker

log = logging.getLogger("rollq.door")

WITHDRAWN: Final = RemoteError(
    ErrorCode.LOGIN_FAILED,
    "the token or key of this link was removed, or has expired",
    "log in with another: `rollq access token` makes one",
)
FAILED_LINES: Final = 3  # log lines of failed logins from one host before they are counted


class Service(Protocol):
    """Handles the messages of links of a role."""

    def hear(self, link: Link, messages: list[Message], principal: Principal) -> None:
        """Handle permitted messages; the first of a new link is its hello."""

    def closed(self, link: Link, reason: str) -> None:
        """A link closed after `hear` was called for it."""


class _Entry(NamedTuple):
    """A link after its hello."""

    principal: Principal
    service: Service
    permitted: frozenset[type]
    hello: Message
    reads_errors: bool
    identity: LinkIdentity  # from its login


class Door:
    """The links of one listener.

    Args:
        services: By role; links of other roles are refused.
        logins: The options of logins. None: no logins.
        guard: Checks messages by accounts. None: a link may do whatever its role may.
    """

    def __init__(
        self,
        services: Mapping[LinkRole, Service],
        logins: LoginSetup | None = None,
        guard: Guard | None = None,
    ) -> None:
        self._services = services
        self._logins = logins
        self._guard = guard
        # Messages that the guard cannot check yet, of paused links.
        self._waiting: dict[Link, list[Message]] = {}
        self._entries: dict[Link, _Entry] = {}  # from the hello until the link is closed
        # From the first login message until the hello: the login under way, or its result.
        self._arriving: dict[Link, LoginMachine | LinkIdentity] = {}
        self._failed = Repeats(FAILED_LINES)
        self.refused: Counter[int] = Counter()  # links, by error code
        # Accepted requests of a link that still have effect: checked again when rules change.
        self.held: Callable[[Link], Sequence[Message]] = lambda link: ()
        # The first time of the group at which a token of a link expires; 0: none does.
        self.expires_ms = 0

    def messages(self, link: Link, messages: list[Message]) -> None:
        """Handle messages of a link."""
        if link in self._waiting:
            self._waiting[link] += messages
            return
        message = messages[0]
        try:
            known = self._entries.get(link)
            if known is None:
                messages = self._log_in(link, messages)
                if not messages:
                    return
                message = messages[0]
            entry = known or self._entry_of(link, message)
            if not entry.permitted.issuperset(map(type, messages)):  # one test for all of a read
                for message in messages:
                    check(entry.principal, message)
        except RemoteError as error:
            self._refuse(link, message, error)
            return
        if self._guard is not None:
            if self._guard.must_wait(entry.principal):
                self._waiting[link] = messages
                link.pause()
                return
            messages = self._judged(link, entry, messages, self._guard)
            if not messages:
                return
        if known is None:  # only now: services get `closed` only for links whose hello they got
            entry = _renamed(entry, messages[0])
            self._entries[link] = entry
            self._arriving.pop(link, None)
            self._note_expiry(entry.identity)
        entry.service.hear(link, messages, entry.principal)

    def count_by_role(self) -> dict[str, float]:
        """The number of links after their hello, by role."""
        roles = Counter([entry.principal.role for entry in self._entries.values()])
        return {role.value: roles[role] for role in self._services}

    def go_on(self) -> None:
        """Pass on waiting messages, as far as the guard can check them now."""
        for link, messages in list(self._waiting.items()):
            del self._waiting[link]
            link.resume()
            link.hand_over(messages)

    def judge_again(self) -> None:
        """Rules have changed, or a token has expired: close links that are not permitted any
        more."""
        if self._guard is None or self._logins is None:
            return
        self.expires_ms = 0
        for link, entry in list(self._entries.items()):
            if is_withdrawn(self._logins, entry.identity):
                self._refuse(link, entry.hello, WITHDRAWN)
            else:
                held = [entry.hello, *self.held(link)]
                taken = self._judged(link, entry, held, self._guard)
                if taken and len(taken) < len(held):
                    link.close("its access rights were reduced")
                self._note_expiry(entry.identity)

    def closed(self, link: Link, reason: str) -> None:
        """A link closed."""
        self._arriving.pop(link, None)
        self._waiting.pop(link, None)
        entry = self._entries.pop(link, None)
        if entry is not None:
            entry.service.closed(link, reason)

    def _note_expiry(self, identity: LinkIdentity) -> None:
        if identity.expires_ms:
            self.expires_ms = min(self.expires_ms or identity.expires_ms, identity.expires_ms)

    def _log_in(self, link: Link, messages: list[Message]) -> list[Message]:
        """Handle the login messages at the start of a link; returns the messages after them."""
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
            if isinstance(answer, LinkIdentity):
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
        identity = NOBODY
        if self._logins is not None:
            arrived = self._arriving.get(link, NOBODY)
            if isinstance(arrived, LoginMachine):
                raise LoginFailedError("", "a hello before the proof")
            identity = identify(
                self._logins,
                principal.role,
                arrived,
                link.certificate,
                legacy_address="" if _offers(hello) else link.address,
            )
            principal = principal._replace(
                account=identity.account,
                method=identity.method,
                certificate_role=identity.certificate_role,
            )
        permitted = PERMITTED[principal.role]
        return _Entry(principal, service, permitted, hello, _reads_errors(hello), identity)

    def _judged(
        self, link: Link, entry: _Entry, messages: list[Message], guard: Guard
    ) -> list[Message]:
        """The permitted messages; senders of the others are answered."""
        principal = entry.principal
        taken: list[Message] = []
        for message in messages:
            try:
                judged = guard.judge(principal, message)
                if judged is not message and isinstance(judged, HelloClient):
                    principal = principal._replace(name=judged.client_id)
                taken.append(judged)
            except RefusedError as refused:
                for answer in refused.answers if entry.reads_errors else refused.plain_answers:
                    link.send(answer)
                if refused.why:
                    link.close(refused.why)
                    return []
        return taken

    def _refuse(self, link: Link, message: Message, error: RemoteError) -> None:
        self.refused[int(error.code)] += 1
        if isinstance(error, LoginFailedError):
            self._note_failed(link, error)
        request_id = request_id_of(message)
        link.send(Error(request_id, int(error.code), error.message, error.hint))
        link.close(str(error))

    def _note_failed(self, link: Link, error: LoginFailedError) -> None:
        host = link.address.rpartition(":")[0]
        fields = {"address": link.address, "cause": error.why}
        shown = seldom(self._failed, host, int(link.loop.time() * 1000), fields)
        if shown is not None:
            tell(log, LOGIN_FAILED, **shown)


def _offers(hello: Message) -> bool:
    """Whether the peer offers features; a legacy one does not."""
    return not isinstance(hello, HelloClient | HelloWorker) or bool(hello.features)


def _reads_errors(hello: Message) -> bool:
    """Whether the peer reads Error; a legacy one does not."""
    if isinstance(hello, HelloClient | HelloWorker):
        return ACCEPTED in hello.features or COMPACT in hello.features
    return True


def _renamed(entry: _Entry, hello: Message) -> _Entry:
    """The entry with the name that the guard gave to the client."""
    if hello is entry.hello or not isinstance(hello, HelloClient):
        return entry
    return entry._replace(principal=entry.principal._replace(name=hello.client_id), hello=hello)

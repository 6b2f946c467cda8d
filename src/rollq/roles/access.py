"""Authorization: the decision about every incoming message. Pure.

`check` is about types: a principal may send the messages that the registry permits to the role of
its link. `Decisions` is about rules: which actions an account may do on which resources. The
`Guard` of a member (`roles.member.guard`) finds the resources of a message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

from msgspec import Struct

from rollq.base.access import LinkRole, Principal
from rollq.base.access_checks import ANONYMOUS
from rollq.base.access_rules import Rule, concerns, decide, matches
from rollq.base.access_table import AccessTable
from rollq.base.errors import ErrorCode, RemoteError, StateError
from rollq.base.ids import guid_to_text
from rollq.base.limits import DECISIONS_KEPT_MAX
from rollq.wire.blob_messages import HelloBlobs
from rollq.wire.compact import Message
from rollq.wire.messages import HelloClient, HelloWorker, LeaderHello
from rollq.wire.reader_messages import HelloReader
from rollq.wire.registry import ROW_OF, ROWS, Direction

NAME_SHOWN: Final = 128  # bytes of a resource in an error

ROLE_OF_HELLO: Final[Mapping[type[Struct], LinkRole]] = {
    HelloClient: LinkRole.CLIENT,
    HelloWorker: LinkRole.WORKER,
    LeaderHello: LinkRole.MEMBER,
    HelloBlobs: LinkRole.BLOBS,
    HelloReader: LinkRole.READER,
}

SPEAKER: Final[Mapping[Direction, LinkRole]] = {
    Direction.CLIENT_TO_MEMBER: LinkRole.CLIENT,
    Direction.WORKER_TO_MEMBER: LinkRole.WORKER,
    Direction.MEMBER_TO_MEMBER: LinkRole.MEMBER,
    Direction.BLOB_CLIENT_TO_SERVER: LinkRole.BLOBS,
    Direction.READER_TO_MEMBER: LinkRole.READER,
}

PERMITTED: Final[Mapping[LinkRole, frozenset[type[Struct]]]] = {
    role: frozenset(
        row.struct
        for row in ROWS
        if any(SPEAKER.get(direction) is role for direction in row.directions)
    )
    for role in LinkRole
}


def check(principal: Principal, message: Struct) -> None:
    """Check that the role of a principal may send a message.

    Raises:
        RemoteError: BAD_HANDSHAKE, or UNKNOWN_MESSAGE if no role may send it.
    """
    if type(message) not in PERMITTED[principal.role]:
        raise refusal(type(message))


def refusal(kind: type[Struct]) -> RemoteError:
    """The error for a message that its sender's role may not send."""
    roles = [role for role in LinkRole if kind in PERMITTED[role]]
    if not roles:
        return RemoteError(ErrorCode.UNKNOWN_MESSAGE, f"{kind.__name__} is not taken here")
    which = " or ".join(roles)
    return RemoteError(
        ErrorCode.BAD_HANDSHAKE,
        f"{ROW_OF[kind].name} requires a {which} session",
        "begin the connection with the hello of that role",
    )


class RefusedError(Exception):
    """A message was refused by a guard.

    Attributes:
        answers: Sent to its sender.
        plain_answers: Sent instead to a peer that reads no errors.
        why: Logged when the link is closed; empty: the link stays open.
    """

    def __init__(
        self, answers: Sequence[Message], plain_answers: Sequence[Message] = (), why: str = ""
    ) -> None:
        super().__init__(why)
        self.answers = answers
        self.plain_answers = plain_answers
        self.why = why


class Guard(Protocol):
    """Checks messages against the rules of their principals' accounts."""

    def must_wait(self, principal: Principal) -> bool:
        """Whether to hold the message: this member is about to lead, and its state is behind."""

    def judge(self, principal: Principal, message: Message) -> Message:
        """The message, narrowed to what the principal is permitted.

        Raises:
            RefusedError: nothing of it is permitted.
        """


class Decisions:
    """Decides by the rules, and caches decisions until the rules change.

    Args:
        table: Returns the present accounts and roles.
        on_refused: Called with principal, action and resource of every refusal.
    """

    def __init__(
        self,
        table: Callable[[], AccessTable],
        on_refused: Callable[[Principal, str, str], None] = lambda *_: None,
    ) -> None:
        self._table = table
        self.on_refused = on_refused
        self._version = -1
        # By account, certificate role, action and resource; at most DECISIONS_KEPT_MAX.
        self._kept: dict[tuple[str, str, str, str], bool] = {}

    def authorize(self, principal: Principal, action: str, resources: Iterable[str]) -> None:
        """Check that a principal may do an action on all of these resources.

        Raises:
            StateError: ACCESS_DENIED; `on_refused` was called.
        """
        for resource in resources:
            if not self.may(principal, action, resource):
                raise self.denied(principal, action, resource)

    def may(self, principal: Principal, action: str, resource: str) -> bool:
        """Whether a principal may do an action on a resource `KIND:NAME`."""
        if is_anonymous(principal):
            return True
        table = self._table()
        if table.version != self._version:
            self._kept.clear()
            self._version = table.version
        key = (principal.account, principal.certificate_role, action, resource)
        decided = self._kept.get(key)
        if decided is None:
            if len(self._kept) >= DECISIONS_KEPT_MAX:
                self._kept.clear()
            decided = decide(_rules_for(table, principal), principal.account, action, (resource,))
            self._kept[key] = decided
        return decided

    def is_allowed_some(self, principal: Principal, action: str, resource: str) -> bool:
        """Whether some rule allows the action on the resource, regardless of deny rules."""
        account = principal.account
        return any(
            rule.effect == "allow"
            and matches(rule.action, action)
            and concerns(rule, account, resource)
            for rule in _rules_for(self._table(), principal)
        )

    def denied(self, principal: Principal, action: str, resource: str) -> StateError:
        """Report a refusal; returns its error."""
        self.on_refused(principal, action, resource)
        account = principal.account
        return StateError(
            ErrorCode.ACCESS_DENIED,
            f"account {account!a} may not do {action} on {resource[:NAME_SHOWN]!a}",
            f"ask an admin: rollq access grant {account} {action} {resource[:NAME_SHOWN]}",
        )


def is_anonymous(principal: Principal) -> bool:
    """Whether it has not logged in where that is permitted (`auth` off or optional): all
    allowed."""
    return principal.account == ANONYMOUS and not principal.method


def _rules_for(table: AccessTable, principal: Principal) -> Sequence[Rule]:
    """The rules of an account; of its certificate's role, if the group has no such account."""
    if principal.certificate_role and principal.account not in table.accounts:
        return table.rules_of_role(principal.certificate_role)
    return table.rules_of(principal.account)


def principal_of(hello: Struct, address: str) -> Principal:
    """The principal that a hello claims to be.

    Raises:
        RemoteError: BAD_HANDSHAKE if it is no hello.
    """
    role = ROLE_OF_HELLO.get(type(hello))
    if role is None:
        raise refusal(type(hello))
    if isinstance(hello, HelloClient):
        name = hello.client_id
    elif isinstance(hello, HelloWorker):
        name = hello.name or guid_to_text(hello.worker_id)
    elif isinstance(hello, LeaderHello):
        name = str(hello.member_id)
    else:
        name = hello.who if isinstance(hello, HelloBlobs) else ""
    return Principal(role, name, address)

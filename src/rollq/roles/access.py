"""Who may say what: the decision about every message that comes in. Pure.

`check` is about types: a principal may say what the table of messages gives to the role of its
link. `Decisions` is about rules: what an account may do with which resources, as the group agreed.
What a message asks for in these terms is told by whoever knows what its ids mean: the `Guard` of a
member (`roles.member.guard`).
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

NAME_SHOWN: Final = 128  # of a resource in an answer

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

MAY_SAY: Final[Mapping[LinkRole, frozenset[type[Struct]]]] = {
    role: frozenset(
        row.struct
        for row in ROWS
        if any(SPEAKER.get(direction) is role for direction in row.directions)
    )
    for role in LinkRole
}


def check(principal: Principal, message: Struct) -> None:
    """Let a message in, or say why not.

    Raises:
        RemoteError: BAD_HANDSHAKE, or UNKNOWN_MESSAGE if no role may say it.
    """
    if type(message) not in MAY_SAY[principal.role]:
        raise refusal(type(message))


def refusal(kind: type[Struct]) -> RemoteError:
    """The one answer to a message that its principal may not say."""
    roles = [role for role in LinkRole if kind in MAY_SAY[role]]
    if not roles:
        return RemoteError(ErrorCode.UNKNOWN_MESSAGE, f"{kind.__name__} is not taken here")
    which = " or ".join(roles)
    return RemoteError(
        ErrorCode.BAD_HANDSHAKE,
        f"{ROW_OF[kind].name} requires a {which} session",
        "begin the connection with the hello of that role",
    )


class RefusedError(Exception):
    """A message was judged, and is not taken.

    Attributes:
        answers: What its sender is told.
        plain_answers: The same to one that reads no errors.
        why: For the log, if the link ends; empty: it goes on.
    """

    def __init__(
        self, answers: Sequence[Message], plain_answers: Sequence[Message] = (), why: str = ""
    ) -> None:
        super().__init__(why)
        self.answers = answers
        self.plain_answers = plain_answers
        self.why = why


class Guard(Protocol):
    """Judges messages by the accounts of their principals."""

    def must_wait(self, principal: Principal) -> bool:
        """Whether it cannot judge now: this member is about to lead, and does not know all yet."""

    def judge(self, principal: Principal, message: Message) -> Message:
        """The message, narrowed to what the principal may ask for.

        Raises:
            RefusedError: it may not ask for any of it.
        """


class Decisions:
    """Decides by the rules, and keeps what it decided until they change.

    Args:
        table: Gives the accounts and roles of the group as they are now.
        on_refused: Told of every refusal: principal, action, resource.
    """

    def __init__(
        self,
        table: Callable[[], AccessTable],
        on_refused: Callable[[Principal, str, str], None] = lambda *_: None,
    ) -> None:
        self._table = table
        self.on_refused = on_refused
        self._version = -1
        # By account, role of its certificate, action and resource; at most DECISIONS_KEPT_MAX.
        self._kept: dict[tuple[str, str, str, str], bool] = {}

    def authorize(self, principal: Principal, action: str, resources: Iterable[str]) -> None:
        """Let a principal do an action on all of these resources, or say why not.

        Raises:
            StateError: ACCESS_DENIED; `on_refused` was told.
        """
        for resource in resources:
            if not self.may(principal, action, resource):
                raise self.denied(principal, action, resource)

    def may(self, principal: Principal, action: str, resource: str) -> bool:
        """Whether a principal may do an action on a resource, `KIND:NAME`."""
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
        """Whether a rule allows an action on a resource, whatever another denies of it."""
        account = principal.account
        return any(
            rule.effect == "allow"
            and matches(rule.action, action)
            and concerns(rule, account, resource)
            for rule in _rules_for(self._table(), principal)
        )

    def denied(self, principal: Principal, action: str, resource: str) -> StateError:
        """The answer to what no rule allows."""
        self.on_refused(principal, action, resource)
        account = principal.account
        return StateError(
            ErrorCode.ACCESS_DENIED,
            f"account {account!a} may not do {action} on {resource[:NAME_SHOWN]!a}",
            f"ask an admin: rollq access grant {account} {action} {resource[:NAME_SHOWN]}",
        )


def is_anonymous(principal: Principal) -> bool:
    """Whether it proves nothing, where that is let in: until all do, it may do everything."""
    return principal.account == ANONYMOUS and not principal.method


def _rules_for(table: AccessTable, principal: Principal) -> Sequence[Rule]:
    """Of an account; of the role of its certificate, where the group knows no such account."""
    if principal.certificate_role and principal.account not in table.accounts:
        return table.rules_of_role(principal.certificate_role)
    return table.rules_of(principal.account)


def principal_of(hello: Struct, address: str) -> Principal:
    """Who a first message says that it is.

    Raises:
        RemoteError: BAD_HANDSHAKE, if it is no hello.
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

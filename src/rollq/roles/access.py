"""Who may say what: the decision about every message that comes in. Pure.

Today a principal may say whatever the table of messages gives to its role, and nothing proves who
it is. Rules about actions and resources belong into `check`: the row of a message names both. The
door asks `check` only about types that the role may not send; with such rules it must always ask.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from rollq.base.access import LinkRole, Principal
from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.ids import guid_to_text
from rollq.wire.blob_messages import HelloBlobs
from rollq.wire.messages import HelloClient, HelloWorker, LeaderHello
from rollq.wire.reader_messages import HelloReader
from rollq.wire.registry import ROW_OF, ROWS, Direction

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

"""Requests of a reader to the leader: holds on history, and their list.

They use the client protocol, in which every member redirects to the leader.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final, TypeVar

import msgspec

from rollq.base.errors import NOT_LET_IN_CODES, DialError, ErrorCode, RollqError, StateError
from rollq.base.limits import READER_AGAIN_MS
from rollq.roles.reader.channel import Channel
from rollq.security.accounts import account_of, own_client_id
from rollq.security.credentials import Credentials
from rollq.wire.compact import Message
from rollq.wire.features import ACCEPTED, COMPACT
from rollq.wire.messages import Accepted, Admin, Answer, HelloClient, Query

M = TypeVar("M")

CLIENT_ID: Final = "rollq-reader"  # never submits: results of its jobs would be sent here


def change(
    addresses: Sequence[str],
    timeout_s: float,
    action: str,
    arguments: object,
    *,
    credentials: Credentials,
) -> None:
    """Send a change to the leader; it may be sent twice, so it must be idempotent."""
    request = Admin(bytes(15) + b"\x01", action, msgspec.msgpack.encode(arguments))
    _ask(addresses, timeout_s, request, Accepted, credentials=credentials)


def query_view(
    addresses: Sequence[str], timeout_s: float, what: str, *, credentials: Credentials
) -> bytes:
    """A view of the leader, as msgpack."""
    request = Query(bytes(15) + b"\x01", what)
    return _ask(addresses, timeout_s, request, Answer, credentials=credentials).value


def _ask(
    addresses: Sequence[str],
    timeout_s: float,
    request: Message,
    kind: type[M],
    *,
    credentials: Credentials,
) -> M:
    """Try all members in turn until the leader has answered."""
    deadline = time.monotonic() + timeout_s
    client_id = own_client_id(account_of(credentials), CLIENT_ID)
    hello = HelloClient(client_id, 0, (COMPACT, ACCEPTED))
    reasons: dict[str, str] = {}
    while True:
        for address in addresses:
            try:
                with Channel(address, hello, timeout_s, credentials) as channel:
                    channel.send(request)
                    return channel.receive(kind)
            except RollqError as error:
                is_refused = isinstance(error, StateError) and not error.retryable
                if is_refused or error.code in NOT_LET_IN_CODES:
                    raise
                reasons[address] = str(error)
        if time.monotonic() >= deadline:
            attempts = "; ".join(f"{address}: {reason}" for address, reason in reasons.items())
            raise DialError(
                ErrorCode.UNREACHABLE,
                f"no leader answers ({attempts})",
                "check the addresses, and that a majority of the members runs",
            )
        time.sleep(READER_AGAIN_MS / 1000)

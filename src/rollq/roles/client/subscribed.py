"""What a client is subscribed to, and asks every leader for. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rollq.base.errors import ErrorCode
from rollq.base.ids import MessageId
from rollq.roles.client.signals import Request
from rollq.wire.messages import Error
from rollq.wire.subject_messages import Publish, Subscribe

TOO_OLD: Final = (
    "publish and subscribe are not supported there: for a router, connect to a member of a group; "
    "for a leader of an older version, upgrade the members before the clients"
)


class Subscribed:
    """Subscriptions from when they are asked for until they end or are refused."""

    __slots__ = ("_by_id",)

    def __init__(self) -> None:
        self._by_id: dict[MessageId, Subscribe] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, request_id: MessageId) -> bool:
        return request_id in self._by_id

    def asked(self, requests: Sequence[Request]) -> None:
        """Note the subscriptions among some requests."""
        for request in requests:
            if type(request) is Subscribe:
                self._by_id[request.request_id] = request

    def moved(self, request: Subscribe) -> None:
        """The next leader is asked for one in another way."""
        if request.request_id in self._by_id:
            self._by_id[request.request_id] = request

    def ended(self, request_id: MessageId) -> Subscribe | None:
        """One is over, or refused."""
        return self._by_id.pop(request_id, None)

    def all(self) -> list[Subscribe]:
        """Those that every leader is asked for, oldest first."""
        return list(self._by_id.values())


def too_old_for(request: Publish | Subscribe) -> Error:
    """The answer in the place of a leader that does not know such messages."""
    return Error(request.request_id, int(ErrorCode.UNSUPPORTED_VERSION), TOO_OLD)

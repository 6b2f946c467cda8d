"""The subscriptions that are requested from every new leader. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rollq.base.errors import ErrorCode
from rollq.base.ids import MessageId
from rollq.roles.client.session.signals import Request
from rollq.wire.messages import Error
from rollq.wire.subject_messages import Publish, Subscribe

TOO_OLD: Final = (
    "publish and subscribe are not supported there: for a router, connect to a member of a group; "
    "for a leader of an older version, upgrade the members before the clients"
)


class SubscribeRequests:
    """Subscribe requests, until the subscription ends or is refused."""

    __slots__ = ("_by_id",)

    def __init__(self) -> None:
        self._by_id: dict[MessageId, Subscribe] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, request_id: MessageId) -> bool:
        return request_id in self._by_id

    def asked(self, requests: Sequence[Request]) -> None:
        """Record the subscribe requests among these."""
        for request in requests:
            if type(request) is Subscribe:
                self._by_id[request.request_id] = request

    def moved(self, request: Subscribe) -> None:
        """Replace the request for the next leader."""
        if request.request_id in self._by_id:
            self._by_id[request.request_id] = request

    def ended(self, request_id: MessageId) -> Subscribe | None:
        """Remove one that ended or was refused."""
        return self._by_id.pop(request_id, None)

    def all(self) -> list[Subscribe]:
        """All subscribe requests, oldest first."""
        return list(self._by_id.values())


def too_old_for(request: Publish | Subscribe) -> Error:
    """The response in place of a leader that does not support these messages."""
    return Error(request.request_id, int(ErrorCode.UNSUPPORTED_VERSION), TOO_OLD)

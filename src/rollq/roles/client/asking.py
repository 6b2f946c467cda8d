"""What the facades of a client have in common: their engine, questions to a group, and changes."""

from __future__ import annotations

import secrets
from typing import Any, Final, Self

import msgspec

from rollq.roles.client.engine import Engine
from rollq.roles.client.group_engine import GroupEngine
from rollq.wire import messages as wire

PAGE: Final = 1_000  # rows that are asked for at once


class Calls:
    """Calls of any client. They keep nothing: all state is in the engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine


class ClientCalls(Calls):
    """What every client is: something that is started and stopped, under a name."""

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Begin to look for the leader of each group. Calls wait until there is one, or for their
        timeout."""
        await self._engine.start()

    async def stop(self) -> None:
        """Hang up. Jobs go on; their results wait for whoever comes back under this client id. In a
        forked child the connections are the parent's, and stay."""
        await self._engine.stop()

    @property
    def client_id(self) -> str:
        """The name that results are owed to."""
        return self._engine.client_id


class GroupCalls(Calls):
    """Calls of a client of one group.

    Questions are never stale. A change that was sent and whose answer was lost is not sent again:
    it raises OUTCOME_UNKNOWN, and whoever asked must look.
    """

    _engine: GroupEngine

    async def _query(
        self, what: str, key: bytes = b"", limit: int = 100, *, timeout: float | None = None
    ) -> bytes:
        """A view by its name, as msgpack."""
        request = wire.Query(secrets.token_bytes(16), what, key, limit)
        return bytes((await self._engine.call(request, timeout)).value)

    async def _change(self, action: str, **arguments: Any) -> int:
        """A change by its name; returns how many things it changed."""
        request = wire.Admin(secrets.token_bytes(16), action, msgspec.msgpack.encode(arguments))
        return int((await self._engine.call(request)).count)

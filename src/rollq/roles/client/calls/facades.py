"""Base classes of the client's facades: access to the engine, queries and administrative
changes."""

from __future__ import annotations

import secrets
from typing import Any, Final, Self

import msgspec

from rollq.roles.client.engine.base import Engine
from rollq.roles.client.engine.one_group import GroupEngine
from rollq.wire import messages as wire

PAGE: Final = 1_000  # rows per query


class Calls:
    """Calls of any client. They are stateless: all state is in the engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine


class ClientCalls(Calls):
    """Start, stop and client id, for every kind of client."""

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Connect to the leader of each group, in the background. Calls wait for the connection, at
        most for their timeout."""
        await self._engine.start()

    async def stop(self) -> None:
        """Close the connections. Jobs go on; a client with the same client id receives their
        results later. In a forked child this does nothing: the connections are the parent's."""
        await self._engine.stop()

    @property
    def client_id(self) -> str:
        """The client id. Results are sent to the clients that connect with it."""
        return self._engine.client_id


class GroupCalls(Calls):
    """Calls of a client of one group.

    Queries are linearizable. A change that was sent without getting a response is not sent again:
    it raises OUTCOME_UNKNOWN, and the caller must check whether it was applied.
    """

    _engine: GroupEngine

    async def _query(
        self, what: str, key: bytes = b"", limit: int = 100, *, timeout: float | None = None
    ) -> bytes:
        """Run a query by its wire name; returns the view as msgpack."""
        request = wire.Query(secrets.token_bytes(16), what, key, limit)
        return bytes((await self._engine.call(request, timeout)).value)

    async def _change(self, action: str, **arguments: Any) -> int:
        """Run an administrative change by its wire name; returns how many objects it changed."""
        request = wire.Admin(secrets.token_bytes(16), action, msgspec.msgpack.encode(arguments))
        return int((await self._engine.call(request)).count)

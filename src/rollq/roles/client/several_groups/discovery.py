"""Finds the groups of a federation from one address, and follows changes of the set of groups."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, NamedTuple

from rollq.base.errors import DeadlineError, ErrorCode, LocalError, RollqError
from rollq.base.federation_limits import FOLLOW_MS
from rollq.base.names import COMMAND_LINE
from rollq.gossip.following import Following, GroupChanges
from rollq.gossip.map import FederationView
from rollq.roles.client.answers import decode_as
from rollq.roles.client.calls.admin import AdminCalls
from rollq.roles.client.engine.base import default_id
from rollq.roles.client.engine.one_group import GroupEngine
from rollq.roles.client.session.group_session import GroupSession
from rollq.roles.service import end_tasks
from rollq.security.credentials import Credentials
from rollq.wire import messages as wire

AGAIN_S: Final = 0.25  # poll interval while no group is known


class Federation(NamedTuple):
    """All groups of a federation, as an argument of `MultiClient`.

    Attributes:
        addresses: Members or routers of the federation; one is enough.
    """

    addresses: str


class Discovery:
    """The groups of a federation, for one client.

    Args:
        federation: The seed addresses.
        credentials: Of the client.
        timeout_s: Timeout of a query.
    """

    def __init__(self, federation: Federation, credentials: Credentials, timeout_s: float) -> None:
        self._addresses = federation.addresses
        self._credentials = credentials
        self._timeout_s = timeout_s
        self._following = Following()
        self._task: asyncio.Task[None] | None = None

    async def first(self) -> GroupChanges:
        """Query the seeds until at least one group is known.

        Raises:
            LocalError: BAD_SETUP, if the seeds do not gossip.
            DeadlineError: no usable group was found in time.
            RollqError: no seed answered.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                while True:
                    steps = self._steps(await self._ask_seeds())
                    if steps.found:
                        return steps
                    await asyncio.sleep(AGAIN_S)
        except DeadlineError:
            raise
        except TimeoutError:
            raise DeadlineError(
                ErrorCode.TIMED_OUT,
                f"{self._addresses} knows no usable group",
                "see `rollq groups`",
            ) from None

    def follow(
        self,
        sessions: Callable[[], Iterable[GroupSession]],
        apply: Callable[[GroupChanges], Awaitable[None]],
    ) -> None:
        """Poll a random connected group, in the background, and apply changes of the set of
        groups."""
        self._task = asyncio.get_running_loop().create_task(self._follow(sessions, apply))

    async def stop(self) -> None:
        """End the background task."""
        task, self._task = self._task, None
        if task is not None:
            await end_tasks([task])

    async def _follow(
        self,
        sessions: Callable[[], Iterable[GroupSession]],
        apply: Callable[[GroupChanges], Awaitable[None]],
    ) -> None:
        while True:
            await asyncio.sleep(FOLLOW_MS / 1000)
            connected = [session for session in sessions() if session.is_open]
            try:
                async with asyncio.timeout(self._timeout_s):
                    if connected:
                        view = await _ask(secrets.choice(connected))
                    else:
                        view = await self._ask_seeds()
                    await apply(self._following.update(view, _now_ms()))
            except (RollqError, TimeoutError):
                continue  # the next poll picks another group

    def _steps(self, view: FederationView) -> GroupChanges:
        if not view.is_on:
            raise LocalError(
                ErrorCode.BAD_SETUP,
                f"{self._addresses} does not gossip, so its groups cannot be discovered",
                "start members with --federation-key, or name the groups",
            )
        return self._following.update(view, _now_ms())

    async def _ask_seeds(self) -> FederationView:
        """Query a seed in a session of its own, under another client id, so that it gets no
        results."""
        engine = GroupEngine(
            self._addresses,
            default_id(self._credentials, COMMAND_LINE),
            timeout_s=self._timeout_s,
            credentials=self._credentials,
        )
        await engine.start()
        try:
            return await AdminCalls(engine).groups()
        finally:
            await engine.stop()


async def _ask(session: GroupSession) -> FederationView:
    answer = await session.call(wire.Query(secrets.token_bytes(16), "groups"))
    return decode_as(answer.value, FederationView) if isinstance(answer, wire.Answer) else OFF


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


OFF: Final = FederationView()

"""Large messages on their way, some at a time, and what became of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from rollq.base.errors import RollqError
from rollq.base.ids import ClientId, MessageId
from rollq.base.limits import BULK_CHUNKS_AHEAD
from rollq.roles.client.answers import error_of
from rollq.roles.client.session import Answer, OnAnswer
from rollq.roles.client.signals import Request
from rollq.roles.client.specs import JobSpec
from rollq.roles.client.supply import NOTHING, Supply
from rollq.wire import messages as wire
from rollq.wire.staging_messages import StageJobs

Content = TypeVar("Content")


class Door(Protocol):
    """What a run of messages needs of its client."""

    client_id: ClientId

    def ask(self, request: Request, on_answer: OnAnswer, supply: Supply = NOTHING) -> None:
        """Send a request, after its files; the callback gets its answer."""

    async def settle_all(self, specs: Sequence[JobSpec]) -> Sequence[JobSpec]:
        """Read the files of jobs, as far as they are not in them."""

    def uploaded_at(self) -> float:
        """When files were on their way last, by the loop's clock."""

    def give_up(self, request_id: MessageId) -> None:
        """Wait no longer for an answer."""

    def overdue(self, what: str) -> RollqError:
        """The error for what was not accepted in time."""


class Flight(Generic[Content]):
    """Messages that were sent and not answered.

    Args:
        door: The client that sends them.
        what: What they are messages of, for the error.
        patience_s: How long nothing may be answered; files on their way count as answers.
        landed: Told what a message held, and whether it was accepted.
    """

    def __init__(
        self,
        door: Door,
        what: str,
        patience_s: float,
        landed: Callable[[Content, bool], None],
    ) -> None:
        self._door = door
        self._what = what
        self._patience_s = patience_s
        self._landed = landed
        self._on_the_way: dict[MessageId, Content] = {}
        self._has_files = False
        self._error: RollqError | None = None
        self._wake = asyncio.Event()

    async def room(self) -> None:
        """Wait until one more may be sent; raises as `finish` does."""
        await self._until(BULK_CHUNKS_AHEAD - 1)

    async def send(
        self, request: wire.SubmitBulk | StageJobs, supply: Supply, content: Content
    ) -> None:
        """Send one more, after its files."""
        self._door.ask(request, self._on_answer, supply)
        self._has_files |= supply is not NOTHING
        self._on_the_way[request.request_id] = content
        await asyncio.sleep(0)  # it leaves while the next one is made

    async def finish(self) -> None:
        """Wait until all are accepted.

        Raises:
            RollqError: one was refused, or none was answered for too long.
        """
        await self._until(0)

    def close(self) -> None:
        """What is not answered by now is not sent again, and counts as refused."""
        for request_id, content in self._on_the_way.items():
            self._door.give_up(request_id)
            self._landed(content, False)
        self._on_the_way.clear()

    def _on_answer(self, answer: Answer) -> None:
        content = self._on_the_way.pop(answer.request_id)
        if isinstance(answer, wire.Error):
            self._error = self._error or error_of(answer)
            self._landed(content, False)
        else:
            self._landed(content, True)
        self._wake.set()

    async def _until(self, on_the_way_max: int) -> None:
        while self._error is None and len(self._on_the_way) > on_the_way_max:
            self._wake.clear()
            try:
                async with asyncio.timeout(self._patience_s):
                    await self._wake.wait()
            except TimeoutError:
                uploaded_s = asyncio.get_running_loop().time() - self._door.uploaded_at()
                if self._has_files and uploaded_s < self._patience_s:
                    continue
                count = len(self._on_the_way)
                raise self._door.overdue(f"{count} messages of {self._what}") from None
        if self._error is not None:
            raise self._error

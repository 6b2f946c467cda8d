"""Many jobs in few messages. A message a few thousand jobs, a callback a message, and nothing a
job but its body."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Protocol

from rollq.base.errors import ErrorCode, LocalError, RollqError
from rollq.base.ids import ClientId, MessageId, task_id
from rollq.base.limits import BULK_CHUNKS_AHEAD
from rollq.roles.client.answers import error_of
from rollq.roles.client.chunk import Chunk
from rollq.roles.client.handles import Batch, Progress
from rollq.roles.client.session import Answer, OnAnswer
from rollq.roles.client.signals import Request
from rollq.roles.client.specs import JobSpec, body_of
from rollq.wire import messages as wire


class Door(Protocol):
    """What a run needs of its client."""

    client_id: ClientId

    def ask(self, request: Request, on_answer: OnAnswer) -> None:
        """Send a request; the callback gets its answer."""

    def give_up(self, request_id: MessageId) -> None:
        """Wait no longer for an answer."""

    def overdue(self, what: str) -> RollqError:
        """The error for what was not accepted in time."""


class BulkRun:
    """One `submit_many`: messages on the way, and how many jobs were accepted."""

    def __init__(
        self, door: Door, batch: Batch, patience_s: float, progress: Progress | None
    ) -> None:
        self.accepted = 0
        self._door = door
        self._batch = batch
        self._patience_s = patience_s
        self._progress = progress
        self._on_the_way: dict[MessageId, tuple[int, int]] = {}  # first job, how many
        self._error: RollqError | None = None
        self._wake = asyncio.Event()

    async def submit(self, specs: Iterable[JobSpec]) -> None:
        """Submit all; returns when all are accepted.

        Raises:
            RollqError: a message was refused, or nothing was accepted for too long.
        """
        for chunk in self._chunks(specs):
            count = len(chunk.items)
            self._door.ask(chunk, self._on_answer)
            self._on_the_way[chunk.request_id] = (len(self._batch) - count, count)
            await asyncio.sleep(0)  # the message leaves while the next one is made
            await self._until(BULK_CHUNKS_AHEAD - 1)
        await self._until(0)

    def close(self) -> None:
        """What is not answered by now is not sent again, and does not count as submitted."""
        for request_id, (first, count) in self._on_the_way.items():
            self._door.give_up(request_id)
            self._batch.cut(first, count)
        self._on_the_way.clear()

    def _chunks(self, specs: Iterable[JobSpec]) -> Iterator[wire.SubmitBulk]:
        """Messages of jobs that follow one another and ask for the same."""
        chunk = Chunk()
        client_id, first_id = self._door.client_id, self._batch.first_id
        for number, spec in enumerate(specs):
            if spec.job_id is not None:
                raise LocalError(
                    ErrorCode.BAD_OPTIONS,
                    "a job with an id of its own in a bulk",
                    "use `submit` or `map` for those",
                )
            job_id = task_id(first_id, number)
            body = body_of(spec, job_id, client_id)
            if not chunk.add(spec, job_id, body):
                yield self._message(chunk)
                chunk = Chunk()
                chunk.add(spec, job_id, body)
        if chunk.items:
            yield self._message(chunk)

    def _message(self, chunk: Chunk) -> wire.SubmitBulk:
        self._batch.extend(len(chunk.items))
        return chunk.message(self._door.client_id)

    def _on_answer(self, answer: Answer) -> None:
        first, count = self._on_the_way.pop(answer.request_id)
        if isinstance(answer, wire.Error):
            self._batch.cut(first, count)
            self._error = self._error or error_of(answer)
        else:
            self.accepted += count
            if self._progress is not None:
                self._progress(self.accepted, None)
        self._wake.set()

    async def _until(self, on_the_way_max: int) -> None:
        while self._error is None and len(self._on_the_way) > on_the_way_max:
            self._wake.clear()
            try:
                async with asyncio.timeout(self._patience_s):
                    await self._wake.wait()
            except TimeoutError:
                raise self._door.overdue(f"{len(self._on_the_way)} messages of many jobs") from None
        if self._error is not None:
            raise self._error

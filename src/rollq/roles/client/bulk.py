"""Many jobs in few messages. A message a few thousand jobs, a callback a message, and nothing a
job but its body."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, Protocol

from rollq.base.errors import ErrorCode, LocalError, RollqError
from rollq.base.ids import ClientId, MessageId, task_id
from rollq.base.limits import BULK_CHUNKS_AHEAD
from rollq.roles.client.answers import error_of
from rollq.roles.client.chunk import Chunk
from rollq.roles.client.handles import Batch, Progress
from rollq.roles.client.session import Answer, OnAnswer
from rollq.roles.client.signals import Request
from rollq.roles.client.specs import JobSpec, body_of
from rollq.roles.client.supply import NOTHING, Supply
from rollq.wire import messages as wire

PAGE_JOBS: Final = 256  # whose files are read before the first of them is sent


class Door(Protocol):
    """What a run needs of its client."""

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
        self._chunk = Chunk()
        self._count = 0
        self._has_files = False
        self._on_the_way: dict[MessageId, tuple[int, int]] = {}  # first job, how many
        self._error: RollqError | None = None
        self._wake = asyncio.Event()

    async def submit(self, specs: Iterable[JobSpec]) -> None:
        """Submit all; returns when all are accepted.

        Raises:
            RollqError: a message was refused, or nothing was accepted for too long.
        """
        left = iter(specs)
        while page := list(islice(left, PAGE_JOBS)):
            for chunk in self._chunks(await self._door.settle_all(page)):
                await self._send(chunk)
        if self._chunk.items:
            await self._send(self._chunk)
        await self._until(0)

    def close(self) -> None:
        """What is not answered by now is not sent again, and does not count as submitted."""
        for request_id, (first, count) in self._on_the_way.items():
            self._door.give_up(request_id)
            self._batch.cut(first, count)
        self._on_the_way.clear()

    def _chunks(self, specs: Iterable[JobSpec]) -> Iterator[Chunk]:
        """Jobs that follow one another and ask for the same, as far as a message is full."""
        client_id, first_id = self._door.client_id, self._batch.first_id
        for spec in specs:
            if spec.job_id is not None or spec.key:
                raise LocalError(
                    ErrorCode.BAD_OPTIONS,
                    "a job with an id or a key of its own in a bulk",
                    "use `submit`, `map` or `stage` for those",
                )
            job_id = task_id(first_id, self._count)
            body = body_of(spec, job_id, client_id)
            if not self._chunk.add(spec, job_id, body):
                full, self._chunk = self._chunk, Chunk()
                yield full
                self._chunk.add(spec, job_id, body)
            self._count += 1

    async def _send(self, chunk: Chunk) -> None:
        count = len(chunk.items)
        self._batch.extend(count)
        message = chunk.message(self._door.client_id)
        self._door.ask(message, self._on_answer, chunk.supply)
        self._has_files |= chunk.supply is not NOTHING
        self._on_the_way[message.request_id] = (len(self._batch) - count, count)
        await asyncio.sleep(0)  # the message leaves while the next one is made
        await self._until(BULK_CHUNKS_AHEAD - 1)

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
                uploaded_s = asyncio.get_running_loop().time() - self._door.uploaded_at()
                if self._has_files and uploaded_s < self._patience_s:
                    continue
                raise self._door.overdue(f"{len(self._on_the_way)} messages of many jobs") from None
        if self._error is not None:
            raise self._error

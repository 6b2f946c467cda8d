"""Many jobs in few messages. A message a few thousand jobs, a callback a message, and nothing a
job but its body."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from rollq.base.errors import ErrorCode, LocalError
from rollq.base.ids import task_id
from rollq.roles.client.chunk import Chunk
from rollq.roles.client.flight import Door, Flight
from rollq.roles.client.handles import Batch, Progress
from rollq.roles.client.specs import JobSpec, body_of

PAGE_JOBS: Final = 256  # whose files are read before the first of them is sent


class BulkRun:
    """One `submit_many`: messages on the way, and how many jobs were accepted."""

    def __init__(
        self, door: Door, batch: Batch, patience_s: float, progress: Progress | None
    ) -> None:
        self.accepted = 0
        self._door = door
        self._batch = batch
        self._progress = progress
        self._chunk = Chunk()
        self._count = 0
        self._flight: Flight[tuple[int, int]] = Flight(  # first job, how many
            door, "many jobs", patience_s, self._landed
        )

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
        await self._flight.finish()

    def close(self) -> None:
        """What is not answered by now is not sent again, and does not count as submitted."""
        self._flight.close()

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
        await self._flight.room()
        first, count = len(self._batch), len(chunk.items)
        self._batch.extend(count)
        message = chunk.message(self._door.client_id)
        await self._flight.send(message, chunk.supply, (first, count))

    def _landed(self, jobs: tuple[int, int], is_accepted: bool) -> None:
        if not is_accepted:
            self._batch.cut(*jobs)
            return
        self.accepted += jobs[1]
        if self._progress is not None:
            self._progress(self.accepted, None)

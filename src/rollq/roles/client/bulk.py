"""Many jobs in few messages: a message a few thousand jobs, a callback a message, and nothing a
job but its body."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from rollq.base.digests import DIGEST_BYTES, Digest
from rollq.base.errors import ErrorCode, LocalError
from rollq.base.ids import ClientId, JobId, task_id
from rollq.base.jobs import BulkItem
from rollq.base.limits import BULK_CHUNK_BYTES, BULK_CHUNK_JOBS, BULK_CHUNKS_AHEAD
from rollq.roles.client.answers import error_of
from rollq.roles.client.draws import draw_id
from rollq.roles.client.engine import Engine
from rollq.roles.client.handles import Batch, Progress
from rollq.roles.client.pump import Pump
from rollq.roles.client.session import Answer
from rollq.roles.client.specs import JobSpec, body_of, job_options, subject_of
from rollq.roles.client.supply import NOTHING, InputBlob, SettledSpec, Supply, caches_of
from rollq.wire import messages as wire

PAGE_JOBS: Final = 256  # whose files are read before the first of them is sent
REF_BYTES: Final = DIGEST_BYTES + 16  # of a reference, in a message


class BulkRun:
    """One `submit_many`: messages on the way, and how many jobs were accepted."""

    def __init__(
        self, engine: Engine, batch: Batch, timeout_s: float, progress: Progress | None
    ) -> None:
        self.accepted = 0
        self._engine = engine
        self._batch = batch
        self._progress = progress
        self._chunk = BulkMessage()
        self._count = 0
        # Of each message its first job, and how many.
        self._pump: Pump[tuple[int, int]] = Pump(
            engine, "messages of many jobs", timeout_s, self._on_answer
        )

    async def submit(self, specs: Iterable[JobSpec]) -> None:
        """Submit all; returns when all are accepted.

        Raises:
            RollqError: a message was refused, or nothing was accepted for too long.
        """
        left = iter(specs)
        while page := list(islice(left, PAGE_JOBS)):
            for chunk in self._chunks(await self._engine.inputs.settle_all(page)):
                await self._send(chunk)
        if self._chunk.items:
            await self._send(self._chunk)
        await self._pump.drain()

    def close(self) -> None:
        """What is not answered by now is not sent again, and does not count as submitted."""
        for jobs in self._pump.close():
            self._batch.cut(*jobs)

    def _chunks(self, specs: Iterable[JobSpec]) -> Iterator[BulkMessage]:
        """Jobs that follow one another and ask for the same, as far as a message is full."""
        client_id, first_id = self._engine.client_id, self._batch.first_id
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
                full, self._chunk = self._chunk, BulkMessage()
                yield full
                self._chunk.add(spec, job_id, body)
            self._count += 1

    async def _send(self, chunk: BulkMessage) -> None:
        await self._pump.drain(BULK_CHUNKS_AHEAD - 1)
        first, count = len(self._batch), len(chunk.items)
        self._batch.extend(count)
        self._pump.send(chunk.message(self._engine.client_id), (first, count), chunk.supply)
        await asyncio.sleep(0)  # it leaves while the next one is made

    def _on_answer(self, jobs: tuple[int, int], answer: Answer) -> None:
        if isinstance(answer, wire.Error):
            self._batch.cut(*jobs)
            self._pump.fail(error_of(answer))
            return
        self.accepted += jobs[1]
        if self._progress is not None:
            self._progress(self.accepted, None)


class BulkMessage:
    """The jobs of one message, as they are collected: they follow one another and ask for the
    same. No IO."""

    __slots__ = ("_bytes", "_first", "_has_blobs", "_pieces", "items")

    def __init__(self) -> None:
        self.items: list[BulkItem] = []
        self._first: JobSpec | None = None
        self._bytes = 0
        self._pieces: dict[Digest, InputBlob] = {}
        self._has_blobs = False

    def add(self, spec: JobSpec, job_id: JobId, body: bytes) -> bool:
        """Take a job; false if it must go into another message."""
        first = self._first
        if first is None:
            self._first = spec
        elif (
            len(self.items) >= BULK_CHUNK_JOBS
            or self._bytes + len(body) > BULK_CHUNK_BYTES
            or spec.exec_name != first.exec_name
            or (spec.options is not first.options and spec.options != first.options)
            or caches_of(spec) != caches_of(first)
        ):
            return False
        if type(spec) is SettledSpec:
            self.items.append(BulkItem(job_id, body, spec.blobs, spec.key))
            self._bytes += REF_BYTES * len(spec.blobs)
            self._pieces.update(spec.pieces)
            self._has_blobs |= bool(spec.blobs)
        else:
            self.items.append(BulkItem(job_id, body, (), spec.key))
        self._bytes += len(body)
        return True

    @property
    def supply(self) -> Supply:
        """Where the files of these jobs can be had from."""
        return Supply(self._pieces) if self._has_blobs else NOTHING

    def message(self, client_id: ClientId) -> wire.SubmitBulk:
        """What was collected, at least one job.

        Raises:
            LocalError: BAD_OPTIONS, naming the option.
        """
        first = self._first
        assert first is not None
        return wire.SubmitBulk(
            request_id=draw_id(),
            client_id=client_id,
            subject=subject_of(first.exec_name, first.options),
            exec_name=first.exec_name,
            items=tuple(self.items),
            options=job_options(first.options),
            caches=caches_of(first),
        )

"""`client.batches`: stage many jobs in parts, from one process or many, and commit them atomically.

    part = await client.stage("load-7", "0", specs)        # from any number of processes
    outcome = await client.commit("load-7", [part])        # all jobs of all parts, or none

Staged jobs are invisible until the commit. A task that is retried stages its part again under
another name; only the parts that the commit names are accepted. Both calls are idempotent: a batch
is committed once per client and key, and a repeated commit returns `known=True`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import closing
from itertools import islice
from typing import Final

import msgspec

from rollq.base.errors import ErrorCode
from rollq.base.ids import JobId, MessageId
from rollq.base.limits import STAGE_CHUNKS_AHEAD
from rollq.base.staged import StagedPart
from rollq.grid.batches import BatchFilter, BatchView
from rollq.grid.commands import BatchName
from rollq.roles.client.answers import decode_as, decode_known, error_of
from rollq.roles.client.calls.facades import PAGE, GroupCalls
from rollq.roles.client.engine.base import PREFIX_BYTES, Engine
from rollq.roles.client.jobs.parts import Message, PartBuilder, Redrive
from rollq.roles.client.jobs.specs import JobSpec, draw_id
from rollq.roles.client.many.bulk import PAGE_JOBS
from rollq.roles.client.many.pump import Pump
from rollq.roles.client.results.handles import Batch
from rollq.roles.client.session.group_session import Answer
from rollq.wire import messages as wire
from rollq.wire.staging_messages import CommitBatch, DropBatch

STAGE_AGAIN_S: Final = 0.2  # delay before a part is sent again after GRID_FULL


class CommitOutcome(msgspec.Struct, frozen=True):
    """The result of a commit: the number of jobs, and whether it had been committed before."""

    count: int
    known: bool


class BatchCalls(GroupCalls):
    """Stage, commit, drop and list batches."""

    async def stage(
        self,
        batch_key: str,
        part: str,
        jobs: Iterable[JobSpec],
        *,
        client_id: str = "",
        timeout: float | None = None,
    ) -> StagedPart:
        """Stage jobs of a batch; returns when a majority has stored them. They stay invisible.

        Args:
            batch_key: The batch. Up to 256 bytes, unique for the client.
            part: A name that is unique in the batch, such as task and attempt.
            jobs: Any number, read lazily. The id of a job with a `key` is derived from client id
                and key, so that a job that was accepted before is not accepted again.
            client_id: The client that will own the jobs; default: this one.
            timeout: How many seconds may pass without any progress.

        Raises:
            LocalError: BAD_OPTIONS for an invalid job; nothing is submitted.
            RollqError: a message was refused, or not accepted in time.
        """
        builder = PartBuilder(client_id or self._engine.client_id, batch_key, part)
        left = iter(jobs)
        with closing(StageRun(self._engine, timeout)) as run:
            while page := list(islice(left, PAGE_JOBS)):
                await run.put(builder.messages(await self._engine.inputs.settle_all(page)))
            await run.put(builder.rest())
            await run.finish()
        return builder.staged

    async def stage_redrives(
        self,
        batch_key: str,
        part: str,
        jobs: Iterable[Redrive],
        *,
        client_id: str = "",
        timeout: float | None = None,
    ) -> StagedPart:
        """Stage dead jobs of any client to run again; otherwise like `stage`.

        Raises:
            RollqError: a message was refused, or not accepted in time. Whether all of them are
                dead is checked by the commit.
        """
        builder = PartBuilder(client_id or self._engine.client_id, batch_key, part)
        with closing(StageRun(self._engine, timeout)) as run:
            await run.put(builder.redrives(jobs))
            await run.finish()
        return builder.staged

    async def commit(
        self,
        batch_key: str,
        parts: Sequence[StagedPart],
        *,
        client_id: str = "",
        timeout: float | None = None,
    ) -> CommitOutcome:
        """Accept every job of these parts, all or none; other parts of the batch are dropped.

        The jobs appear in their queues shortly after. A batch that was committed before is not
        changed, whichever parts are named, and the outcome has `known=True`.

        Raises:
            StateError: BATCH_INCOMPLETE if a part is missing or differs from what was staged,
                JOB_CONFLICT if an id belongs to another job; nothing is accepted.
            RollqError: it was refused for another reason, or not answered in time.
        """
        request = CommitBatch(draw_id(), batch_key, tuple(parts), client_id)
        answer = await self._engine.call(request, timeout)
        return CommitOutcome(int(answer.count), bool(answer.known))

    async def drop_batch(
        self, batch_key: str, *, client_id: str = "", timeout: float | None = None
    ) -> bool:
        """Drop the staged parts of a batch; false if there are none, or it is committed. A batch
        that is neither committed nor dropped expires after an hour."""
        answer = await self._engine.call(DropBatch(draw_id(), batch_key, client_id), timeout)
        return bool(answer.count)

    async def batch(self, batch_key: str, *, client_id: str = "") -> BatchView | None:
        """Return the state of a batch; None if it is unknown or has expired. The group does not
        record which jobs belong to it."""
        name = BatchName(client_id or self._engine.client_id, batch_key)
        return decode_known(await self._query("batch", msgspec.msgpack.encode(name)), BatchView)

    async def list_batches(self, *, client_id: str = "") -> AsyncGenerator[BatchView, None]:
        """Iterate over the batches of a client, or of all clients, ordered by client and key."""
        wanted = BatchFilter(client_id)
        while page := await self._batch_page(wanted):
            for view in page:
                yield view
            wanted = BatchFilter(client_id, page[-1].client_id, page[-1].batch_key)

    async def _batch_page(self, wanted: BatchFilter) -> list[BatchView]:
        value = await self._query("batches", msgspec.msgpack.encode(wanted), PAGE)
        return decode_as(value, list[BatchView])


class Batches(BatchCalls):
    """Batches, with low-level calls for tools that encode parts themselves."""

    async def settle(self, jobs: Sequence[JobSpec]) -> Sequence[JobSpec]:
        """Read the input files of jobs, unless their contents are given."""
        return await self._engine.inputs.settle_all(jobs)

    async def stage_messages(
        self, messages: Iterable[Message], *, waits: bool = True, timeout: float | None = None
    ) -> None:
        """Send messages of a `PartBuilder`.

        Args:
            messages: Messages of any parts.
            waits: Whether to retry while the staging area is full.
            timeout: How many seconds may pass without any progress.

        Raises:
            RollqError: GRID_FULL if there is no room, BAD_OPTIONS if the batch is full.
        """
        with closing(StageRun(self._engine, timeout, waits=waits)) as run:
            await run.put(messages)
            await run.finish()

    def expect(self, first_id: JobId, count: int) -> Batch:
        """Return a handle for jobs with consecutive ids that are about to be committed. It receives
        the results of jobs that end from now on."""
        batch = Batch(self._engine, first_id, keeps=True)
        batch.extend(count)
        batch.complete()
        self._engine.targets[first_id[:PREFIX_BYTES]] = batch
        return batch

    def forget(self, first_id: JobId) -> None:
        """Detach such a handle: it receives no more results."""
        self._engine.targets.pop(first_id[:PREFIX_BYTES], None)


class StageRun:
    """The messages of a part in flight.

    Args:
        engine: The client that sends them.
        timeout_s: How long nothing may be accepted; None: the client's timeout.
        waits: Whether to retry while the staging area is full, or to raise GRID_FULL at once.
    """

    def __init__(self, engine: Engine, timeout_s: float | None, *, waits: bool = True) -> None:
        self._timeout_s = engine.timeout_s if timeout_s is None else timeout_s
        self._waits = waits
        self._full_at: float | None = None  # when GRID_FULL began, by the loop's clock
        self._sent: dict[MessageId, Message] = {}  # without a response
        self._pump = Pump(
            engine, "jobs of a batch", self._timeout_s, self._on_answer, submits=False
        )

    async def put(self, messages: Iterable[Message]) -> None:
        """Send messages, as the window allows."""
        for message in messages:
            await self._pump.drain(STAGE_CHUNKS_AHEAD - 1)
            self._sent[message[0].request_id] = message
            self._pump.send(*message)
            await asyncio.sleep(0)  # let the loop send it while the next one is encoded

    async def finish(self) -> None:
        """Wait until all are accepted.

        Raises:
            RollqError: a message was refused, or nothing was accepted for too long.
        """
        await self._pump.drain()

    def close(self) -> None:
        """Stop resending messages that have no response."""
        self._pump.close()

    def _on_answer(self, answer: Answer) -> None:
        message = self._sent.pop(answer.request_id)
        loop = asyncio.get_running_loop()
        if not (isinstance(answer, wire.Error) and answer.code == ErrorCode.GRID_FULL):
            self._full_at = None
        elif self._full_at is None:
            self._full_at = loop.time()
        full_s = 0.0 if self._full_at is None else loop.time() - self._full_at
        if self._full_at is not None and self._waits and full_s < self._timeout_s:
            self._sent[answer.request_id] = message
            self._pump.send_later(STAGE_AGAIN_S, *message)
        elif isinstance(answer, wire.Error):
            self._pump.fail(error_of(answer))

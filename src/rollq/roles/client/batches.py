"""`client.batches`: many jobs sent ahead in parts, by one process or many, and accepted at once.

    part = await client.stage("load-7", "0", specs)        # any process, any number of them
    outcome = await client.commit("load-7", [part])        # all jobs of all parts, or none

Nobody sees a staged job. A part that is staged again (because whoever did it was thought dead) gets
another name, and only the parts that the commit names count. Both calls may be repeated: a batch is
committed once for its client and key, and whoever comes later is told that it is known.
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
from rollq.roles.client.asking import PAGE, GroupCalls
from rollq.roles.client.bulk import PAGE_JOBS
from rollq.roles.client.engine import PREFIX_BYTES, Engine
from rollq.roles.client.handles import Batch
from rollq.roles.client.parts import Message, PartBuilder, Redrive
from rollq.roles.client.pump import Pump
from rollq.roles.client.session import Answer
from rollq.roles.client.specs import JobSpec, draw_id
from rollq.wire import messages as wire
from rollq.wire.staging_messages import CommitBatch, DropBatch

STAGE_AGAIN_S: Final = 0.2  # before what found no room is sent again


class CommitOutcome(msgspec.Struct, frozen=True):
    """A batch is accepted: so many jobs; `known` if it was before."""

    count: int
    known: bool


class BatchCalls(GroupCalls):
    """Stage, commit, drop, look."""

    async def stage(
        self,
        batch_key: str,
        part: str,
        jobs: Iterable[JobSpec],
        *,
        client_id: str = "",
        timeout: float | None = None,
    ) -> StagedPart:
        """Send jobs of a batch ahead; returns when all are on the disks of a majority, unseen.

        Args:
            batch_key: The batch. Up to 256 bytes, unique for the client.
            part: A name that nobody else uses in this batch: say, task and attempt.
            jobs: Any number; taken as they can be sent. Jobs with a `key` have the id that follows
                from client and key, so that a job that was accepted before is not accepted again.
            client_id: Whose jobs they will be; this client's if it is left out.
            timeout: How many seconds nothing may be accepted.

        Raises:
            LocalError: BAD_OPTIONS, for a job that cannot be meant so; nothing is submitted.
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
        """Send dead jobs ahead that are to run again, of whoever they are; otherwise as `stage`.

        Raises:
            RollqError: a message was refused, or not accepted in time. Whether all of them are
                dead is asked by the commit.
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
        """Accept every job of these parts, all or none; other parts of the batch are forgotten.

        The jobs come into their queues within moments. A batch that was committed before stays as
        it is, whatever parts are named now, and the outcome says that it is known.

        Raises:
            StateError: BATCH_INCOMPLETE if a part is not there as it was staged, JOB_CONFLICT if an
                id is taken by another job; nothing is accepted.
            RollqError: it was refused for another reason, or not answered in time.
        """
        request = CommitBatch(draw_id(), batch_key, tuple(parts), client_id)
        answer = await self._engine.call(request, timeout)
        return CommitOutcome(int(answer.count), bool(answer.known))

    async def drop_batch(
        self, batch_key: str, *, client_id: str = "", timeout: float | None = None
    ) -> bool:
        """Forget what was staged for a batch; false if there was nothing, or it is committed. What
        nobody commits or drops is dropped by the grid after an hour."""
        answer = await self._engine.call(DropBatch(draw_id(), batch_key, client_id), timeout)
        return bool(answer.count)

    async def batch(self, batch_key: str, *, client_id: str = "") -> BatchView | None:
        """One batch: how far it has come into the queues; None if it is not known (any more). The
        group does not keep which jobs came by it."""
        name = BatchName(client_id or self._engine.client_id, batch_key)
        return decode_known(await self._query("batch", msgspec.msgpack.encode(name)), BatchView)

    async def list_batches(self, *, client_id: str = "") -> AsyncGenerator[BatchView, None]:
        """Every batch of a client, or of all of them, by client and key."""
        wanted = BatchFilter(client_id)
        while page := await self._batch_page(wanted):
            for view in page:
                yield view
            wanted = BatchFilter(client_id, page[-1].client_id, page[-1].batch_key)

    async def _batch_page(self, wanted: BatchFilter) -> list[BatchView]:
        value = await self._query("batches", msgspec.msgpack.encode(wanted), PAGE)
        return decode_as(value, list[BatchView])


class Batches(BatchCalls):
    """The same, and what tools need that make parts themselves."""

    async def settle(self, jobs: Sequence[JobSpec]) -> Sequence[JobSpec]:
        """Read the files of jobs, as far as they are not in them."""
        return await self._engine.inputs.settle_all(jobs)

    async def stage_messages(
        self, messages: Iterable[Message], *, waits: bool = True, timeout: float | None = None
    ) -> None:
        """Send what a `PartBuilder` made.

        Args:
            messages: Of any parts.
            waits: Where there is no room for what is staged, whether to wait for it.
            timeout: How many seconds nothing may be accepted.

        Raises:
            RollqError: GRID_FULL if there is no room, BAD_OPTIONS if the batch is full.
        """
        with closing(StageRun(self._engine, timeout, waits=waits)) as run:
            await run.put(messages)
            await run.finish()

    def expect(self, first_id: JobId, count: int) -> Batch:
        """A handle on jobs that are about to be committed, whose ids follow one another. Their
        results come to it, unless they ended before."""
        batch = Batch(self._engine, first_id, keeps=True)
        batch.extend(count)
        batch.complete()
        self._engine.targets[first_id[:PREFIX_BYTES]] = batch
        return batch

    def forget(self, first_id: JobId) -> None:
        """No more results come to the handle on these."""
        self._engine.targets.pop(first_id[:PREFIX_BYTES], None)


class StageRun:
    """Messages of one part on their way.

    Args:
        engine: The client that sends them.
        timeout_s: How long nothing may be accepted; as for other calls if it is None.
        waits: Where there is no room for what is staged, whether to try again until there is, or
            to raise GRID_FULL at once.
    """

    def __init__(self, engine: Engine, timeout_s: float | None, *, waits: bool = True) -> None:
        self._timeout_s = engine.timeout_s if timeout_s is None else timeout_s
        self._waits = waits
        self._full_at: float | None = None  # since when there is no room, by the loop's clock
        self._sent: dict[MessageId, Message] = {}  # not answered
        self._pump = Pump(engine, "messages of a part", self._timeout_s, self._on_answer)

    async def put(self, messages: Iterable[Message]) -> None:
        """Send more, each as soon as there is room on the way."""
        for message in messages:
            await self._pump.drain(STAGE_CHUNKS_AHEAD - 1)
            self._sent[message[0].request_id] = message
            self._pump.send(*message)
            await asyncio.sleep(0)  # it leaves while the next one is made

    async def finish(self) -> None:
        """Wait until all are accepted.

        Raises:
            RollqError: one was refused, or none was answered for too long.
        """
        await self._pump.drain()

    def close(self) -> None:
        """What is not answered by now is not sent again."""
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

"""Staged batches: many jobs sent ahead in parts, by one process or many, and accepted by one word.

    part = await client.stage("load-7", "0", specs)        # any process, any number of them
    outcome = await client.commit("load-7", [part])        # all jobs of all parts, or none

Nobody sees a staged job. A part that is staged again (because whoever did it was thought dead) gets
another name, and only the parts that the commit names count. Both calls may be repeated: a batch is
committed once for its client and key, and whoever comes later is told that it is known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from itertools import islice

import msgspec

from rollq.base.errors import RollqError
from rollq.base.ids import MessageId
from rollq.base.limits import BULK_CHUNKS_AHEAD
from rollq.base.staged import StagedPart
from rollq.roles.client.answers import error_of
from rollq.roles.client.bulk import PAGE_JOBS, Door
from rollq.roles.client.draws import draw_id
from rollq.roles.client.parts import Message, PartBuilder, Redrive
from rollq.roles.client.session import Answer
from rollq.roles.client.specs import JobSpec
from rollq.roles.client.submitter import Submitter
from rollq.roles.client.supply import NOTHING
from rollq.wire import messages as wire
from rollq.wire.staging_messages import CommitBatch, DropBatch


class CommitOutcome(msgspec.Struct, frozen=True):
    """A batch is accepted: so many jobs; `known` if it was before."""

    count: int
    known: bool


class Staging(Submitter):
    """The part of a client that stages and commits."""

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
        run = self.stage_run(timeout)
        builder = PartBuilder(client_id or self.client_id, batch_key, part)
        left = iter(jobs)
        try:
            while page := list(islice(left, PAGE_JOBS)):
                for message in builder.messages(await self.settle_all(page)):
                    await run.send(message)
            for message in builder.rest():
                await run.send(message)
            await run.finish()
        finally:
            run.close()
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
        run = self.stage_run(timeout)
        builder = PartBuilder(client_id or self.client_id, batch_key, part)
        try:
            for message in builder.redrives(jobs):
                await run.send(message)
            await run.finish()
        finally:
            run.close()
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
        answer = await self._call(request, timeout)
        return CommitOutcome(int(answer.count), bool(answer.known))

    async def drop_batch(
        self, batch_key: str, *, client_id: str = "", timeout: float | None = None
    ) -> bool:
        """Forget what was staged for a batch; false if there was nothing, or it is committed. What
        nobody commits or drops is dropped by the grid after an hour."""
        answer = await self._call(DropBatch(draw_id(), batch_key, client_id), timeout)
        return bool(answer.count)

    def stage_run(self, timeout: float | None = None) -> StageRun:
        """The messages of one part on their way, for those who make them elsewhere."""
        return StageRun(self, self._timeout_s if timeout is None else timeout)


class StageRun:
    """Messages of one part on their way."""

    def __init__(self, door: Door, patience_s: float) -> None:
        self._door = door
        self._patience_s = patience_s
        self._on_the_way: dict[MessageId, None] = {}
        self._has_files = False
        self._error: RollqError | None = None
        self._wake = asyncio.Event()

    async def send(self, message: Message) -> None:
        """Send one more, as soon as there is room on the way."""
        request, supply = message
        await self._until(BULK_CHUNKS_AHEAD - 1)
        self._door.ask(request, self._on_answer, supply)
        self._on_the_way[request.request_id] = None
        self._has_files |= supply is not NOTHING
        await asyncio.sleep(0)  # it leaves while the next one is made

    async def finish(self) -> None:
        """Wait until all are accepted."""
        await self._until(0)

    def close(self) -> None:
        """What is not answered by now is not sent again."""
        for request_id in self._on_the_way:
            self._door.give_up(request_id)
        self._on_the_way.clear()

    def _on_answer(self, answer: Answer) -> None:
        self._on_the_way.pop(answer.request_id, None)
        if isinstance(answer, wire.Error):
            self._error = self._error or error_of(answer)
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
                raise self._door.overdue(f"{len(self._on_the_way)} messages of a part") from None
        if self._error is not None:
            raise self._error

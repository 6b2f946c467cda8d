"""Staged batches: many jobs sent ahead in parts, by one process or many, and accepted by one word.

    part = await client.stage("load-7", "0", specs)        # any process, any number of them
    outcome = await client.commit("load-7", [part])        # all jobs of all parts, or none

Nobody sees a staged job. A part that is staged again (because whoever did it was thought dead) gets
another name, and only the parts that the commit names count. Both calls may be repeated: a batch is
committed once for its client and key, and whoever comes later is told that it is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from itertools import islice

import msgspec

from rollq.base.staged import StagedPart
from rollq.roles.client.bulk import PAGE_JOBS
from rollq.roles.client.draws import draw_id
from rollq.roles.client.flight import Door, Flight
from rollq.roles.client.parts import Message, PartBuilder, Redrive
from rollq.roles.client.specs import JobSpec
from rollq.roles.client.submitter import Submitter
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
        builder = PartBuilder(client_id or self.client_id, batch_key, part)
        left = iter(jobs)
        with closing(self.stage_run(timeout)) as run:
            while page := list(islice(left, PAGE_JOBS)):
                await run.put(builder.messages(await self.settle_all(page)))
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
        builder = PartBuilder(client_id or self.client_id, batch_key, part)
        with closing(self.stage_run(timeout)) as run:
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


class StageRun(Flight[None]):
    """Messages of one part on their way."""

    def __init__(self, door: Door, patience_s: float) -> None:
        super().__init__(door, "a part", patience_s, lambda _content, _is_accepted: None)

    async def put(self, messages: Iterable[Message]) -> None:
        """Send more, each as soon as there is room on the way."""
        for message in messages:
            await self.room()
            await self.send(*message, None)

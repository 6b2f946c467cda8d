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
from contextlib import closing
from itertools import islice
from typing import Final

import msgspec

from rollq.base.errors import ErrorCode
from rollq.base.ids import MessageId
from rollq.base.staged import StagedPart
from rollq.roles.client.bulk import PAGE_JOBS
from rollq.roles.client.draws import draw_id
from rollq.roles.client.flight import Door, Flight
from rollq.roles.client.parts import Message, PartBuilder, Redrive
from rollq.roles.client.session import Answer
from rollq.roles.client.specs import JobSpec
from rollq.roles.client.submitter import Submitter
from rollq.wire import messages as wire
from rollq.wire.staging_messages import CommitBatch, DropBatch

STAGE_AGAIN_S: Final = 0.2  # before what found no room is sent again


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

    def stage_run(self, timeout: float | None = None, *, waits: bool = True) -> StageRun:
        """The messages of one part on their way, for those who make them elsewhere."""
        return StageRun(self, self._timeout_s if timeout is None else timeout, waits=waits)


class StageRun(Flight[Message]):
    """Messages of one part on their way.

    Args:
        door: The client that sends them.
        patience_s: How long nothing may be accepted.
        waits: Where there is no room for what is staged, whether to try again until there is, or
            to raise GRID_FULL at once.
    """

    def __init__(self, door: Door, patience_s: float, *, waits: bool) -> None:
        super().__init__(door, "a part", patience_s, lambda _content, _is_accepted: None)
        self._waits = waits
        self._full_s: float | None = None  # since when there is no room, by the loop's clock
        self._again: dict[MessageId, asyncio.TimerHandle] = {}

    async def put(self, messages: Iterable[Message]) -> None:
        """Send more, each as soon as there is room on the way."""
        for message in messages:
            await self.room()
            await self.send(*message, message)

    def close(self) -> None:
        """What is not answered by now is not sent again."""
        for timer in self._again.values():
            timer.cancel()
        super().close()

    def _on_answer(self, answer: Answer) -> None:
        loop = asyncio.get_running_loop()
        is_full = isinstance(answer, wire.Error) and answer.code == ErrorCode.GRID_FULL
        if not is_full:
            self._full_s = None
        elif self._full_s is None:
            self._full_s = loop.time()
        waited_s = 0.0 if self._full_s is None else loop.time() - self._full_s
        if is_full and self._waits and waited_s < self._patience_s:
            self._again[answer.request_id] = loop.call_later(
                STAGE_AGAIN_S, self._send_again, answer.request_id
            )
            self._wake.set()  # an answer it is
        else:
            super()._on_answer(answer)

    def _send_again(self, request_id: MessageId) -> None:
        del self._again[request_id]
        request, supply = self._on_the_way[request_id]
        self._door.ask(request, self._on_answer, supply)

"""One program over many arguments, with a bounded number of jobs on the way.

Whatever part of the window is free goes out as one message, and is accepted by one: nothing is
kept a job but its number. Only jobs that a message cannot share (an id of their own, other
options than their neighbours) go alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Protocol

from msgspec import structs

from rollq.base.errors import ErrorCode, RollqError
from rollq.base.ids import TASK_INDEX_BYTES, ClientId, JobId, MessageId
from rollq.roles.client.answers import error_of
from rollq.roles.client.chunk import Chunk
from rollq.roles.client.draws import draw_id
from rollq.roles.client.handles import PREFIX_BYTES, Progress, Sink
from rollq.roles.client.inputs import must_settle
from rollq.roles.client.outputs import Fetcher
from rollq.roles.client.patience import Patience
from rollq.roles.client.plain import singles_of
from rollq.roles.client.results import Result
from rollq.roles.client.session import Answer, OnAnswer
from rollq.roles.client.signals import Request
from rollq.roles.client.specs import JobSpec, body_of, id_for
from rollq.roles.client.supply import NOTHING, Supply
from rollq.wire import messages as wire

IDS_PER_PREFIX = 1 << 8 * TASK_INDEX_BYTES


class Door(Fetcher, Protocol):
    """What a run needs of its client."""

    client_id: ClientId
    takes_bulks: bool  # whether many jobs may go in one message

    def enter(self, spec: JobSpec, sink: Sink, on_answer: OnAnswer) -> JobId:
        """Submit a job whose result is for the sink."""

    def expect(self, prefix: bytes, sink: Sink) -> None:
        """Results of jobs whose ids begin so are for the sink."""

    def ask(self, request: Request, on_answer: OnAnswer, supply: Supply = NOTHING) -> None:
        """Send a request, after its files; the callback gets its answer."""

    async def settle(self, spec: JobSpec) -> JobSpec:
        """Read the files of a job, as far as they are not in it."""

    def uploaded_at(self) -> float:
        """When files were on their way last, by the loop's clock."""

    def give_up(self, request_id: MessageId) -> None:
        """Wait no longer for an answer."""

    def drop(self, key: bytes) -> None:
        """No result will come for this id or prefix."""

    def leave(self, job_ids: Iterable[JobId]) -> None:
        """Nobody wants the results of these jobs any more: end them."""

    def overdue(self, what: str) -> RollqError:
        """The error for what was not accepted in time."""


class MapRun:
    """The jobs of one `map`: how many are on the way, and what came back.

    Args:
        door: The client.
        specs: The jobs; taken as there is room.
        window: How many may be on the way or wait to be taken.
        ordered: Whether results are handed out in the order of the jobs.
        total: How many there are, if that is known.
        progress: Told how many ended.
        patience_s: How long nothing may be accepted before that is an error.
    """

    def __init__(
        self,
        door: Door,
        specs: Iterable[JobSpec],
        *,
        window: int,
        ordered: bool,
        total: int | None,
        progress: Progress | None,
        patience_s: float,
    ) -> None:
        self._door = door
        self._specs = iter(specs)
        self._window = window
        self._ordered = ordered
        self._total = total
        self._progress = progress
        self._prefixes: list[bytes] = []  # of ids that were drawn here
        self._base = 0  # the first job under the last of them
        self._numbers: dict[JobId, int] = {}  # submitted, result not here
        self._bulks: dict[MessageId, wire.SubmitBulk] = {}  # not accepted
        self._unaccepted = 0  # jobs
        self._patience_s = patience_s
        self._settling: dict[asyncio.Task[None], None] = {}  # their files are being read
        self._patience = Patience(patience_s, self._on_overdue)
        self._held: dict[int, wire.Result] = {}  # here, but it is not their turn
        self._ready: list[wire.Result] = []
        self._entered = 0
        self._ended = 0
        self._handed_out = 0
        self._is_exhausted = False
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None

    async def take(self) -> list[Result]:
        """The next results, at least one; empty when all have been taken.

        Raises:
            RollqError: a job was refused, or nothing was accepted for too long.
            Exception: whatever the jobs' iterable or the progress raised.
        """
        while True:
            self._fill()
            if self._error is not None:
                raise self._error
            if self._ready:
                taken, self._ready = self._ready, []
                self._handed_out += len(taken)
                return [Result(one, self._door) for one in taken]
            if not self._numbers:
                return []
            await self._next()

    def close(self) -> None:
        """End what is still on the way."""
        self._is_exhausted = True
        self._patience.stop()
        for task in self._settling:
            task.cancel()
        bulks, self._bulks = self._bulks, {}
        for request_id in bulks:
            self._door.give_up(request_id)
        if self._numbers:
            self._door.leave(list(self._numbers))
            self._numbers.clear()
        for prefix in self._prefixes:
            self._door.drop(prefix)

    def deliver(self, results: Sequence[wire.Result]) -> bool:
        """Results have come."""
        numbers = self._numbers
        left = len(numbers)
        if not self._ordered:
            number_of = numbers.pop
            self._ready += [one for one in results if number_of(one.job_id, None) is not None]
        else:
            for result in results:
                number = numbers.pop(result.job_id, None)
                if number is not None:
                    self._held[number] = result
            self._release()
        for _ in range(left - len(numbers)):
            self._ended += 1
            if self._progress is not None:
                self._report(self._progress)
        self._wake()
        return not numbers

    def fail(self, error: RollqError) -> None:
        """The client stops."""
        self._numbers.clear()
        self._error = error
        self._wake()

    # --- results

    def _release(self) -> None:
        held = self._held
        turn = self._handed_out + len(self._ready)
        while turn in held:
            self._ready.append(held.pop(turn))
            turn += 1

    def _report(self, progress: Progress) -> None:
        try:
            progress(self._ended, self._total)
        except Exception as error:  # the application's own: for whoever takes, not for the link
            self._error = error

    # --- jobs

    def _fill(self) -> None:
        room = self._window - (self._entered - self._handed_out)
        if self._is_exhausted or room <= 0:
            return
        door, numbers = self._door, self._numbers
        client_id, takes_bulks = door.client_id, door.takes_bulks
        prefix, base = self._prefix_for(room)
        until = self._entered + room
        chunk = Chunk()
        try:
            for spec in islice(self._specs, room):
                if spec.files and must_settle(spec):
                    job_id = self._settle_later(spec)
                elif takes_bulks and spec.job_id is None and not spec.key:
                    job_id = prefix + (self._entered - base).to_bytes(TASK_INDEX_BYTES, "big")
                    body = body_of(spec, job_id, client_id)
                    if not chunk.add(spec, job_id, body):
                        full, chunk = chunk, Chunk()
                        chunk.add(spec, job_id, body)
                        self._send(full)
                else:
                    job_id = door.enter(spec, self, self._on_answer)
                    self._unaccepted += 1
                numbers[job_id] = self._entered
                self._entered += 1
        finally:
            if chunk.items:
                self._send(chunk)
        self._is_exhausted = self._entered < until

    def _settle_later(self, spec: JobSpec) -> JobId:
        """A job whose files must be read goes alone, when they are."""
        job_id = id_for(spec, self._door.client_id)
        self._unaccepted += 1
        task = self._door.loop.create_task(self._settle(structs.replace(spec, job_id=job_id)))
        self._settling[task] = None
        task.add_done_callback(self._settling.pop)
        return job_id

    async def _settle(self, spec: JobSpec) -> None:
        try:
            self._door.enter(await self._door.settle(spec), self, self._on_answer)
        except Exception as error:  # for whoever takes
            self._error = error
            self._wake()
        self._patience.heard()

    def _prefix_for(self, count: int) -> tuple[bytes, int]:
        """What the ids of the next jobs begin with, and the number of the first job of that."""
        if not self._prefixes or self._entered + count - self._base > IDS_PER_PREFIX:
            self._prefixes.append(draw_id()[:PREFIX_BYTES])
            self._base = self._entered
        return self._prefixes[-1], self._base

    def _send(self, chunk: Chunk) -> None:
        door = self._door
        try:
            bulk = chunk.message(door.client_id)
            if len(bulk.items) == 1:
                door.ask(singles_of(bulk)[0], self._on_answer)
            else:
                door.ask(bulk, self._on_bulk_answer)  # without files: those go alone
                self._bulks[bulk.request_id] = bulk
        except BaseException:
            for item in chunk.items:
                self._numbers.pop(item.job_id, None)
            raise
        self._unaccepted += len(bulk.items)
        door.expect(bulk.items[0].job_id[:PREFIX_BYTES], self)

    def _on_answer(self, answer: Answer) -> None:
        self._unaccepted -= 1
        self._patience.heard()
        if type(answer) is wire.Error:
            self._error = error_of(answer)
            self._wake()

    def _on_bulk_answer(self, answer: Answer) -> None:
        bulk = self._bulks.pop(answer.request_id)
        if type(answer) is wire.Error and answer.code != ErrorCode.DISCONNECTED:
            # All or none, so none was accepted: ask for each, to hear which it is that may not be.
            for single in singles_of(bulk):
                self._door.ask(single, self._on_answer)
        else:
            self._unaccepted -= len(bulk.items) - 1
            self._on_answer(answer)

    # --- waiting

    async def _next(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        if self._unaccepted:
            self._patience.watch()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _on_overdue(self) -> None:
        if self._unaccepted and self._waiter is not None:
            uploaded_s = self._door.loop.time() - self._door.uploaded_at()
            if self._settling or uploaded_s < self._patience_s:
                self._patience.watch()
                return
            self._error = self._door.overdue(f"{self._unaccepted} jobs of a map")
            self._wake()

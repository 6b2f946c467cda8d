"""Jobs with ids of their own, some of which may have been submitted before: by an earlier run of
the same work, or by another process that does it too.

Where `map` asks for jobs as it has room, these are put by their caller, who counts them. What the
grid refuses is an end like any other: one bad job does not stop the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import msgspec

from rollq.base.errors import ErrorCode, LocalError, RollqError
from rollq.base.ids import JobId
from rollq.roles.client.answers import error_of
from rollq.roles.client.handles import Sink
from rollq.roles.client.outputs import Fetcher
from rollq.roles.client.patience import Patience
from rollq.roles.client.results import Result
from rollq.roles.client.session import Answer, OnAnswer
from rollq.roles.client.specs import JobSpec, as_id
from rollq.wire import messages as wire

OnMade = Callable[[list[JobId]], None]


class Ended(msgspec.Struct, frozen=True, gc=False):
    """How a job that was put ended.

    Attributes:
        job_id: Which.
        result: What came of it; None if it was refused.
        refusal: Why.
        is_known: Whether the grid had it before it was put here.
    """

    job_id: JobId
    result: Result | None = None
    refusal: RollqError | None = None
    is_known: bool = False


class Door(Fetcher, Protocol):
    """What a run needs of its client."""

    def enter(self, spec: JobSpec, sink: Sink, on_answer: OnAnswer) -> JobId:
        """Submit a job whose result is for the sink."""

    async def settle_all(self, specs: Sequence[JobSpec]) -> Sequence[JobSpec]:
        """Read the files of jobs, as far as they are not in them."""

    def uploaded_at(self) -> float:
        """When files were on their way last, by the loop's clock."""

    def drop(self, key: bytes) -> None:
        """No result will come for this id."""

    def leave(self, job_ids: Iterable[JobId]) -> None:
        """Nobody wants the results of these jobs any more: end them."""

    def overdue(self, what: str) -> RollqError:
        """The error for what was not accepted in time."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop that the client lives in."""


class KeyedRun:
    """Jobs on the way, and how they ended.

    Args:
        door: The client.
        patience_s: How long nothing may be accepted before that is an error.
        on_made: Told of jobs that the grid had not had before, as soon as they are accepted.
    """

    def __init__(self, door: Door, *, patience_s: float, on_made: OnMade | None = None) -> None:
        self._door = door
        self._patience_s = patience_s
        self._patience = Patience(patience_s, self._on_overdue)
        self._on_made = on_made
        # Not ended: None until it is accepted, then whether the grid had it before.
        self._open: dict[JobId, bool | None] = {}
        self._specs: dict[JobId, JobSpec] = {}  # of these
        self._made: list[JobId] = []  # of which nobody was told
        self._unanswered: dict[JobId, None] = {}  # some of these were accepted by another leader
        self._ended: list[Ended] = []
        self._error: RollqError | None = None
        self._waiter: asyncio.Future[None] | None = None

    async def put(self, specs: Sequence[JobSpec]) -> None:
        """Submit jobs, each with an id of its own that is not on the way already.

        Raises:
            RollqError: an option that cannot be meant so, or the client does not run.
        """
        for spec in await self._settled(specs):
            assert spec.job_id is not None
            job_id = as_id(spec.job_id)
            try:
                self._door.enter(spec, self, self._on_answer)
            except LocalError as error:
                if error.code is ErrorCode.BAD_SETUP:
                    raise
                self._end(Ended(job_id, refusal=error))
            else:
                self._open[job_id] = None
                self._specs[job_id] = spec
                self._unanswered[job_id] = None

    async def take(self, wait_s: float | None = None) -> list[Ended]:
        """Those that ended, at least one; empty if none is on the way, or none ends so soon.

        Raises:
            RollqError: nothing was accepted for too long, or the client was stopped.
        """
        loop = asyncio.get_running_loop()
        until = None if wait_s is None else loop.time() + wait_s
        while self._error is None:
            if self._ended or not self._open or (until is not None and loop.time() >= until):
                taken, self._ended = self._ended, []
                return taken
            await self._next(until)
        raise self._error

    def close(self) -> None:
        """End what was made here and has not ended. What the grid had before goes on: somebody
        else may wait for it."""
        self._patience.stop()
        ours = [job_id for job_id, is_known in self._open.items() if not is_known]
        for job_id, is_known in self._open.items():
            if is_known:
                self._door.drop(job_id)
        self._open.clear()
        self._specs.clear()
        if ours:
            self._door.leave(ours)

    # --- the client's side

    def welcomed(self) -> None:
        """A leader welcomed us, perhaps not the first. What was accepted before is asked for once
        more: another process that put the same job may have been told its end meanwhile, and a
        result that somebody confirmed is owed to nobody."""
        for job_id in self._open:
            if job_id not in self._unanswered:  # those are sent again anyway
                self._door.enter(self._specs[job_id], self, self._on_answer)
                self._unanswered[job_id] = None

    def deliver(self, results: Sequence[wire.Result]) -> bool:
        """Results have come."""
        for one in results:
            is_known = self._open.pop(one.job_id, ABSENT)
            if is_known is not ABSENT:
                del self._specs[one.job_id]
                # What ended before it was accepted here, somebody else had submitted.
                self._end(Ended(one.job_id, Result(one, self._door), None, is_known is not False))
        return True

    def fail(self, error: RollqError) -> None:
        """The client stops."""
        self._open.clear()
        self._specs.clear()
        self._error = error
        self._wake()

    # --- helpers

    async def _settled(self, specs: Sequence[JobSpec]) -> Sequence[JobSpec]:
        """With their files read; those whose files cannot be had have ended."""
        try:
            return await self._door.settle_all(specs)
        except LocalError as error:
            if len(specs) == 1:
                self._end(Ended(as_id(specs[0].job_id or b""), refusal=error))
                return ()
        return [one for spec in specs for one in await self._settled((spec,))]

    def _on_answer(self, answer: Answer) -> None:
        job_id = answer.request_id
        self._unanswered.pop(job_id, None)
        self._patience.heard()
        if job_id not in self._open:
            return  # its result came first, or nobody wants it any more
        if type(answer) is wire.Error:
            if answer.code != ErrorCode.DISCONNECTED:  # which all will be told
                del self._open[job_id], self._specs[job_id]
                self._door.drop(job_id)
                self._end(Ended(job_id, refusal=error_of(answer)))
        elif type(answer) is wire.Accepted and self._open[job_id] is None:
            self._open[job_id] = answer.known
            if not answer.known and self._on_made is not None:
                if not self._made:  # those that came with it are told with it
                    self._door.loop.call_soon(self._tell_made, self._on_made)
                self._made.append(job_id)

    def _tell_made(self, on_made: OnMade) -> None:
        made, self._made = self._made, []
        on_made(made)

    def _end(self, ended: Ended) -> None:
        self._ended.append(ended)
        self._wake()

    async def _next(self, until: float | None) -> None:
        """Until something has changed, or it is this late."""
        self._waiter = asyncio.get_running_loop().create_future()
        if self._unanswered:
            self._patience.watch()
        try:
            async with asyncio.timeout_at(until):
                await self._waiter
        except TimeoutError:
            pass
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _on_overdue(self) -> None:
        if not self._unanswered or self._waiter is None:  # whoever is elsewhere may wait again
            return
        if self._door.loop.time() - self._door.uploaded_at() < self._patience_s:
            self._patience.watch()
            return
        self._error = self._door.overdue(f"{len(self._unanswered)} jobs")
        self._wake()


ABSENT = object()

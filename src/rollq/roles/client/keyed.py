"""Jobs with ids of their own, some of which may have been submitted before: by an earlier run of
the same work, or by another process that does it too.

Where `map` asks for jobs as it has room, these are put by their caller, who counts them. What the
grid refuses is an end like any other: one bad job does not stop the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Self

import msgspec

from rollq.base.errors import ErrorCode, LocalError, RollqError
from rollq.base.ids import JobId
from rollq.roles.client.answers import error_of
from rollq.roles.client.engine import Engine
from rollq.roles.client.pump import Pump
from rollq.roles.client.results import Result
from rollq.roles.client.session import Answer
from rollq.roles.client.specs import JobSpec, as_id
from rollq.roles.client.supply import supply_of
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


class PutJob(msgspec.Struct):
    """A job that was put and has not ended.

    Attributes:
        spec: As it was submitted.
        is_accepted: A leader has accepted it.
        is_known: The grid had it before; what ended before it was accepted here, somebody else had
            submitted.
    """

    spec: JobSpec
    is_accepted: bool = False
    is_known: bool = True


class KeyedRun:
    """Jobs on the way, and how they ended.

    Args:
        engine: The client.
        on_made: Told of jobs that the grid had not had before, as soon as they are accepted.
    """

    def __init__(self, engine: Engine, on_made: OnMade | None = None) -> None:
        self._engine = engine
        self._on_made = on_made
        self._open: dict[JobId, PutJob] = {}
        self._made: list[JobId] = []  # of which nobody was told
        self._pump = Pump(engine, "jobs", engine.timeout_s, self._on_answer)
        self._ended: list[Ended] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    async def put(self, specs: Sequence[JobSpec]) -> None:
        """Submit jobs, each with an id of its own that is not on the way already.

        Raises:
            RollqError: an option that cannot be meant so, or the client does not run.
        """
        for spec in await self._settled(specs):
            assert spec.job_id is not None
            job_id = as_id(spec.job_id)
            try:
                self._send(spec)
            except LocalError as error:
                if error.code is ErrorCode.BAD_SETUP:
                    raise
                self._end(Ended(job_id, refusal=error))
            else:
                self._open[job_id] = PutJob(spec)

    async def take(self, wait_s: float | None = None) -> list[Ended]:
        """Those that ended, at least one; empty if none is on the way, or none ends so soon.

        Raises:
            RollqError: nothing was accepted for too long, or the client was stopped.
        """
        loop = asyncio.get_running_loop()
        until = None if wait_s is None else loop.time() + wait_s
        while True:
            self._pump.check()
            if self._ended or not self._open or (until is not None and loop.time() >= until):
                taken, self._ended = self._ended, []
                return taken
            await self._pump.changed(until)

    def close(self) -> None:
        """End what was made here and has not ended. What the grid had before goes on: somebody
        else may wait for it."""
        self._pump.close()
        jobs, self._open = self._open, {}
        ours = [job_id for job_id, one in jobs.items() if not (one.is_accepted and one.is_known)]
        for job_id in jobs:
            self._engine.forget(job_id, self)
        if ours:
            self._engine.leave(ours)

    # --- the client's side

    def welcomed(self) -> None:
        """A leader welcomed us, perhaps not the first. What was accepted before is asked for once
        more: another process that put the same job may have been told its end meanwhile, and a
        result that somebody confirmed is owed to nobody."""
        for job_id, job in self._open.items():
            if job_id not in self._pump:  # those are sent again anyway
                self._send(job.spec)

    def deliver(self, results: Sequence[wire.Result]) -> bool:
        """Results have come."""
        for one in results:
            job = self._open.pop(one.job_id, None)
            if job is not None:
                self._end(Ended(one.job_id, Result(one, self._engine), None, job.is_known))
        return True

    def fail(self, error: RollqError) -> None:
        """The client stops."""
        self._open.clear()
        self._pump.fail(error)

    # --- helpers

    async def _settled(self, specs: Sequence[JobSpec]) -> Sequence[JobSpec]:
        """With their files read; those whose files cannot be had have ended."""
        try:
            return await self._engine.inputs.settle_all(specs)
        except LocalError as error:
            if len(specs) == 1:
                self._end(Ended(as_id(specs[0].job_id or b""), refusal=error))
                return ()
        return [one for spec in specs for one in await self._settled((spec,))]

    def _send(self, spec: JobSpec) -> None:
        request = self._engine.request_for(spec)
        with self._engine.awaiting(request.job_id, self):
            self._pump.send(request, supply_of(spec))

    def _on_answer(self, answer: Answer) -> None:
        job_id = answer.request_id
        job = self._open.get(job_id)
        if job is None:
            return  # its result came first, or nobody wants it any more
        if type(answer) is wire.Error:
            if answer.code != ErrorCode.DISCONNECTED:  # which all will be told
                del self._open[job_id]
                self._engine.forget(job_id, self)
                self._end(Ended(job_id, refusal=error_of(answer)))
        elif type(answer) is wire.Accepted and not job.is_accepted:
            job.is_accepted, job.is_known = True, answer.known
            if not answer.known and self._on_made is not None:
                if not self._made:  # those that came with it are told with it
                    self._engine.loop.call_soon(self._tell_made, self._on_made)
                self._made.append(job_id)

    def _tell_made(self, on_made: OnMade) -> None:
        made, self._made = self._made, []
        on_made(made)

    def _end(self, ended: Ended) -> None:
        self._ended.append(ended)
        self._pump.wake()

"""Jobs with ids of their own, some of which may have been submitted before: by an earlier run of
the same work, or by another process.

Unlike `map`, which pulls jobs as it has room, the caller pushes them and limits their number. A
refused job is reported like any other outcome, and does not stop the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Self

import msgspec

from rollq.base.errors import ErrorCode, LocalError, RollqError
from rollq.base.ids import JobId
from rollq.roles.client.answers import error_of
from rollq.roles.client.engine.base import Engine
from rollq.roles.client.jobs.specs import JobSpec, as_id
from rollq.roles.client.jobs.supply import supply_of
from rollq.roles.client.many.pump import Pump
from rollq.roles.client.results.result import Result
from rollq.roles.client.session.group_session import Answer
from rollq.wire import messages as wire

OnMade = Callable[[list[JobId]], None]


class Ended(msgspec.Struct, frozen=True, gc=False):
    """The outcome of a job.

    Attributes:
        job_id: The job.
        result: Its result; None if it was refused.
        refusal: Why it was refused.
        is_known: Whether the grid knew the job before this submit.
    """

    job_id: JobId
    result: Result | None = None
    refusal: RollqError | None = None
    is_known: bool = False


class PutJob(msgspec.Struct):
    """A job that was put and has not ended.

    Attributes:
        spec: As it was submitted.
        is_accepted: Whether a leader has accepted it.
        is_known: Whether the grid knew it before. True until it is accepted: a job that ended
            before was submitted by another process.
    """

    spec: JobSpec
    is_accepted: bool = False
    is_known: bool = True


class KeyedRun:
    """Jobs in flight, and their outcomes.

    Args:
        engine: The client.
        on_made: Called with the ids of jobs that were new to the grid, when they are accepted.
    """

    def __init__(self, engine: Engine, on_made: OnMade | None = None) -> None:
        self._engine = engine
        self._on_made = on_made
        self._open: dict[JobId, PutJob] = {}
        self._made: list[JobId] = []  # not reported to `on_made` yet
        self._pump = Pump(engine, "{} jobs", engine.timeout_s, self._on_answer)
        self._ended: list[Ended] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    async def put(self, specs: Sequence[JobSpec]) -> None:
        """Submit jobs. Each has an id of its own that is not in flight already.

        Raises:
            RollqError: an option is invalid, or the client is not started.
        """
        for spec in await self._settled(specs):
            assert spec.job_id is not None
            job_id = as_id(spec.job_id)
            self._open[job_id] = PutJob(spec)  # before it is sent: the answer may come at once
            try:
                self._send(spec)
            except RollqError as error:
                del self._open[job_id]
                if not isinstance(error, LocalError) or error.code is ErrorCode.BAD_SETUP:
                    raise
                self._end(Ended(job_id, refusal=error))

    async def take(self, wait_s: float | None = None) -> list[Ended]:
        """Return the jobs that ended, waiting for one; empty if none is in flight, or at `wait_s`.

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
        """Cancel the jobs in flight, except those that the grid knew before: another process may
        wait for them."""
        self._pump.close()
        jobs, self._open = self._open, {}
        ours = [job_id for job_id, one in jobs.items() if not (one.is_accepted and one.is_known)]
        for job_id in jobs:
            self._engine.forget(job_id, self)
        if ours:
            self._engine.leave(ours)

    # --- called by the client

    def welcomed(self) -> None:
        """A session was opened. Submit accepted jobs once more: meanwhile another process with the
        same client id may have confirmed a result, which is then not sent to this one."""
        for job_id, job in self._open.items():
            if job_id not in self._pump:  # pending ones are resent by the machine
                self._send(job.spec)

    def deliver(self, results: Sequence[wire.Result]) -> bool:
        """Record results."""
        for one in results:
            job = self._open.pop(one.job_id, None)
            if job is not None:
                self._end(Ended(one.job_id, Result(one, self._engine), None, job.is_known))
        return True

    def fail(self, error: RollqError) -> None:
        """The client was stopped."""
        self._open.clear()
        self._pump.fail(error)

    # --- helpers

    async def _settled(self, specs: Sequence[JobSpec]) -> Sequence[JobSpec]:
        """Read the files of jobs; one whose files cannot be read is reported as refused."""
        try:
            return await self._engine.inputs.settle_all(specs)
        except LocalError as error:
            if len(specs) == 1:
                self._end(Ended(as_id(specs[0].job_id or b""), refusal=error))
                return ()
        return [one for spec in specs for one in await self._settled((spec,))]

    def _send(self, spec: JobSpec) -> None:
        request = self._engine.request_for(spec)
        with self._engine.register_target(request.job_id, self):
            self._pump.send(request, supply_of(spec))

    def _on_answer(self, answer: Answer) -> None:
        job_id = answer.request_id
        job = self._open.get(job_id)
        if job is None:
            return  # its result arrived before, or it was abandoned
        if type(answer) is wire.Error:
            if answer.code != ErrorCode.DISCONNECTED:  # `fail` reports that
                del self._open[job_id]
                self._engine.forget(job_id, self)
                self._end(Ended(job_id, refusal=error_of(answer)))
        elif type(answer) is wire.Accepted and not job.is_accepted:
            job.is_accepted, job.is_known = True, answer.known
            if not answer.known and self._on_made is not None:
                if not self._made:  # report all responses of one read together
                    self._engine.loop.call_soon(self._tell_made, self._on_made)
                self._made.append(job_id)

    def _tell_made(self, on_made: OnMade) -> None:
        made, self._made = self._made, []
        on_made(made)

    def _end(self, ended: Ended) -> None:
        self._ended.append(ended)
        self._pump.wake()

"""`map` of a program, with a bounded number of jobs in flight.

All free slots of the window are filled in one loop turn, so that the jobs are sent as runs.
Generated ids share a prefix, by which their results are routed back to the map.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from msgspec import structs

from rollq.base.errors import ErrorCode, LocalError, RollqError
from rollq.base.ids import TASK_INDEX_BYTES, JobId, guid_to_text
from rollq.roles.client.answers import error_of
from rollq.roles.client.engine.base import PREFIX_BYTES, Engine
from rollq.roles.client.jobs.inputs import needs_reading
from rollq.roles.client.jobs.specs import JobSpec, as_id, draw_id, id_for
from rollq.roles.client.jobs.supply import supply_of
from rollq.roles.client.many.pump import Pump
from rollq.roles.client.results.handles import Progress
from rollq.roles.client.results.result import Result
from rollq.roles.client.session.group_session import Answer
from rollq.wire import messages as wire

IDS_PER_PREFIX = 1 << 8 * TASK_INDEX_BYTES


class MapRun:
    """The jobs of one `map`: the ones in flight, and the results not taken yet.

    Args:
        engine: The client.
        specs: The jobs, read lazily.
        window: How many may be in flight or wait to be taken.
        ordered: Whether results are returned in the order of the jobs.
        total: The number of jobs, if it is known.
        progress: Called with the number of jobs that ended.
    """

    def __init__(
        self,
        engine: Engine,
        specs: Iterable[JobSpec],
        *,
        window: int,
        ordered: bool,
        total: int | None,
        progress: Progress | None,
    ) -> None:
        self._engine = engine
        self._specs = iter(specs)
        self._window = window
        self._ordered = ordered
        self._total = total
        self._progress = progress
        self._prefixes: list[bytes] = []  # of generated ids
        self._base = 0  # number of the first job with the last prefix
        self._numbers: dict[JobId, int] = {}  # submitted, without a result
        self._pump = Pump(engine, "{} jobs of a map", engine.timeout_s, self._on_answer)
        self._settling: dict[asyncio.Task[None], None] = {}  # jobs whose files are being read
        self._held: dict[int, wire.Result] = {}  # results that wait for earlier ones
        self._ready: list[wire.Result] = []
        self._entered = 0
        self._ended = 0
        self._handed_out = 0
        self._is_exhausted = False
        self._look_at: float | None = None  # by the loop's clock: when to check the window again

    async def take(self) -> list[Any]:
        """The next results, at least one; empty when all have been taken.

        Raises:
            RollqError: a job was refused, or nothing was accepted for too long.
            Exception: the iterable of jobs or the progress callback raised.
        """
        while True:
            self._fill()
            self._pump.check()
            if self._ready:
                taken, self._ready = self._ready, []
                self._handed_out += len(taken)
                return [Result(one, self._engine) for one in taken]
            if not self._numbers:
                return []
            await self._pump.changed(self._look_at)

    def close(self) -> None:
        """Cancel the jobs in flight."""
        self._is_exhausted = True
        for task in self._settling:
            task.cancel()
        self._pump.close()
        if self._numbers:
            self._engine.leave(list(self._numbers))
            self._numbers.clear()
        for prefix in self._prefixes:
            self._engine.forget(prefix, self)

    def deliver(self, results: Sequence[wire.Result]) -> bool:
        """Record results, and release them in order."""
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
        self._pump.wake()
        return not numbers

    def fail(self, error: RollqError) -> None:
        """The client was stopped."""
        self._numbers.clear()
        self._pump.fail(error)

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
        except Exception as error:  # of the callback: raise it in `take`, not in the reader
            self._pump.fail(error)

    # --- jobs

    def _fill(self) -> None:
        room = self._room()
        if self._is_exhausted or room <= 0:
            return
        request_for, numbers = self._engine.request_for, self._numbers
        prefix, base = self._prefix_for(room)
        until = self._entered + room
        jobs: list[wire.SubmitJob] = []
        try:
            for spec in islice(self._specs, room):
                if spec.files and needs_reading(spec):
                    job_id = self._settle_later(spec)
                elif spec.job_id is None and not spec.key:
                    job_id = prefix + (self._entered - base).to_bytes(TASK_INDEX_BYTES, "big")
                    jobs.append(request_for(spec, job_id))
                else:
                    job_id = self._send_alone(self._named(spec))
                numbers[job_id] = self._entered
                self._entered += 1
        finally:
            if jobs:
                self._send(jobs, prefix)
        self._is_exhausted = self._entered < until

    def _room(self) -> int:
        """How many more jobs may be in flight."""
        return self._window - (self._entered - self._handed_out)

    def _prefix_for(self, count: int) -> tuple[bytes, int]:
        """The id prefix for the next jobs, and the number of the first job that has it."""
        if not self._prefixes or self._entered + count - self._base > IDS_PER_PREFIX:
            self._prefixes.append(draw_id()[:PREFIX_BYTES])
            self._base = self._entered
        return self._prefixes[-1], self._base

    def _send(self, jobs: list[wire.SubmitJob], prefix: bytes) -> None:
        try:
            self._pump.send_jobs(jobs)
        except BaseException:
            for job in jobs:
                self._numbers.pop(job.job_id, None)
            raise
        self._engine.targets[prefix] = self

    def _named(self, spec: JobSpec) -> JobSpec:
        """The job under its id. A second one with the same id would take the result of the first.

        Raises:
            LocalError: ID_CONFLICT, if a job in flight has it.
        """
        job_id = id_for(spec, self._engine.client_id)
        if job_id in self._numbers:
            raise LocalError(
                ErrorCode.ID_CONFLICT,
                f"job {guid_to_text(job_id)} is in this map already and has not ended",
                "give each job once",
            )
        return structs.replace(spec, job_id=job_id)

    def _send_alone(self, spec: JobSpec) -> JobId:
        request = self._engine.request_for(spec)
        with self._engine.register_target(request.job_id, self):
            self._pump.send(request, supply_of(spec))
        return request.job_id

    def _settle_later(self, spec: JobSpec) -> JobId:
        """Read the files of a job in the background, then send it."""
        named = self._named(spec)
        self._pump.reading += 1
        task = self._engine.loop.create_task(self._settle(named))
        self._settling[task] = None
        task.add_done_callback(self._settling.pop)
        return as_id(named.job_id or b"")

    async def _settle(self, spec: JobSpec) -> None:
        try:
            self._send_alone(await self._engine.inputs.settle(spec))
            self._pump.heard()
        except Exception as error:  # raised by `take`
            self._pump.fail(error)
        finally:
            self._pump.reading -= 1

    def _on_answer(self, answer: Answer) -> None:
        if type(answer) is wire.Error:
            self._pump.fail(error_of(answer))

"""`submit_many`: submits jobs with consecutive ids, with a window of requests in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

from rollq.base.errors import ErrorCode, LocalError
from rollq.base.ids import task_id, task_number
from rollq.base.limits import BULK_AHEAD_BYTES, BULK_AHEAD_JOBS
from rollq.roles.client.answers import error_of
from rollq.roles.client.engine.base import Engine
from rollq.roles.client.jobs.specs import JobSpec
from rollq.roles.client.jobs.supply import NOTHING, supply_of
from rollq.roles.client.many.pump import Pump
from rollq.roles.client.results.handles import Batch, Progress
from rollq.roles.client.session.group_session import Answer
from rollq.wire import messages as wire

PAGE_JOBS: Final = 256  # jobs whose files are read together


class BulkRun:
    """The state of one `submit_many` call: the requests in flight, and how many were accepted."""

    def __init__(
        self, engine: Engine, batch: Batch, timeout_s: float, progress: Progress | None
    ) -> None:
        self.accepted = 0
        self._engine = engine
        self._batch = batch
        self._progress = progress
        self._reported = 0  # of those that were accepted
        self._pump = Pump(engine, "{} jobs", timeout_s, self._on_answer)

    async def submit(self, specs: Iterable[JobSpec]) -> None:
        """Submit all; returns when all are accepted.

        Raises:
            RollqError: a job was refused, or nothing was accepted for too long.
        """
        left = iter(specs)
        while page := list(islice(left, PAGE_JOBS)):
            await self._send(await self._engine.inputs.settle_all(page))
        await self._drain(0)

    def close(self) -> None:
        """Stop resending; jobs without a response count as not submitted."""
        for job_id in self._pump.close():
            self._batch.cut(task_number(self._batch.first_id, job_id))

    async def _send(self, specs: Sequence[JobSpec]) -> None:
        first, first_id = len(self._batch), self._batch.first_id
        for spec in specs:
            if spec.job_id is not None or spec.key:
                raise LocalError(
                    ErrorCode.BAD_OPTIONS,
                    "a job with an id or a key of its own in a bulk",
                    "use `submit`, `map` or `stage` for those",
                )
        request_for = self._engine.request_for
        jobs = [request_for(spec, task_id(first_id, n)) for n, spec in enumerate(specs, first)]
        largest = max(len(job.body) for job in jobs)
        await self._drain(min(BULK_AHEAD_JOBS, BULK_AHEAD_BYTES // (largest + 1)))
        self._batch.extend(len(jobs))
        supplies = list(map(supply_of, specs))
        self._pump.send_jobs(
            [job for job, supply in zip(jobs, supplies, strict=True) if supply is NOTHING]
        )
        for job, supply in zip(jobs, supplies, strict=True):
            if supply is not NOTHING:
                self._pump.send(job, supply)
        await asyncio.sleep(0)  # let the loop send them while the next ones are encoded

    async def _drain(self, open_max: int) -> None:
        self._pump.check()
        while len(self._pump) > open_max:
            await self._pump.changed()
            self._pump.check()
            if self._progress is not None and self.accepted > self._reported:
                self._reported = self.accepted
                self._progress(self.accepted, None)

    def _on_answer(self, answer: Answer) -> None:
        if isinstance(answer, wire.Error):
            self._batch.cut(task_number(self._batch.first_id, answer.request_id))
            self._pump.fail(error_of(answer))
        else:
            self.accepted += 1

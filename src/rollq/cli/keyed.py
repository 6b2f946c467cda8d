"""Jobs of a file that have keys: each is accepted by itself, because some may be known already."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from itertools import islice
from typing import Final

from rollq.base.errors import RollqError
from rollq.base.ids import JobId
from rollq.cli.progress import Advance
from rollq.roles.client.client import Client
from rollq.roles.client.handles import Counts, Job
from rollq.roles.client.results import Result
from rollq.roles.client.specs import JobSpec

PAGE_JOBS: Final = 1_000  # on their way at once


class KeyedJobs:
    """They are waited for as a batch is.

    Attributes:
        line_of: Where each stands in its file, in order.
        counts: How they ended so far.
    """

    def __init__(self, client: Client) -> None:
        self.line_of: dict[JobId, int] = {}
        self.counts = Counts()
        self._client = client
        self._jobs: list[Job] = []

    def __len__(self) -> int:
        return self.counts.total

    async def submit(self, jobs: Iterator[tuple[int, JobSpec]], advance: Advance) -> None:
        """Submit all; returns when all are accepted, or were before.

        Raises:
            RollqError: one was refused, or not accepted in time; a note says how many were.
        """
        while page := list(islice(jobs, PAGE_JOBS)):
            calls = (self._client.submit(spec) for _, spec in page)
            answers = await asyncio.gather(*calls, return_exceptions=True)
            for (line, _), answer in zip(page, answers, strict=True):
                if isinstance(answer, Job):
                    self.line_of[answer.job_id] = line
                    self._jobs.append(answer)
            self.counts.total = len(self._jobs)
            error = next((one for one in answers if isinstance(one, BaseException)), None)
            if error is not None:
                if isinstance(error, RollqError):
                    error.add_note(f"{len(self)} jobs had been accepted before")
                raise error
            advance(len(self), None)

    async def results(self) -> AsyncIterator[Result]:
        """Every result once, as they come."""
        counts = self.counts
        for ended in asyncio.as_completed([job.result() for job in self._jobs]):
            result = await ended
            counts.ok += result.status == "OK"
            counts.failed += result.status == "FAILED"
            counts.dead += result.status == "DEAD"
            counts.cancelled += result.status == "CANCELLED"
            yield result

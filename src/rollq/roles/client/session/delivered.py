"""What is known of results: each end of a job is delivered to the application once, and a submit
whose session broke was accepted if one of its jobs has a result. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TypeAlias

from rollq.base.ids import TASK_INDEX_BYTES, JobId, MessageId
from rollq.base.limits import CLIENT_DELIVERED_MAX, CLIENT_UNTAKEN_MAX
from rollq.roles.client.session.signals import Request, jobs_of
from rollq.wire.messages import Result

Mark: TypeAlias = tuple[int, str]  # attempt and outcome, which identify one end of a job


class DeliveredResults:
    """Results that are being delivered, and those that the application has taken."""

    __slots__ = ("_taken", "_taken_before", "_taken_max", "_untaken", "_untaken_max")

    def __init__(
        self, *, taken_max: int = CLIENT_DELIVERED_MAX, untaken_max: int = CLIENT_UNTAKEN_MAX
    ) -> None:
        self._taken_max = taken_max
        self._untaken_max = untaken_max
        self._untaken: dict[JobId, Mark] = {}
        # In two generations, because removing the oldest keys of one large dict is slow.
        self._taken: dict[JobId, Mark] = {}
        self._taken_before: dict[JobId, Mark] = {}

    def asked(self, job_ids: Iterable[JobId]) -> None:
        """Jobs are submitted: forget their earlier results, so that a new result is delivered
        again, also for an id that the grid has forgotten and runs anew."""
        for marks in (self._taken, self._taken_before, self._untaken):
            for job_id in job_ids if marks else ():
                marks.pop(job_id, None)

    def sort(self, results: Sequence[Result]) -> tuple[list[Result], list[JobId]]:
        """Split results into new ones, and ids of those that the application has taken already."""
        untaken = self._untaken
        known, known_before = self._taken.get, self._taken_before.get
        new: list[Result] = []
        again: list[JobId] = []
        for result in results:
            job_id = result.job_id
            mark = (result.attempt, result.outcome)
            if (known(job_id) or known_before(job_id)) == mark:
                again.append(job_id)
            elif untaken.get(job_id) != mark:
                untaken[job_id] = mark
                new.append(result)
        if len(untaken) > self._untaken_max:
            for job_id in list(islice(untaken, self._untaken_max // 2)):  # the oldest
                del untaken[job_id]
        return new, again

    def take(self, job_ids: Sequence[JobId]) -> None:
        """The application has taken these. The entry may have been evicted meanwhile."""
        taken, take = self._taken, self._untaken.pop
        for job_id in job_ids:
            mark = take(job_id, None)
            if mark is not None:
                taken[job_id] = mark
        if len(taken) >= self._taken_max // 2:
            self._taken_before, self._taken = taken, {}


class DoubtfulSubmits:
    """Jobs of pending submits that an earlier session may have accepted, by id; arrays and batches
    by the id prefix of their tasks."""

    __slots__ = ("_of_job",)

    def __init__(self) -> None:
        self._of_job: dict[bytes, MessageId] = {}

    def cut(self, request_id: MessageId, request: Request) -> None:
        """The session broke before the response."""
        self._of_job.update(dict.fromkeys(jobs_of(request), request_id))

    def settled(self, request: Request) -> None:
        """The request was answered or abandoned."""
        if self._of_job:
            for job in jobs_of(request):
                self._of_job.pop(job, None)

    def accepted_by(self, results: Iterable[Result]) -> list[MessageId]:
        """The requests that were accepted, because one of their jobs has a result."""
        found: dict[MessageId, None] = {}
        for result in results if self._of_job else ():
            job_id = result.job_id
            request_id = self._of_job.get(job_id) or self._of_job.get(job_id[:-TASK_INDEX_BYTES])
            if request_id is not None:
                found[request_id] = None
        return list(found)

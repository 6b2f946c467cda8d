"""Submits whose session broke before the response: whether they were accepted is unknown, until a
result of one of their jobs arrives. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from rollq.base.ids import TASK_INDEX_BYTES, MessageId
from rollq.roles.client.session.signals import Request, jobs_of
from rollq.wire.messages import Result


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

"""The jobs of one client that have not ended, by their ids, and what asked for them. Pure.

A *unit* is what is placed in a group: a job, or a bulk or an array as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rollq.base.ids import TASK_INDEX_BYTES, JobId
from rollq.base.limits import MULTI_COPIES_MAX
from rollq.roles.router.requests import Request
from rollq.wire.messages import SubmitArray


class Work:
    """The tables.

    Attributes:
        waiting: Units that no group has answered yet.
    """

    def __init__(self) -> None:
        self.waiting: dict[JobId, None] = {}
        self._jobs: dict[JobId, tuple[Request, int]] = {}  # of a request, and where in it
        self._wholes: dict[JobId, Request] = {}
        self._arrays: dict[bytes, Request] = {}  # by what the ids of their tasks share
        self._moved: dict[JobId, None] = {}  # jobs that were taken from a group
        self._over: dict[JobId, None] = {}  # such jobs that have ended since, the last of them
        self._copies: dict[JobId, Sequence[JobId]] = {}  # the jobs of wholes that were moved

    def __bool__(self) -> bool:
        return bool(self._jobs or self._wholes)

    def has_whole(self, unit: JobId) -> bool:
        """Whether a bulk or an array has not ended."""
        return unit in self._wholes

    def add_whole(self, request: Request, unit: JobId) -> None:
        """A bulk or an array comes."""
        self._wholes[unit] = request
        if isinstance(request.message, SubmitArray):
            self._arrays[unit[:-TASK_INDEX_BYTES]] = request
        else:
            self._add_jobs(request)

    def add_jobs(self, request: Request) -> Sequence[int]:
        """Jobs come; the positions of those that are here already, which are not added."""
        if self._jobs.keys().isdisjoint(request.job_ids):
            self._add_jobs(request)
            return ()
        known = []
        for position, job_id in enumerate(request.job_ids):
            if job_id in self._jobs:
                known.append(position)
            else:
                self._jobs[job_id] = (request, position)
        return known

    def _add_jobs(self, request: Request) -> None:
        for position, job_id in enumerate(request.job_ids):
            self._jobs[job_id] = (request, position)

    def find(self, job_id: JobId) -> Request | None:
        """What a job or a task was asked for with."""
        entry = self._jobs.get(job_id)
        return self._arrays.get(job_id[:-TASK_INDEX_BYTES]) if entry is None else entry[0]

    def unit(self, unit: JobId) -> tuple[Request, int]:
        """What a unit was asked for with, and where in it; it must be here."""
        whole = self._wholes.get(unit)
        return self._jobs[unit] if whole is None else (whole, 0)

    def unit_of(self, job_id: JobId) -> JobId | None:
        """What a job, an array or a task is placed as; None: it is not here."""
        request = self.find(job_id)
        return None if request is None else request.unit or job_id

    def is_over(self, job_id: JobId) -> bool:
        """Whether a job was moved, and has ended."""
        return bool(self._over) and job_id in self._over

    def taken_back(self, units: Iterable[JobId]) -> None:
        """A group has these no longer, as far as we are concerned."""
        for unit in units:
            whole = self._wholes.get(unit)
            if whole is not None:
                self._copies[unit] = whole.job_ids
                if len(self._copies) > MULTI_COPIES_MAX:  # the machine of groups forgets them too
                    del self._copies[next(iter(self._copies))]
                if isinstance(whole.message, SubmitArray):
                    whole.left = whole.message.task_count  # all of them run again
            elif unit in self._jobs:
                self._moved[unit] = None

    def copies_of(self, units: Iterable[JobId]) -> list[JobId]:
        """The jobs of units that were left behind."""
        return [job_id for unit in units for job_id in self._copies.pop(unit, (unit,))]

    def end(self, job_id: JobId, request: Request, count: int = 1) -> bool:
        """A job is over, or so many tasks of an array; whether that was the last of its request."""
        self._jobs.pop(job_id, None)
        if self._moved and self._moved.pop(job_id, False) is None:
            self._over[job_id] = None
            if len(self._over) > MULTI_COPIES_MAX:
                del self._over[next(iter(self._over))]
        request.left -= count
        if request.left > 0:
            return False
        unit = request.unit
        if unit is not None:
            self._wholes.pop(unit, None)
            if self._arrays.get(unit[:-TASK_INDEX_BYTES]) is request:
                del self._arrays[unit[:-TASK_INDEX_BYTES]]
        return True

    def requests(self) -> list[Request]:
        """Everything that has not ended."""
        found = {id(one): one for one, _ in self._jobs.values()}
        return [*found.values(), *self._arrays.values()]

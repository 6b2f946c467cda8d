"""The unfinished jobs of one client, indexed by id, with their requests. Pure.

A *unit* is what is placed in one group: a job, or a whole bulk or array.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rollq.base.ids import TASK_INDEX_BYTES, JobId
from rollq.base.limits import MULTI_COPIES_MAX
from rollq.roles.router.requests import PendingSubmit
from rollq.wire.messages import SubmitArray


class PendingJobs:
    """Indexes of the unfinished jobs.

    Attributes:
        waiting: Units that no group has answered yet.
    """

    def __init__(self) -> None:
        self.waiting: dict[JobId, None] = {}
        self._jobs: dict[JobId, tuple[PendingSubmit, int]] = {}  # with the position in it
        self._wholes: dict[JobId, PendingSubmit] = {}
        self._arrays: dict[bytes, PendingSubmit] = {}  # by the common prefix of the task ids
        self._moved: dict[JobId, None] = {}  # jobs that were taken back from a group
        self._over: dict[JobId, None] = {}  # moved jobs that have ended, the most recent
        self._copies: dict[JobId, Sequence[JobId]] = {}  # jobs of moved wholes in the old group

    def __bool__(self) -> bool:
        return bool(self._jobs or self._wholes)

    def has_whole(self, unit: JobId) -> bool:
        """Whether a bulk or an array is unfinished."""
        return unit in self._wholes

    def add_whole(self, request: PendingSubmit, unit: JobId) -> None:
        """Add a bulk or an array."""
        self._wholes[unit] = request
        if isinstance(request.message, SubmitArray):
            self._arrays[unit[:-TASK_INDEX_BYTES]] = request
        else:
            request.left = len(set(request.job_ids))  # an id that is named twice has one result
            self._add_jobs(request)

    def add_jobs(self, request: PendingSubmit) -> Sequence[int]:
        """Add jobs; returns the positions of those that are present already, also by an earlier
        position of the same request. They are skipped."""
        ids = request.job_ids
        if self._jobs.keys().isdisjoint(ids) and (len(ids) == 1 or len(set(ids)) == len(ids)):
            self._add_jobs(request)
            return ()
        known = []
        for position, job_id in enumerate(request.job_ids):
            if job_id in self._jobs:
                known.append(position)
            else:
                self._jobs[job_id] = (request, position)
        return known

    def _add_jobs(self, request: PendingSubmit) -> None:
        for position, job_id in enumerate(request.job_ids):
            self._jobs[job_id] = (request, position)

    def find(self, job_id: JobId) -> PendingSubmit | None:
        """The request of a job or a task."""
        entry = self._jobs.get(job_id)
        return self._arrays.get(job_id[:-TASK_INDEX_BYTES]) if entry is None else entry[0]

    def unit(self, unit: JobId) -> tuple[PendingSubmit, int]:
        """The request of a unit that is present, and the position in it."""
        whole = self._wholes.get(unit)
        return self._jobs[unit] if whole is None else (whole, 0)

    def unit_of(self, job_id: JobId) -> JobId | None:
        """The unit of a job, an array or a task; None if it is not present."""
        request = self.find(job_id)
        return None if request is None else request.unit or job_id

    def is_over(self, job_id: JobId) -> bool:
        """Whether a job was moved and has ended."""
        return bool(self._over) and job_id in self._over

    def mark_moved(self, units: Iterable[JobId]) -> None:
        """Record units that are moved away from a group."""
        for unit in units:
            whole = self._wholes.get(unit)
            if whole is not None:
                self._copies[unit] = whole.job_ids
                if len(self._copies) > MULTI_COPIES_MAX:  # the placement machine has the same limit
                    del self._copies[next(iter(self._copies))]
                if isinstance(whole.message, SubmitArray):
                    whole.left = whole.message.task_count  # all tasks run again
            elif unit in self._jobs:
                self._moved[unit] = None

    def copies_of(self, units: Iterable[JobId]) -> list[JobId]:
        """The jobs of units whose copies are to be cancelled."""
        return [job_id for unit in units for job_id in self._copies.pop(unit, (unit,))]

    def end(self, job_id: JobId, request: PendingSubmit, count: int = 1) -> bool:
        """End a job, or `count` tasks of an array; true if its request is finished."""
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

    def requests(self) -> list[PendingSubmit]:
        """All unfinished requests."""
        found = {id(one): one for one, _ in self._jobs.values()}
        return [*found.values(), *self._arrays.values()]

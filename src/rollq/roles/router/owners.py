"""Bounded memory of a router: owning groups of jobs, groups of results, and kept bytes. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rollq.base.ids import TASK_INDEX_BYTES, JobId
from rollq.base.router_limits import ROUTER_GIVEN_MAX, ROUTER_JOBS_MAX, ROUTER_KEPT_BYTES_MAX


class JobOwners:
    """Owning groups of the `jobs_max` most recently accepted jobs."""

    __slots__ = ("_groups", "_jobs_max")

    def __init__(self, jobs_max: int = ROUTER_JOBS_MAX) -> None:
        self._groups: dict[bytes, int] = {}
        self._jobs_max = jobs_max

    def add(self, job_ids: Iterable[JobId], group: int) -> None:
        """Record jobs that a group has accepted."""
        groups = self._groups
        groups.update(dict.fromkeys(job_ids, group))
        while len(groups) > self._jobs_max:
            del groups[next(iter(groups))]

    def add_array(self, array_id: JobId, group: int) -> None:
        """Record an array: its tasks share all but the end of their ids."""
        self.add((array_id[:-TASK_INDEX_BYTES],), group)

    def find(self, job_id: JobId) -> int | None:
        """The group of a job, an array or a task; None if it is not recorded."""
        group = self._groups.get(job_id)
        return self._groups.get(job_id[:-TASK_INDEX_BYTES]) if group is None else group


class GivenResults:
    """The groups of results that were sent to one client and are not confirmed."""

    __slots__ = ("_groups", "_results_max")

    def __init__(self, results_max: int = ROUTER_GIVEN_MAX) -> None:
        self._groups: dict[JobId, int] = {}
        self._results_max = results_max

    def add(self, job_ids: Iterable[JobId], group: int) -> None:
        """Record results that are sent to the client."""
        groups = self._groups
        groups.update(dict.fromkeys(job_ids, group))
        while len(groups) > self._results_max:
            del groups[next(iter(groups))]

    def confirmed(self, job_ids: Iterable[JobId]) -> tuple[dict[int, list[JobId]], list[JobId]]:
        """Remove confirmed results: those known, by group, and those not recorded."""
        by_group: dict[int, list[JobId]] = {}
        unknown: list[JobId] = []
        for job_id in job_ids:
            group = self._groups.pop(job_id, None)
            (unknown if group is None else by_group.setdefault(group, [])).append(job_id)
        return by_group, unknown


@dataclass(slots=True)
class KeptBytes:
    """The memory budget for bodies of accepted jobs, shared by all clients of a router."""

    size_bytes: int = 0
    bytes_max: int = ROUTER_KEPT_BYTES_MAX

    def take(self, size_bytes: int) -> bool:
        """Reserve bytes; false if the budget is exceeded."""
        if self.size_bytes + size_bytes > self.bytes_max:
            return False
        self.size_bytes += size_bytes
        return True

    def give_back(self, size_bytes: int) -> None:
        """Release reserved bytes."""
        self.size_bytes -= size_bytes

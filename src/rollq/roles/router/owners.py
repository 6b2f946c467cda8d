"""Which group has which job, and which gave which result, as far as a router remembers; and how
much it keeps. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rollq.base.ids import TASK_INDEX_BYTES, JobId
from rollq.base.router_limits import ROUTER_GIVEN_MAX, ROUTER_JOBS_MAX, ROUTER_KEPT_BYTES_MAX


class JobOwners:
    """The groups of the jobs that were accepted last, at most ROUTER_JOBS_MAX."""

    __slots__ = ("_groups",)

    def __init__(self) -> None:
        self._groups: dict[bytes, int] = {}

    def add(self, job_ids: Iterable[JobId], group: int) -> None:
        """A group has accepted jobs."""
        groups = self._groups
        groups.update(dict.fromkeys(job_ids, group))
        while len(groups) > ROUTER_JOBS_MAX:
            del groups[next(iter(groups))]

    def add_array(self, array_id: JobId, group: int) -> None:
        """A group has accepted an array: its tasks share all but the end of their ids."""
        self.add((array_id[:-TASK_INDEX_BYTES],), group)

    def find(self, job_id: JobId) -> int | None:
        """The group that has a job, an array or a task of one; None: nobody remembers."""
        group = self._groups.get(job_id)
        return self._groups.get(job_id[:-TASK_INDEX_BYTES]) if group is None else group


class GivenResults:
    """The groups of results that one client was given last and has not confirmed."""

    __slots__ = ("_groups",)

    def __init__(self) -> None:
        self._groups: dict[JobId, int] = {}

    def add(self, job_ids: Iterable[JobId], group: int) -> None:
        """Results of a group are on their way to the client."""
        groups = self._groups
        groups.update(dict.fromkeys(job_ids, group))
        while len(groups) > ROUTER_GIVEN_MAX:
            del groups[next(iter(groups))]

    def confirmed(self, job_ids: Iterable[JobId]) -> tuple[dict[int, list[JobId]], list[JobId]]:
        """The client has these: by the groups that gave them, and those that nobody remembers."""
        by_group: dict[int, list[JobId]] = {}
        unknown: list[JobId] = []
        for job_id in job_ids:
            group = self._groups.pop(job_id, None)
            (unknown if group is None else by_group.setdefault(group, [])).append(job_id)
        return by_group, unknown


@dataclass(slots=True)
class KeptBytes:
    """How many bytes of accepted jobs are kept, by all clients of a router."""

    size_bytes: int = 0

    def take(self, size_bytes: int) -> bool:
        """Whether there is room for so many more; then they count."""
        if self.size_bytes + size_bytes > ROUTER_KEPT_BYTES_MAX:
            return False
        self.size_bytes += size_bytes
        return True

    def give_back(self, size_bytes: int) -> None:
        """So many are not kept any more."""
        self.size_bytes -= size_bytes

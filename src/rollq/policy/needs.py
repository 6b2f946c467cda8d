"""What a job needs of its worker, and the resources that a worker has and has free.

A *need* is program, labels and resources together. The need of a job without labels and resources
is its program alone, a plain string, because it is computed for every job.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from rollq.base.ids import JobId
from rollq.base.needs import Amounts, labels_match

if TYPE_CHECKING:
    from rollq.policy.lanes import Item

SHIPPED: Final = "\0"  # prefix of a program that is shipped with its job
LABEL_VERDICTS_MAX: Final = 65_536  # cached results of `has_labels`


class Need(NamedTuple):
    """The need of a job that has labels or resources."""

    program: str  # as `need_of` returns for jobs that need nothing else
    labels: tuple[str, ...]  # required, in the syntax of `base.needs.labels_match`
    resources: Amounts  # held by an attempt while it runs


AnyNeed: TypeAlias = str | Need


def need_of(item: Item) -> AnyNeed:
    """The need of an item. A shipped program has a prefix: it needs a worker that allows those."""
    options = item.options
    program = SHIPPED + item.exec_name if options.ships_exec else item.exec_name
    if options.labels or options.resources:
        return Need(program, options.labels, options.resources)
    return program


def program_in(need: AnyNeed) -> str:
    """The program of a need, with its prefix."""
    return need.program if isinstance(need, Need) else need


class ProgramSet(NamedTuple):
    """The programs that a worker announced."""

    names: frozenset[str] | None = None  # None: any program
    ships: bool = False  # it also runs shipped programs

    def has(self, program: str) -> bool:
        """Whether a program, with or without the prefix, can be run."""
        if self.names is None:
            return True
        if program.startswith(SHIPPED):
            return self.ships or program[1:] in self.names
        return program in self.names


ANYTHING: Final = ProgramSet()


@lru_cache(LABEL_VERDICTS_MAX)
def has_labels(required: tuple[str, ...], labels: tuple[str, ...]) -> bool:
    """`labels_match`, cached: most workers of a group have one of a few sets of labels."""
    return labels_match(required, labels)


class Room:
    """The resources of a worker, and the part of them that no attempt holds.

    Decisions count as attempts. An attempt is keyed by its job id, so that its resources are
    returned once, whatever happens to the record of its job; a task of an array has no id before it
    is assigned.
    """

    __slots__ = ("_jobs", "_tasks", "capacity", "free")

    def __init__(self, capacity: Amounts) -> None:
        self.capacity = dict(capacity)
        # Invariant: capacity minus what `_jobs` and `_tasks` hold. Negative only if the worker came
        # back with less than its attempts hold.
        self.free = dict(capacity)
        self._jobs: dict[JobId, Amounts] = {}  # held by each attempt
        # By array: held by each decided task that has no id yet.
        self._tasks: dict[JobId, list[Amounts]] = {}

    def could_hold(self, resources: Amounts) -> bool:
        """Whether the capacity suffices."""
        capacity = self.capacity
        return all(capacity.get(name, 0) >= amount for name, amount in resources)

    def has(self, resources: Amounts) -> bool:
        """Whether enough is free now."""
        return all(self.free.get(name, 0) >= amount for name, amount in resources)

    def count(self, resources: Amounts, count_max: int) -> int:
        """How many attempts with these resources could start now, up to `count_max`."""
        return min([count_max, *(self.free.get(name, 0) // held for name, held in resources)])

    def take_jobs(self, job_ids: Iterable[JobId], resources: Amounts) -> None:
        """Each of these attempts holds `resources` from now on."""
        for job_id in job_ids:
            self._jobs[job_id] = resources
            self._add(resources, -1)

    def end_jobs(self, job_ids: Iterable[JobId]) -> None:
        """Return the resources of these attempts, if they hold any."""
        if self._jobs:
            for job_id in job_ids:
                self._add(self._jobs.pop(job_id, ()), 1)

    def take_tasks(self, array_id: JobId, resources: Amounts, count: int) -> None:
        """As `take_jobs` for `count` tasks of an array whose ids are not known yet."""
        self._tasks.setdefault(array_id, []).extend([resources] * count)
        self._add(resources, -count)

    def name_task(self, array_id: JobId, job_id: JobId) -> None:
        """A decided task was assigned and has an id now."""
        if array_id in self._tasks:
            self._jobs[job_id] = self._pop_task(array_id)

    def end_task(self, array_id: JobId) -> None:
        """A decided task was refused."""
        if array_id in self._tasks:
            self._add(self._pop_task(array_id), 1)

    def _pop_task(self, array_id: JobId) -> Amounts:
        waiting = self._tasks[array_id]
        resources = waiting.pop()
        if not waiting:
            del self._tasks[array_id]
        return resources

    def _add(self, resources: Amounts, count: int) -> None:
        free = self.free
        for name, amount in resources:
            free[name] = free.get(name, 0) + count * amount

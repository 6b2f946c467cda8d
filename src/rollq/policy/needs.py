"""What a job needs of its worker, what a worker has of it, and what is left of that.

A *need* is a program, labels and resources together. A job without labels and resources is known by
its program alone, a plain string, because that is asked for every job that comes.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from rollq.base.ids import JobId
from rollq.base.needs import Amounts, labels_match

if TYPE_CHECKING:
    from rollq.policy.lanes import Item

SHIPPED: Final = "\0"  # before the name of a program that comes with its job
LABEL_VERDICTS_MAX: Final = 65_536  # pairs of required and given labels that were compared


class Need(NamedTuple):
    """What a worker must have for a job that needs more than a program."""

    program: str  # as `need_of` says for jobs that need nothing else
    labels: tuple[str, ...]  # required, as `base.needs.labels_match` reads them
    resources: Amounts  # that an attempt holds while it runs


AnyNeed: TypeAlias = str | Need


def need_of(item: Item) -> AnyNeed:
    """What a worker must have for this. A program that comes with its job is marked: such a job
    also needs a worker that allows that."""
    options = item.options
    program = SHIPPED + item.exec_name if options.ships_exec else item.exec_name
    if options.labels or options.resources:
        return Need(program, options.labels, options.resources)
    return program


def program_in(need: AnyNeed) -> str:
    """The program of a need, with its mark."""
    return need.program if isinstance(need, Need) else need


class ProgramSet(NamedTuple):
    """What a worker announced that it can run."""

    names: frozenset[str] | None = None  # None: anything, as far as is known
    ships: bool = False  # it runs programs that come with their jobs, too

    def has(self, program: str) -> bool:
        """Whether a program, which may be marked, can be run."""
        if self.names is None:
            return True
        if program.startswith(SHIPPED):
            return self.ships or program[1:] in self.names
        return program in self.names


ANYTHING: Final = ProgramSet()


@lru_cache(LABEL_VERDICTS_MAX)
def has_labels(required: tuple[str, ...], labels: tuple[str, ...]) -> bool:
    """`labels_match`, remembered: most workers of a group have one of a few sets of labels."""
    return labels_match(required, labels)


class Room:
    """What a worker has of each resource, and what of it no attempt holds.

    Counts what was decided, too. An attempt is counted by its id, so that it is given back once,
    whatever the record of its job has become; a task of an array has none before it is assigned.
    """

    __slots__ = ("_jobs", "_tasks", "capacity", "free")

    def __init__(self, capacity: Amounts) -> None:
        self.capacity = dict(capacity)
        # Invariant: capacity - what `_jobs` and `_tasks` hold. Below 0 only if the worker came back
        # with less than its attempts hold.
        self.free = dict(capacity)
        self._jobs: dict[JobId, Amounts] = {}  # attempts that hold something
        # Of an array: what each of its tasks holds that were decided and have no ids yet.
        self._tasks: dict[JobId, list[Amounts]] = {}

    def could_hold(self, resources: Amounts) -> bool:
        """Whether they are there at all."""
        capacity = self.capacity
        return all(capacity.get(name, 0) >= amount for name, amount in resources)

    def has(self, resources: Amounts) -> bool:
        """Whether they are free now."""
        return all(self.free.get(name, 0) >= amount for name, amount in resources)

    def count(self, resources: Amounts, count_max: int) -> int:
        """How many attempts that hold these could start now: so many at most."""
        return min([count_max, *(self.free.get(name, 0) // held for name, held in resources)])

    def take_jobs(self, job_ids: Iterable[JobId], resources: Amounts) -> None:
        """These hold so much each from now on."""
        for job_id in job_ids:
            self._jobs[job_id] = resources
            self._add(resources, -1)

    def end_jobs(self, job_ids: Iterable[JobId]) -> None:
        """These hold nothing any more, if they did."""
        if self._jobs:
            for job_id in job_ids:
                self._add(self._jobs.pop(job_id, ()), 1)

    def take_tasks(self, array_id: JobId, resources: Amounts, count: int) -> None:
        """So many tasks of an array hold so much each from now on; their ids are not known yet."""
        self._tasks.setdefault(array_id, []).extend([resources] * count)
        self._add(resources, -count)

    def name_task(self, array_id: JobId, job_id: JobId) -> None:
        """One of these was assigned, and has an id now."""
        if array_id in self._tasks:
            self._jobs[job_id] = self._pop_task(array_id)

    def end_task(self, array_id: JobId) -> None:
        """One of these was refused."""
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

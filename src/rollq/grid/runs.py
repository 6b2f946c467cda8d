"""Helpers of run handlers: columns of ids, and outcomes.

A run is applied as a whole if the result equals applying its jobs one by one; any rule that needs
single jobs splits it. So no handler may decide about a job by its run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from struct import Struct
from typing import Any, Final

from rollq.base.ids import GUID_BYTES, JobId
from rollq.base.limits import RUN_JOBS_MAX
from rollq.base.staged import KEY_END
from rollq.grid.admission import refused_bounds
from rollq.grid.effects import Duplicate, Outcome, Refused, RunDone
from rollq.grid.facts import alike_groups
from rollq.grid.outcomes import DONE_ONE
from rollq.grid.state import GridState, JobRecord

DONE_RUN_OF_ONE: Final = RunDone(1)

Others = list[tuple[int, Duplicate | Refused]]  # the jobs that a run was not done for, by position


def ids_in(column: bytes) -> tuple[JobId, ...]:
    """The ids of a column that passed `refuse_run`."""
    if len(column) == GUID_BYTES:
        return (column,)
    found: tuple[JobId, ...] = _ids(len(column) // GUID_BYTES).unpack(column)
    return found


def refuse_run(job_ids: bytes, *columns: Sequence[Any]) -> Refused | None:
    """Why this is not a run: it is empty or too long, or a column has not one value per job."""
    count, rest = divmod(len(job_ids), GUID_BYTES)
    if rest or not 0 < count <= RUN_JOBS_MAX:
        return refused_bounds(f"job_ids are not 1 to {RUN_JOBS_MAX} ids of 16 bytes")
    for column in columns:
        if len(column) != count:
            return refused_bounds("a column has not one value a job")
    return None


def refuse_columns(count: int, *columns: Sequence[Any]) -> Refused | None:
    """As `refuse_run` for columns of a run of `count` jobs that may be empty."""
    for column in columns:
        if column and len(column) != count:
            return refused_bounds("a column has not one value a job")
    return None


def keys_in(column: str) -> Sequence[str]:
    """The keys of a column; none if it is empty."""
    return column.split(KEY_END) if column else ()


def has_twice(job_ids: Sequence[JobId]) -> bool:
    """Whether a run has an id more than once: then its jobs are applied one by one."""
    return len(job_ids) > 1 and len(set(job_ids)) != len(job_ids)


def known_groups(
    state: GridState, job_ids: Sequence[JobId]
) -> Iterator[tuple[int, Sequence[JobRecord]]]:
    """The jobs of a run in groups of equal ones, each with the position of its first job; an empty
    group stands for one unknown job. A group is as its jobs were when it began."""
    if len(job_ids) == 1:  # the jobs of many clients come alone: as below, in half of the time
        record = state.jobs.get(job_ids[0])
        yield 0, () if record is None else (record,)
        return
    records = list(map(state.jobs.get, job_ids))
    known = [record for record in records if record is not None]
    if len(known) < len(records):  # rare: then each job is a group
        for position, record in enumerate(records):
            yield position, [] if record is None else [record]
        return
    position = 0
    for group in alike_groups(known):
        yield position, group
        position += len(group)


def run_done(count: int, others: Others) -> RunDone:
    """The outcome of a run of `count` jobs."""
    if not others:
        return DONE_RUN_OF_ONE if count == 1 else RunDone(count)
    return RunDone(count - len(others), tuple(others))


def in_turn(outcomes: Sequence[Outcome]) -> RunDone:
    """The outcome of a run whose jobs were applied one by one, each as a run of one."""
    ones = enumerate(map(alone, outcomes))
    others = [(at, one) for at, one in ones if isinstance(one, Duplicate | Refused)]
    return run_done(len(outcomes), others)


def alone(outcome: Outcome) -> Outcome:
    """The outcome of a run of one, as the outcome of its job."""
    if type(outcome) is not RunDone:
        return outcome
    return outcome.others[0][1] if outcome.others else DONE_ONE


@lru_cache(RUN_JOBS_MAX)
def _ids(count: int) -> Struct:
    return Struct(f"{GUID_BYTES}s" * count)

"""Lists for people: workers, clients and jobs, a page at a time. Read only.

A page looks at a bounded number of records, however many there are. So a page of jobs may hold
fewer than were asked for and still not be the last: `after` says where to go on, and is 0 at the
end. Jobs that come and go between two pages may be missed or come twice: it is a look, no census.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nsmallest
from itertools import islice
from typing import Final

import msgspec
from msgspec.structs import replace

from rollq.base.ids import WorkerId
from rollq.base.outcomes import inner_state, state_word
from rollq.grid.state import GridState, JobRecord
from rollq.grid.views import ClientView, JobView, WorkerView, client_view, job_view, worker_view

LOOKED_AT_MAX: Final = 20_000


class JobFilter(msgspec.Struct, frozen=True, array_like=True):
    """Which jobs are wanted; empty: any. `after` is the place where the last page ended."""

    state: str = ""
    queue: str = ""
    client_id: str = ""
    exec_name: str = ""
    after: int = 0


class JobPage(msgspec.Struct, frozen=True):
    """Some jobs, and where the next page begins (0: there is none)."""

    jobs: list[JobView]
    after: int


def worker_page(state: GridState, after: WorkerId, limit: int) -> list[WorkerView]:
    """Up to `limit` workers whose ids come after this one, by id."""
    ids = nsmallest(limit, (each for each in state.workers if each > after))
    return [view for each in ids if (view := worker_view(state, each)) is not None]


def client_page(state: GridState, after: str, limit: int) -> list[ClientView]:
    """Up to `limit` clients whose ids come after this one, by id."""
    ids = nsmallest(limit, (each for each in state.clients if each > after))
    return [view for each in ids if (view := client_view(state, each)) is not None]


def job_page(state: GridState, wanted: JobFilter, limit: int) -> JobPage:
    """Up to `limit` of the jobs that fit, in the order in which they were accepted; those that
    run, if only they are asked for, by worker."""
    jobs: list[JobView] = []
    place = wanted.after
    for record in islice(_records(state, wanted), place, place + LOOKED_AT_MAX):
        place += 1
        if _fits(record, wanted):
            jobs.append(_brief(state, record))
            if len(jobs) == limit:
                return JobPage(jobs, place)
    return JobPage(jobs, place if place == wanted.after + LOOKED_AT_MAX else 0)


def _brief(state: GridState, record: JobRecord) -> JobView:
    """A job without its result and its past attempts: a page of those would fit no frame."""
    view = job_view(state, record.job_id)
    assert view is not None, "every record has a view"
    end = view.end and replace(view.end, result=b"")
    return replace(view, end=end, attempts=())


def _records(state: GridState, wanted: JobFilter) -> Iterator[JobRecord]:
    """Candidates; what runs is known from its workers, without a walk over all that waits."""
    if inner_state(wanted.state) == "assigned":
        for worker in state.workers.values():
            yield from (state.jobs[job_id] for job_id in worker.held)
    else:
        yield from state.jobs.values()


def _fits(record: JobRecord, wanted: JobFilter) -> bool:
    return (
        (not wanted.state or _is_in(record, wanted.state))
        and wanted.queue in ("", record.queue)
        and wanted.client_id in ("", record.client.client_id)
        and wanted.exec_name in ("", record.exec_name)
    )


def _is_in(record: JobRecord, state: str) -> bool:
    """Whether a job stands where a word says: one of ours, or one for people."""
    name = record.state.name.lower()
    status = 0 if record.end is None else record.end.status
    return state in (name, state_word(name, status))

"""Lists for people: workers, clients, arrays and jobs, a page at a time. Read only.

A page looks at a bounded number of records, however many there are. So a page of jobs may hold
fewer than were asked for and still not be the last: `after` says where to go on, and is 0 at the
end. Jobs are read by sequence number: those that are there all the while come exactly once,
whatever is accepted or forgotten between two pages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import nsmallest
from typing import Final

import msgspec
from msgspec.structs import replace

from rollq.base.access_rules import is_client_of
from rollq.base.ids import JobId, WorkerId, guid_to_text
from rollq.base.outcomes import inner_state, state_word
from rollq.grid.state import GridState, JobRecord
from rollq.grid.views import (
    ClientView,
    RawArrayView,
    RawJobView,
    RawWorkerView,
    array_view,
    client_view,
    job_view,
    worker_view,
)

LOOKED_AT_MAX: Final = 20_000
IDS_LOOKED_AT_MAX: Final = 100_000  # a test of an id is cheap


class JobFilter(msgspec.Struct, frozen=True, array_like=True):
    """Which jobs are wanted; empty: any. `after` is the place where the last page ended."""

    state: str = ""
    queue: str = ""
    client_id: str = ""
    exec_name: str = ""
    after: int = 0
    newest: bool = False  # the one that was accepted last first


class IdFilter(msgspec.Struct, frozen=True, array_like=True):
    """Ids by the first and the last digits of their text, in lower case and without dashes.
    `before` is the place where the last page ended."""

    first: str
    last: str = ""
    before: int = 0


class IdPage(msgspec.Struct, frozen=True):
    """Some ids, and where the next page begins (0: there is none)."""

    ids: list[JobId]
    before: int


class JobPage(msgspec.Struct, frozen=True):
    """Some jobs, and where the next page begins (0: there is none)."""

    jobs: list[RawJobView]
    after: int


def worker_page(state: GridState, after: WorkerId, limit: int) -> list[RawWorkerView]:
    """Up to `limit` workers whose ids come after this one, by id."""
    ids = nsmallest(limit, (each for each in state.workers if each > after))
    return [view for each in ids if (view := worker_view(state, each)) is not None]


def client_page(state: GridState, after: str, limit: int) -> list[ClientView]:
    """Up to `limit` clients whose ids come after this one, by id."""
    ids = nsmallest(limit, (each for each in state.clients if each > after))
    return [view for each in ids if (view := client_view(state, each)) is not None]


def array_page(state: GridState, after: JobId, limit: int, account: str = "") -> list[RawArrayView]:
    """Up to `limit` arrays whose ids come after this one, by id; also those that have ended."""
    arrays = (
        each.array_id
        for each in state.arrays.values()
        if is_client_of(each.client.client_id, account)
    )
    ids = nsmallest(limit, (each for each in arrays if each > after))
    return [view for each in ids if (view := array_view(state, each)) is not None]


def job_page(state: GridState, wanted: JobFilter, limit: int, account: str = "") -> JobPage:
    """Up to `limit` of the jobs that fit, the one that was accepted last first or last."""
    jobs: list[RawJobView] = []
    place = wanted.after
    for looked_at, (seq, job_id) in enumerate(_candidates(state, wanted)):
        if looked_at == LOOKED_AT_MAX or len(jobs) == limit:
            return JobPage(jobs, place)
        place = seq
        record = state.jobs[job_id]
        if _fits(record, wanted) and is_client_of(record.client.client_id, account):
            jobs.append(_brief(state, record))
    return JobPage(jobs, 0)


def id_page(state: GridState, wanted: IdFilter, limit: int, account: str = "") -> IdPage:
    """Up to `limit` ids of jobs and arrays whose text begins with these digits and ends with those,
    arrays on the first page. Looks at so many jobs a page."""
    fits = _fitting(wanted)
    found: list[JobId] = []
    if not wanted.before:
        found = [
            one.array_id
            for one in state.arrays.values()
            if fits(one.array_id) and is_client_of(one.client.client_id, account)
        ]
        if not account:  # whose they are is known once they are jobs
            found += filter(fits, state.reserved)
    place = 0
    jobs = state.job_index.before(wanted.before or state.last_seq + 1)
    for looked_at, (seq, job_id) in enumerate(jobs):
        if looked_at == IDS_LOOKED_AT_MAX or len(found) >= limit:
            return IdPage(found[:limit], place)
        place = seq
        if fits(job_id) and (
            not account or is_client_of(state.jobs[job_id].client.client_id, account)
        ):
            found.append(job_id)
    return IdPage(found[:limit], 0)


def _fitting(wanted: IdFilter) -> Callable[[JobId], bool]:
    """A test for ids. The first digits of the text are the fourth byte: most fail by that alone."""
    first, last = wanted.first, wanted.last
    try:
        head = int(first[:2], 16) if len(first) >= 2 else -1
    except ValueError:
        return lambda _: False  # no id has such digits

    def fits(job_id: JobId) -> bool:
        if head >= 0 and job_id[3] != head:
            return False
        text = guid_to_text(job_id).replace("-", "")
        return text.startswith(first) and text.endswith(last)

    return fits


def _brief(state: GridState, record: JobRecord) -> RawJobView:
    """A job without its result and its past attempts: a page of those would fit no frame."""
    view = job_view(state, record.job_id)
    assert view is not None, "every record has a view"
    end = view.end and replace(view.end, result=b"")
    return replace(view, end=end, attempts=())


def _candidates(state: GridState, wanted: JobFilter) -> Iterator[tuple[int, JobId]]:
    """Jobs from a place on; what runs is known from its workers, without a walk over what waits."""
    last = wanted.after or state.last_seq + 1
    if inner_state(wanted.state) != "assigned":
        index = state.job_index
        return index.before(last) if wanted.newest else index.after(wanted.after)
    running = (
        (state.jobs[job_id].seq, job_id)
        for worker in state.workers.values()
        for job_id in worker.held
    )
    if wanted.newest:
        return iter(sorted((one for one in running if one[0] < last), reverse=True))
    return iter(sorted(one for one in running if one[0] > wanted.after))


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

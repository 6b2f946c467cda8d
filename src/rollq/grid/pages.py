"""Lists for people: workers, clients, arrays and jobs, a page at a time. Read only.

A page reads a bounded number of records. So a page of jobs may hold fewer rows than requested and
still not be the last: `after` is where the next one begins, 0 at the end. Jobs are read by sequence
number: a job that exists throughout is returned exactly once, whatever is accepted or forgotten
between two pages.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Final

import msgspec
from msgspec.structs import replace

from rollq.base.access_rules import is_client_of
from rollq.base.ids import JobId, WorkerId, guid_to_text
from rollq.base.outcomes import FAILED, OK, inner_state
from rollq.grid.matching import JobFilter, Matching, look_at
from rollq.grid.state import ASSIGNED, DONE, GridState, JobRecord, JobState
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

__all__ = [
    "IdFilter",
    "IdPage",
    "JobFilter",
    "JobPage",
    "array_page",
    "client_page",
    "id_page",
    "job_page",
    "worker_page",
]

PAGE_JOBS_MAX: Final = 200  # a row costs more than a check
LOOKED_AT_MAX: Final = 3_072  # jobs checked per page; a check costs about 0.2 µs
NOTE_COST: Final = 2  # cost of a job whose chunk gets its note, in checks
PASSED_OVER_MAX: Final = 4_096  # chunks skipped by their notes, per page
FEW: Final = 1_024  # at most so many dead or running jobs are sorted for a page
IDS_LOOKED_AT_MAX: Final = 10_000  # checking an id is cheap


class IdFilter(msgspec.Struct, frozen=True, array_like=True):
    """Ids by a prefix and a suffix of their text, in lower case and without dashes. `before` is the
    position where the last page ended."""

    first: str
    last: str = ""
    before: int = 0


class IdPage(msgspec.Struct, frozen=True):
    """Some ids, and the position of the next page (0: none)."""

    ids: list[JobId]
    before: int


class JobPage(msgspec.Struct, frozen=True):
    """Some jobs, and the position of the next page (0: none)."""

    jobs: list[RawJobView]
    after: int


def worker_page(state: GridState, after: WorkerId, limit: int) -> list[RawWorkerView]:
    """Up to `limit` workers whose ids come after this one, by id."""
    ids = state.worker_ids.after(after, limit)
    return [view for each in ids if (view := worker_view(state, each)) is not None]


def client_page(state: GridState, after: str, limit: int) -> list[ClientView]:
    """Up to `limit` clients whose ids come after this one, by id."""
    ids = state.client_ids.after(after, limit)
    return [view for each in ids if (view := client_view(state, each)) is not None]


def array_page(state: GridState, after: JobId, limit: int, account: str = "") -> list[RawArrayView]:
    """Up to `limit` arrays whose ids come after this one, by id; also those that have ended."""
    found: list[RawArrayView] = []
    while len(found) < limit and (ids := state.array_ids.after(after, limit)):
        after = ids[-1]
        for each in ids:
            view = array_view(state, each)
            if view is not None and is_client_of(view.client_id, account) and len(found) < limit:
                found.append(view)
    return found


def job_page(state: GridState, wanted: JobFilter, limit: int, account: str = "") -> JobPage:
    """Up to `limit` matching jobs, newest or oldest first; fewer if a page would read too much."""
    limit = min(limit, PAGE_JOBS_MAX)
    if wanted.queue and wanted.queue not in state.queues:
        return JobPage([], 0)
    if wanted.client_id and wanted.client_id not in state.clients:
        return JobPage([], 0)
    if _is_none(state, wanted):
        return JobPage([], 0)
    matching = Matching(wanted, account)
    few = _few(state, wanted)
    if few is not None:
        return _page_of_few(state, wanted, limit, matching.sift(few))
    jobs: list[RawJobView] = []
    begin = _place(state, wanted)
    place, looked_at = wanted.after, 0
    chunks = state.job_index.chunks(begin, newest=wanted.newest)
    for passed_over, chunk in enumerate(chunks):
        if looked_at >= LOOKED_AT_MAX or passed_over >= PASSED_OVER_MAX:
            return JobPage(jobs, place)
        if matching.may_be_in(chunk):
            if not matching.takes_all and look_at(chunk, state.jobs):
                looked_at += NOTE_COST * len(chunk.ids)
            ids = chunk.ids_from(begin, newest=wanted.newest)
            looked_at += len(ids) * matching.cost
            for record in matching.sift([state.jobs[job_id] for job_id in ids]):
                if len(jobs) == limit:
                    return JobPage(jobs, place)
                jobs.append(_brief(state, record))
                place = record.seq
        place = chunk.first if wanted.newest else chunk.last
    return JobPage(jobs, 0)


def _place(state: GridState, wanted: JobFilter) -> int:
    """The position where a page begins."""
    return wanted.after or (state.last_seq + 1 if wanted.newest else 0)


def _is_none(state: GridState, wanted: JobFilter) -> bool:
    """Whether no job is in the wanted state, by the counts of queues."""
    inner = inner_state(wanted.state).upper()
    if inner not in JobState.__members__ or len(state.queues) > FEW:
        return False
    queues = [state.queues[wanted.queue]] if wanted.queue else state.queues.values()
    if wanted.state == FAILED:
        return not any(queue.failed for queue in queues)
    if wanted.state == OK:
        return not any(queue.counts[DONE] - queue.failed for queue in queues)
    place = JobState[inner]
    return not any(queue.counts[place] for queue in queues)


def _few(state: GridState, wanted: JobFilter) -> list[JobRecord] | None:
    """All jobs in the wanted state, if they are indexed and few; else None."""
    inner = inner_state(wanted.state)
    if inner == "dead" and len(state.dead) <= FEW:
        return [state.jobs[job_id] for job_id in state.dead]
    if inner != "assigned" or len(state.queues) > FEW:
        return None
    if sum(queue.counts[ASSIGNED] for queue in state.queues.values()) > FEW:
        return None
    return [state.jobs[job_id] for worker in state.workers.values() for job_id in worker.held]


def _page_of_few(
    state: GridState, wanted: JobFilter, limit: int, records: list[JobRecord]
) -> JobPage:
    place = _place(state, wanted)
    records = [one for one in records if (one.seq < place if wanted.newest else one.seq > place)]
    records.sort(key=_seq, reverse=wanted.newest)
    shown = records[:limit]
    return JobPage(
        [_brief(state, one) for one in shown], shown[-1].seq if len(records) > limit else 0
    )


def id_page(state: GridState, wanted: IdFilter, limit: int, account: str = "") -> IdPage:
    """Up to `limit` ids of jobs and arrays with this prefix and suffix, arrays on the first page.
    Reads a bounded number of jobs per page."""
    fits = _fitting(wanted)
    found: list[JobId] = []
    if not wanted.before:
        found = [
            array_id
            for array_id in filter(fits, state.array_ids)
            if not account or _is_array_of(state, array_id, account)
        ]
        if not account:  # their owner is unknown until they are jobs
            found += filter(fits, state.reserved)
    begin = wanted.before or state.last_seq + 1
    place, looked_at = begin, 0
    for chunk in state.job_index.chunks(begin, newest=True):
        if looked_at >= IDS_LOOKED_AT_MAX or len(found) >= limit:
            break
        ids = chunk.ids_from(begin, newest=True)
        looked_at += len(ids)
        found += [
            job_id
            for job_id in filter(fits, ids)
            if not account or is_client_of(state.jobs[job_id].client.client_id, account)
        ]
        place = chunk.first
    else:
        place = 0
    if len(found) > limit:
        last = state.jobs.get(found[limit - 1])
        place = begin if last is None else last.seq
    return IdPage(found[:limit], place)


def _is_array_of(state: GridState, array_id: JobId, account: str) -> bool:
    array = state.array_of(array_id)
    return array is not None and is_client_of(array.client.client_id, account)


def _fitting(wanted: IdFilter) -> Callable[[JobId], bool]:
    """A predicate for ids. The first digits of the text are the fourth byte: most fail by that
    alone."""
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
    """A job without its result and its past attempts, which could exceed a frame."""
    view = job_view(state, record.job_id)
    assert view is not None, "every record has a view"
    end = view.end and replace(view.end, result=b"")
    return replace(view, end=end, attempts=())


_seq = attrgetter("seq")

"""Selects unended jobs and arrays by a filter."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import msgspec

from rollq.base.amounts import counted
from rollq.base.ids import JobId, guid_to_text
from rollq.base.outcomes import BLOCKED, DELAYED, RUNNING, WAITING
from rollq.cli.grid import PAGE_ROWS, query_page
from rollq.grid.matching import JobFilter
from rollq.grid.pages import JobPage
from rollq.grid.views import RawArrayView, RawJobView
from rollq.roles.client.client import Client


@dataclass(slots=True)
class MatchedJobs:
    """The jobs that match a filter."""

    ids: list[JobId] = field(default_factory=list)  # arrays as a whole, then single jobs
    count: int = 0  # number of jobs, including tasks of the arrays
    left: list[str] = field(default_factory=list)  # matches that cannot be cancelled alone, and why


async def choose(client: Client, wanted: JobFilter) -> MatchedJobs:
    """Select all matches. Tasks that never started are not listed as jobs, and can only be
    cancelled with their array: it is selected as a whole without a state filter, or if none of its
    tasks is running."""
    matched = MatchedJobs()
    whole: set[JobId] = set()
    async for array in _arrays(client):
        is_match = wanted.queue in ("", array.queue) and wanted.client_id in ("", array.client_id)
        if not is_match or not _is_in(array, wanted.state):
            continue
        if wanted.state and array.open:
            text = guid_to_text(array.array_id)
            matched.left.append(
                f"skipped: {counted(array.waiting, 'task')} of array {text} not started yet; "
                f"they can be cancelled only with the whole array: `rollq cancel {text}`"
            )
            continue
        whole.add(array.array_id)
        matched.ids.append(array.array_id)
        matched.count += array.waiting + array.open
    # In the order of state changes, so that a job that changes its state meanwhile is not missed.
    found: dict[JobId, None] = {}
    passed = BLOCKED, DELAYED, WAITING, RUNNING
    for state in [wanted.state] if wanted.state else passed:
        async for job in jobs_like(client, msgspec.structs.replace(wanted, state=state)):
            if job.array_id not in whole and not job.cancel_requested:
                found[job.job_id] = None
    matched.ids += found
    matched.count += len(found)
    return matched


def _is_in(array: RawArrayView, state: str) -> bool:
    """Whether an array has tasks in this state that can only be cancelled with the whole array."""
    if not state:
        return bool(array.waiting or array.open)
    return bool(array.waiting) and state == (DELAYED if array.delayed else WAITING)


async def _arrays(client: Client) -> AsyncIterator[RawArrayView]:
    after = b""
    while True:
        page, rows = await query_page(client, list[RawArrayView], "arrays", after, PAGE_ROWS)
        for view in page:
            yield view
        if len(page) < rows:
            return
        after = page[-1].array_id


async def jobs_like(client: Client, wanted: JobFilter) -> AsyncIterator[RawJobView]:
    """Iterate over all matching jobs, page by page."""
    while True:
        key = msgspec.msgpack.encode(wanted)
        page, _ = await query_page(client, JobPage, "jobs", key, PAGE_ROWS)
        for view in page.jobs:
            yield view
        if not page.after:
            return
        wanted = msgspec.structs.replace(wanted, after=page.after)

"""Which jobs and arrays match a filter, of those that have not ended."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import msgspec

from rollq.base.amounts import counted
from rollq.base.ids import JobId, guid_to_text
from rollq.base.outcomes import BLOCKED, DELAYED, RUNNING, WAITING
from rollq.cli.grid import PAGE_ROWS, ask_pages
from rollq.grid.matching import JobFilter
from rollq.grid.pages import JobPage
from rollq.grid.views import RawArrayView, RawJobView
from rollq.roles.client.client import Client


@dataclass(slots=True)
class Chosen:
    """What a filter matches."""

    ids: list[JobId] = field(default_factory=list)  # arrays as a whole, then single jobs
    count: int = 0  # of jobs, those of the arrays included
    left: list[str] = field(default_factory=list)  # what matches and cannot be ended alone, and why


async def choose(client: Client, wanted: JobFilter) -> Chosen:
    """All that match. Tasks that never started are in no list of jobs, and end only with their
    array: without a state an array is chosen as a whole, and with one if no task of it started and
    goes on."""
    chosen = Chosen()
    whole: set[JobId] = set()
    async for array in _arrays(client):
        is_match = wanted.queue in ("", array.queue) and wanted.client_id in ("", array.client_id)
        if not is_match or not _is_in(array, wanted.state):
            continue
        if wanted.state and array.open:
            text = guid_to_text(array.array_id)
            chosen.left.append(
                f"skipped: {counted(array.waiting, 'task')} of array {text} not started yet; "
                f"they can be cancelled only with the whole array: `rollq cancel {text}`"
            )
            continue
        whole.add(array.array_id)
        chosen.ids.append(array.array_id)
        chosen.count += array.waiting + array.open
    # In the order in which jobs pass through them, so that one which moves on is still seen.
    found: dict[JobId, None] = {}
    passed = BLOCKED, DELAYED, WAITING, RUNNING
    for state in [wanted.state] if wanted.state else passed:
        async for job in jobs_like(client, msgspec.structs.replace(wanted, state=state)):
            if job.array_id not in whole and not job.cancel_requested:
                found[job.job_id] = None
    chosen.ids += found
    chosen.count += len(found)
    return chosen


def _is_in(array: RawArrayView, state: str) -> bool:
    """Whether some of an array can be ended only by ending all of it, and is in this state."""
    if not state:
        return bool(array.waiting or array.open)
    return bool(array.waiting) and state == (DELAYED if array.delayed else WAITING)


async def _arrays(client: Client) -> AsyncIterator[RawArrayView]:
    after = b""
    while True:
        page, rows = await ask_pages(client, list[RawArrayView], "arrays", after, PAGE_ROWS)
        for view in page:
            yield view
        if len(page) < rows:
            return
        after = page[-1].array_id


async def jobs_like(client: Client, wanted: JobFilter) -> AsyncIterator[RawJobView]:
    """All jobs that match, page by page."""
    while True:
        key = msgspec.msgpack.encode(wanted)
        page, _ = await ask_pages(client, JobPage, "jobs", key, PAGE_ROWS)
        for view in page.jobs:
            yield view
        if not page.after:
            return
        wanted = msgspec.structs.replace(wanted, after=page.after)

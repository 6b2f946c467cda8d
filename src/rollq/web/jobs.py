"""GET of jobs: lists, one job, why it waits, arrays, dead letters."""

from __future__ import annotations

from typing import Final

import msgspec

from rollq.base.errors import ErrorCode, StateError
from rollq.base.ids import guid_to_text
from rollq.base.outcomes import STATES
from rollq.documents.jobs import array_document, job_document, listed_document
from rollq.grid.pages import JobFilter, JobPage
from rollq.grid.views import RawArrayView, RawJobView
from rollq.roles.client.views import ArrayView
from rollq.web.call import Call, Page, Reply, fewer_rows, id_of
from rollq.web.errors import bad_request

STATE_WORDS: Final = ("", *STATES)


class JobQuery(Page, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which jobs."""

    state: str = ""
    exec: str = ""
    client: str = ""
    queue: str = ""
    newest: bool = True


async def jobs(call: Call) -> Reply:
    """Jobs, the newest first."""
    wanted: JobQuery = call.query
    key = msgspec.msgpack.encode(job_filter(wanted))
    page, _ = await fewer_rows(
        lambda limit: call.links.read(JobPage, "jobs", key, limit), wanted.limit
    )
    rows = [listed_document(view) for view in page.jobs]
    return Reply({"jobs": rows, "after": str(page.after) if page.after else None})


def job_filter(wanted: JobQuery) -> JobFilter:
    """The same as the group asks for it."""
    if wanted.state not in STATE_WORDS:
        raise bad_request(f"state={wanted.state[:32]!r}", f"use one of: {', '.join(STATES)}")
    return JobFilter(
        *(wanted.state, wanted.queue, wanted.client, wanted.exec),
        after=wanted.place,
        newest=wanted.newest,
    )


async def job(call: Call) -> Reply:
    """One job or task."""
    view = await call.links.find(RawJobView, "job", call.job_id)
    if view is None:
        raise unknown_job(call.path["id"])
    return Reply(job_document(view))


async def explain(call: Call) -> Reply:
    """Why a job waits, or why it failed."""
    view = await call.links.find(RawJobView, "job", call.job_id)
    array = await call.links.find(RawArrayView, "array", call.job_id) if view is None else None
    if view is None and array is None:
        raise unknown_job(call.path["id"])
    why = await call.links.ask(str, "explain", call.job_id)
    state = job_document(view)["state"] if view is not None else "array"
    return Reply({"id": call.path["id"], "state": state, "code": "", "why": why, "todo": []})


async def arrays(call: Call) -> Reply:
    """Arrays, by id."""
    page: Page = call.query
    after = id_of(page.after) if page.after else b""
    rows = await call.links.read(list[RawArrayView], "arrays", after, page.limit)
    last = guid_to_text(rows[-1].array_id) if len(rows) == page.limit else None
    return Reply({"arrays": [array_document(ArrayView.of(row)) for row in rows], "after": last})


async def array(call: Call) -> Reply:
    """One array, by what its tasks do."""
    row = await call.links.find(RawArrayView, "array", call.job_id)
    if row is None:
        raise unknown_job(call.path["id"])
    return Reply(array_document(ArrayView.of(row)))


def unknown_job(text: str) -> StateError:
    """Nobody knows this job."""
    return StateError(
        ErrorCode.UNKNOWN_JOB,
        f"no job or array has id {text[:64]}",
        "it was never accepted here, or it ended so long ago that it is forgotten",
    )

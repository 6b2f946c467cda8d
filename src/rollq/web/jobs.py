"""GET of jobs: lists, one job and its events, arrays, dead jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from rollq.base.errors import ErrorCode, StateError
from rollq.base.ids import JobId, guid_to_text
from rollq.base.outcomes import DEAD, FAILED, STATES
from rollq.documents.jobs import (
    array_document,
    explain_document,
    job_document,
    listed_document,
)
from rollq.documents.timeline import about, timeline_document
from rollq.grid.pages import JobFilter, JobPage
from rollq.grid.views import RawArrayView, RawJobView
from rollq.roles.client.results.views import ArrayView, cause_text, cause_word, state_of
from rollq.web.call import ApiCall, ApiReply, Page, fewer_rows, id_of
from rollq.web.limits import (
    FAILURES_LOOKED_AT_MAX,
    GROUP_IDS_MAX,
    PAGE_ROWS_MAX,
    TIMELINE_PARTS_MAX,
)

STATE_WORDS: Final = ("", *STATES)
STAMP_MAX: Final = 1 << 53


class JobQuery(Page, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A filter of jobs."""

    state: str = ""
    exec: str = ""
    client: str = ""
    queue: str = ""
    key: str = ""
    text: str = ""
    since_ms: int = 0
    until_ms: int = 0
    newest: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.state not in STATE_WORDS:
            raise ValueError(f"state is {self.state[:32]!r}; use one of: {', '.join(STATES)}")
        if not (0 <= self.since_ms < STAMP_MAX and 0 <= self.until_ms < STAMP_MAX):
            raise ValueError("a time is not in milliseconds since 1970")


class DeadQuery(Page, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A filter of dead jobs, and whether to group them."""

    queue: str = ""
    group_by: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.group_by not in ("", "cause"):
            raise ValueError(f"group_by is {self.group_by[:32]!r}; use cause")


async def jobs(call: ApiCall) -> ApiReply:
    """Jobs, newest first. A page may have fewer rows than requested; `after` is null on the last
    page.
    """
    wanted: JobQuery = call.query
    page = await job_page(call.links.read, job_filter(wanted), wanted.limit)
    rows = [listed_document(view) for view in page.jobs]
    return ApiReply({"jobs": rows, "after": str(page.after) if page.after else None})


async def job_page(
    ask: Callable[..., Awaitable[JobPage]], wanted: JobFilter, limit: int
) -> JobPage:
    """Query a page of jobs by `ask`, from a member or the leader."""
    key = msgspec.msgpack.encode(wanted)
    page, _ = await fewer_rows(lambda rows: ask(JobPage, "jobs", key, rows), limit)
    return page


def job_filter(wanted: JobQuery) -> JobFilter:
    """Convert the filter to that of the grid."""
    return JobFilter(
        *(wanted.state, wanted.queue, wanted.client, wanted.exec),
        *(wanted.place, wanted.newest, wanted.key, wanted.text),
        since_ms=wanted.since_ms,
        until_ms=wanted.until_ms,
    )


async def job(call: ApiCall) -> ApiReply:
    """One job or task."""
    return ApiReply(job_document(await known_job(call)))


async def explain(call: ApiCall) -> ApiReply:
    """Why a job waits, or why it failed, and which commands would help."""
    explanation = await call.links.client.explain(call.job_id)
    if explanation is None:
        raise unknown_job(call.path["id"])
    return ApiReply(explain_document(explanation))


async def timeline(call: ApiCall) -> ApiReply:
    """The events of a job in order, from the history; if that is incomplete, from the attempts that
    the group still knows."""
    events: list[dict[str, Any]] = []
    before, is_whole = 0, False
    for _ in range(TIMELINE_PARTS_MAX):
        key = call.job_id + before.to_bytes(8, "big")
        call.links.applied, value = await call.links.observer.query("timeline", key)
        part = timeline_document(value)
        events = part["events"] + events
        before, is_whole = part["before"] or 0, part["whole"]
        if not before:
            break
    if events:
        events = [one | {"detail": about(one)} for one in events]
    else:
        events = _attempts(await known_job(call))
    return ApiReply({"events": events, "whole": is_whole})


def _attempts(view: RawJobView) -> list[dict[str, Any]]:
    rows = [
        {
            "ts_ms": one.stamp_ms,
            "event": "requeued",
            "attempt": one.attempt,
            "worker": guid_to_text(one.worker_id) if any(one.worker_id) else "",
            "by": "",
            "detail": " / ".join(filter(None, (cause_text(cause_word(one.cause)), one.detail))),
        }
        for one in view.attempts
    ]
    worker = guid_to_text(view.worker_id) if any(view.worker_id) else ""
    now = {"ts_ms": view.stamp_ms, "event": state_of(view), "attempt": view.attempt}
    return [*rows, now | {"worker": worker, "by": "", "detail": ""}]


async def arrays(call: ApiCall) -> ApiReply:
    """Arrays, by id."""
    page: Page = call.query
    after = id_of(page.after) if page.after else b""
    rows = await call.links.read(list[RawArrayView], "arrays", after, page.limit)
    last = guid_to_text(rows[-1].array_id) if len(rows) == page.limit else None
    return ApiReply({"arrays": [array_document(ArrayView.of(row)) for row in rows], "after": last})


async def array(call: ApiCall) -> ApiReply:
    """One array, with the number of its tasks by state."""
    return ApiReply(array_document(ArrayView.of(await _known_array(call))))


async def failures(call: ApiCall) -> ApiReply:
    """Failed and dead tasks of an array, grouped by cause. `whole` is false if the array is too
    large to examine all of them."""
    found = await _known_array(call)
    groups = FailureGroups()
    is_whole = True
    for state in (FAILED, DEAD):
        wanted = JobFilter(state, found.queue, found.client_id, found.exec_name)
        is_whole &= await collect(call, wanted, groups, found.array_id)
    return ApiReply({"groups": groups.rows(), "whole": is_whole})


async def dead(call: ApiCall) -> ApiReply:
    """Dead jobs, or groups of dead jobs by cause."""
    wanted: DeadQuery = call.query
    base = JobFilter(DEAD, wanted.queue, after=wanted.place, newest=True)
    if wanted.group_by:
        groups = FailureGroups()
        is_whole = await collect(call, base, groups)
        return ApiReply({"groups": groups.rows(), "whole": is_whole})
    page = await job_page(call.links.read, base, wanted.limit)
    rows = [listed_document(view) for view in page.jobs]
    return ApiReply({"jobs": rows, "after": str(page.after) if page.after else None})


class FailureGroups:
    """Groups failed and dead jobs by cause."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str, str, str]] = Counter()
        self._ids: dict[tuple[str, str, str, str], list[str]] = {}
        self._last_ms: dict[tuple[str, str, str, str], int] = {}

    def add(self, view: RawJobView) -> None:
        """Add a job."""
        assert view.end is not None
        cause = cause_word(view.end.cause) or (
            f"signal {view.end.signal}" if view.end.signal else f"exit code {view.end.exit_code}"
        )
        key = (cause, view.end.detail[:200], view.exec_name, view.queue)
        self._counts[key] += 1
        self._last_ms[key] = max(view.stamp_ms, self._last_ms.get(key, 0))
        ids = self._ids.setdefault(key, [])
        if len(ids) < GROUP_IDS_MAX:
            ids.append(guid_to_text(view.job_id))

    def rows(self) -> list[dict[str, Any]]:
        """The groups, largest first."""
        return [
            {
                "cause": key[0],
                "text": cause_text(key[0]),
                "detail": key[1],
                "exec": key[2],
                "queue": key[3],
                "count": count,
                "last_ms": self._last_ms[key],
                "ids": self._ids[key],
            }
            for key, count in self._counts.most_common()
        ]


async def collect(
    call: ApiCall, wanted: JobFilter, groups: FailureGroups, array_id: JobId = b""
) -> bool:
    """Add matching jobs up to a limit; returns whether these were all."""
    looked_at = 0
    while looked_at < FAILURES_LOOKED_AT_MAX:
        page = await job_page(call.links.read, wanted, PAGE_ROWS_MAX)
        for view in page.jobs:
            if view.end is not None and array_id in (b"", view.array_id):
                groups.add(view)
        looked_at += len(page.jobs)
        if not page.after:
            return True
        wanted = msgspec.structs.replace(wanted, after=page.after)
    return False


async def known_job(call: ApiCall) -> RawJobView:
    """The job of the path; raises StateError if it is unknown."""
    view = await call.links.find(RawJobView, "job", call.job_id)
    if view is None:
        raise unknown_job(call.path["id"])
    return view


async def _known_array(call: ApiCall) -> RawArrayView:
    row = await call.links.find(RawArrayView, "array", call.job_id)
    if row is None:
        raise unknown_job(call.path["id"])
    return row


def unknown_job(text: str) -> StateError:
    """The error for an unknown job."""
    return StateError(
        ErrorCode.UNKNOWN_JOB,
        f"no job or array has id {text[:64]}",
        "it was never accepted here, or it ended so long ago that it is forgotten",
    )

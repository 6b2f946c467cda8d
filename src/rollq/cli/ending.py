"""Waits for the end of jobs and arrays of any client by polling. Results are neither taken nor
confirmed: their clients still receive them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass
from typing import Any, Final

from rollq.base.errors import RollqError
from rollq.base.ids import JobId, guid_to_text
from rollq.base.outcomes import CANCELLED, DEAD, ENDED, FAILED, OK
from rollq.cli.failures import EXIT_UNREACHABLE, exit_code_of
from rollq.cli.grid import unknown_job
from rollq.cli.output import remark
from rollq.documents.jobs import SHOWN_APART, array_document, result_document
from rollq.grid.views import RawJobView
from rollq.roles.client.client import Client
from rollq.roles.client.results.result import Result, result_message
from rollq.roles.client.results.views import ArrayView, state_of

PAUSE_FIRST_S: Final = 0.05
PAUSE_MAX_S: Final = 2.0
PAUSE_GROWTH: Final = 1.5
PAUSE_EACH_S: Final = 0.005  # per job that is polled, which limits the query rate
UNKNOWN: Final = "unknown"  # it ended, and its outcome is no longer kept


@dataclass(slots=True, frozen=True)
class End:
    """The end of one job or array."""

    document: dict[str, Any]
    told: str  # as text, without the id

    @property
    def is_ok(self) -> bool:
        """Whether it, or every task of it, succeeded."""
        return bool(self.document["state"] == OK)

    @property
    def line(self) -> str:
        """The end as text, with the id."""
        return f"{self.document['id']} {self.told}"


async def ends_of(client: Client, ids: Iterable[JobId]) -> AsyncGenerator[End, None]:
    """Iterate over jobs and arrays as they end. The poll interval grows. If the leader is lost
    after the first poll, the next one retries.

    Raises:
        StateError: UNKNOWN_JOB, before the first end, if the grid does not know one of them.
    """
    views = {job_id: await _find(client, job_id) for job_id in dict.fromkeys(ids)}
    pause_s = PAUSE_FIRST_S
    while True:
        for job_id, view in list(views.items()):
            end = end_of(job_id, view)
            if end is not None:
                del views[job_id]
                yield end
        if not views:
            return
        await asyncio.sleep(max(pause_s, PAUSE_EACH_S * len(views)))
        pause_s = min(PAUSE_MAX_S, pause_s * PAUSE_GROWTH)
        try:
            for job_id, view in views.items():
                if isinstance(view, ArrayView):
                    views[job_id] = await client.array(job_id)
                else:
                    views[job_id] = await client.jobs.view(job_id)
        except RollqError as error:
            if exit_code_of(error) != EXIT_UNREACHABLE:
                raise
            remark(f"rollq: {error.message}; retrying")


async def _find(client: Client, job_id: JobId) -> ArrayView | RawJobView | None:
    view = await client.array(job_id) or await client.jobs.view(job_id)
    if view is None:
        raise unknown_job(job_id)
    return view


def end_of(job_id: JobId, view: ArrayView | RawJobView | None) -> End | None:
    """The end of a job or array that existed before; None if it has not ended. If its view is gone,
    or its result is not kept, its outcome is unknown."""
    if isinstance(view, ArrayView):
        return _array_end(view)
    if view is not None and view.end is not None:
        result = Result(result_message(view))
        document = result_document(result)
        for name in SHOWN_APART:
            document.pop(name, None)
        told = " ".join(result.ending.split())
        if result.exit_code is not None and "exit code" not in told:
            told += f" (exit code {result.exit_code})"
        return End(document, told)
    if view is not None and (word := state_of(view)) not in ENDED:
        return None
    if view is None or word == OK:
        return _without_result(job_id, UNKNOWN, "unknown: ended, and its result is no longer kept")
    return _without_result(job_id, word, f"{word}: its result is no longer kept")


def _without_result(job_id: JobId, state: str, told: str) -> End:
    return End({"id": guid_to_text(job_id), "state": state, "exit_code": None}, told)


def _array_end(view: ArrayView) -> End | None:
    if view.waiting or view.open:
        return None
    counts = {FAILED: view.failed, DEAD: view.dead, CANCELLED: view.cancelled}
    bad = {word: count for word, count in counts.items() if count}
    told = ", ".join(f"{count} {word}" for word, count in bad.items())
    of_all = f"{view.ok} of {view.task_count} tasks ok"
    document = array_document(view)
    return End(document, f"{document['state']}: {of_all}" + (f", {told}" if told else ""))

"""The data of `rollq top` as one document: current views, and rates since the last query."""

from __future__ import annotations

import time
from typing import Any, Final

import msgspec

from rollq.base.counters import Family
from rollq.base.ids import guid_to_text
from rollq.base.outcomes import ENDED, RUNNING
from rollq.cli.explain import lines_of
from rollq.cli.grid import query_view
from rollq.documents.grid import cluster_document, queue_document, worker_document
from rollq.documents.jobs import explain_document, listed_document
from rollq.documents.rates import Totals, oldest_in, rates_of, totals_in
from rollq.grid.pages import JobFilter, JobPage
from rollq.grid.views import CountsView, RawQueueView, RawWorkerView
from rollq.roles.client.client import Client
from rollq.roles.member.status import ClusterView

ROWS_MAX: Final = 200
SLOWEST_MAX: Final = 50
RUNNING_LOOKED_AT: Final = 500
OUTPUT_LINES: Final = 20


class Looker:
    """Queries a group repeatedly."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._totals: Totals | None = None
        self._at_s = 0.0
        self._ended: dict[str, int] = {}  # by queue
        self._names: dict[str, str] = {}  # of workers, by id

    async def look(self) -> dict[str, Any]:
        """Query the whole document."""
        client = self._client
        cluster = await query_view(client, ClusterView, "cluster")
        counts = await query_view(client, CountsView, "counts")
        # One more than is shown, which tells whether there are more.
        queues = await query_view(client, list[RawQueueView], "queues", b"", ROWS_MAX + 1)
        workers = await query_view(client, list[RawWorkerView], "workers", b"", ROWS_MAX + 1)
        cut = [name for name, rows in (("queues", queues), ("workers", workers)) if rows[ROWS_MAX:]]
        del queues[ROWS_MAX:], workers[ROWS_MAX:]
        self._names = {guid_to_text(one.worker_id): one.name for one in workers}
        families = await query_view(client, list[Family], "metrics")
        running, _ = await self._jobs(JobFilter(RUNNING), RUNNING_LOOKED_AT)
        now_s, totals = time.monotonic(), totals_in(families)
        passed_s = now_s - self._at_s
        oldest = oldest_in(families)
        document: dict[str, Any] = {
            "ts_ms": int(time.time() * 1000),
            "cluster": cluster_document(cluster),
            "jobs": queue_document(counts),
            "rates": rates_of(self._totals, totals, passed_s),
            "queues": [self._queue(queue_document(one), oldest, passed_s) for one in queues],
            "workers": [worker_document(one) for one in workers],
            "slowest": sorted(running, key=lambda one: one["changed_ms"])[:SLOWEST_MAX],
            "cut": cut + ["slowest"] * (len(running) > SLOWEST_MAX),  # lists that go on
        }
        self._totals, self._at_s = totals, now_s
        self._ended = {one["name"]: one["ended"] for one in document["queues"]}
        return document

    async def jobs(self, queue: str, worker: str) -> tuple[list[dict[str, Any]], bool]:
        """The jobs of a queue, newest first; or the jobs of a worker. And whether there may be
        more."""
        if queue:
            return await self._jobs(JobFilter(queue=queue, newest=True), ROWS_MAX)
        running, has_more = await self._jobs(JobFilter(RUNNING), RUNNING_LOOKED_AT)
        return [one for one in running if one.get("worker") == worker], has_more

    async def job(self, job_id: str) -> list[str]:
        """A page of lines about a job: the explanation of its state, and its last output."""
        explanation = await self._client.explain(job_id)
        if explanation is None:
            return [f"job {job_id} is not known any more"]
        lines = [f"job {job_id}", "", *lines_of(explain_document(explanation))]
        for stream in ("stdout", "stderr"):
            text = ""
            parts = self._client.output(job_id, follow=False, stream=stream, tail=OUTPUT_LINES)
            async for part in parts:
                text += part.data.decode(errors="replace")
            if text:
                lines += ["", f"last lines of {stream}:", *text.splitlines()[-OUTPUT_LINES:]]
        return lines

    async def _jobs(self, wanted: JobFilter, limit: int) -> tuple[list[dict[str, Any]], bool]:
        key = msgspec.msgpack.encode(wanted)
        page = await query_view(self._client, JobPage, "jobs", key, limit)
        documents = map(listed_document, page.jobs)
        jobs = [one | {"worker_name": self._names.get(one.get("worker", ""))} for one in documents]
        return jobs, bool(page.after)

    def _queue(
        self, document: dict[str, Any], oldest: dict[str, float], passed_s: float
    ) -> dict[str, Any]:
        """A queue, with the age of its oldest job and its rate of ends. The rate is unknown if
        results expired meanwhile."""
        ended = sum(document[word] for word in ENDED)
        before = self._ended.get(document["name"])
        known = before is not None and passed_s > 0 and ended >= before
        rate = round((ended - (before or 0)) / passed_s, 2) if known else None
        name = document["name"]
        return document | {"ended": ended, "oldest_s": oldest.get(name), "rate": rate}

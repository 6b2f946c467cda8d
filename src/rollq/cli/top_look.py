"""What `rollq top` shows, as one document: views of one moment, and rates since the one before."""

from __future__ import annotations

import time
from typing import Any, Final

import msgspec

from rollq.base.counters import Family
from rollq.base.ids import guid_to_text
from rollq.base.outcomes import ENDED, RUNNING
from rollq.cli.explain import lines_of
from rollq.cli.grid import ask
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
    """Asks a group, again and again."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._totals: Totals | None = None
        self._at_s = 0.0
        self._ended: dict[str, int] = {}  # by queue
        self._names: dict[str, str] = {}  # of workers, by id

    async def look(self) -> dict[str, Any]:
        """All of it, as it is now."""
        client = self._client
        cluster = await ask(client, ClusterView, "cluster")
        counts = await ask(client, CountsView, "counts")
        queues = await ask(client, list[RawQueueView], "queues", b"", ROWS_MAX)
        workers = await ask(client, list[RawWorkerView], "workers", b"", ROWS_MAX)
        self._names = {guid_to_text(one.worker_id): one.name for one in workers}
        families = await ask(client, list[Family], "metrics")
        running = await self._jobs(JobFilter(RUNNING), RUNNING_LOOKED_AT)
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
        }
        self._totals, self._at_s = totals, now_s
        self._ended = {one["name"]: one["ended"] for one in document["queues"]}
        return document

    async def jobs(self, queue: str, worker: str) -> list[dict[str, Any]]:
        """Jobs of a queue, the newest first; or those that a worker has."""
        if queue:
            return await self._jobs(JobFilter(queue=queue, newest=True), ROWS_MAX)
        running = await self._jobs(JobFilter(RUNNING), RUNNING_LOOKED_AT)
        return [one for one in running if one.get("worker") == worker]

    async def job(self, job_id: str) -> list[str]:
        """All that fits a screen about a job: why it stands where it does, and its last words."""
        told = await self._client.explain(job_id)
        if told is None:
            return [f"job {job_id} is not known any more"]
        lines = [f"job {job_id}", "", *lines_of(explain_document(told))]
        for stream in ("stdout", "stderr"):
            text = ""
            parts = self._client.output(job_id, follow=False, stream=stream, tail=OUTPUT_LINES)
            async for part in parts:
                text += part.data.decode(errors="replace")
            if text:
                lines += ["", f"last lines of {stream}:", *text.splitlines()[-OUTPUT_LINES:]]
        return lines

    async def _jobs(self, wanted: JobFilter, limit: int) -> list[dict[str, Any]]:
        key = msgspec.msgpack.encode(wanted)
        page = await ask(self._client, JobPage, "jobs", key, limit)
        documents = map(listed_document, page.jobs)
        return [one | {"worker_name": self._names.get(one.get("worker", ""))} for one in documents]

    def _queue(
        self, document: dict[str, Any], oldest: dict[str, float], passed_s: float
    ) -> dict[str, Any]:
        """A queue, with the age of its oldest and how many of its jobs end a second. Results that
        are forgotten meanwhile make that unknown."""
        ended = sum(document[word] for word in ENDED)
        before = self._ended.get(document["name"])
        known = before is not None and passed_s > 0 and ended >= before
        rate = round((ended - (before or 0)) / passed_s, 2) if known else None
        name = document["name"]
        return document | {"ended": ended, "oldest_s": oldest.get(name), "rate": rate}

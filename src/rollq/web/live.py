"""Live data: the group is polled once a second for all pages of an account together, while any page
is open."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from rollq.base.counters import Family
from rollq.base.errors import NOT_LET_IN_CODES, RollqError
from rollq.base.ids import JobId, guid_to_text
from rollq.documents.grid import cluster_document
from rollq.grid import views
from rollq.roles.client.results.views import state_of
from rollq.roles.member.status import ClusterView
from rollq.web.events import event
from rollq.web.limits import (
    LEADER_S,
    POINTS_MAX,
    POLL_S,
    UNSERVED_MAX,
    VIEWER_EVENTS_MAX,
    WATCHED_JOBS_MAX,
)

if TYPE_CHECKING:
    from rollq.web.links import Links

log = logging.getLogger("rollq.web")

NO_RATES: Final = {"accepted": 0.0, "started": 0.0, "ended": 0.0, "failed": 0.0}


class Viewer:
    """An open page."""

    def __init__(self, job_id: JobId | None) -> None:
        self.job_id = job_id
        self.events: asyncio.Queue[bytes] = asyncio.Queue(VIEWER_EVENTS_MAX)

    def tell(self, piece: bytes) -> None:
        """Queue an event; if the queue is full the oldest is dropped, because newer events replace
        it."""
        if self.events.full():
            self.events.get_nowait()
        self.events.put_nowait(piece)


class Live:
    """Live data for the pages of one account.

    Args:
        links: The connections of the account.
    """

    def __init__(self, links: Links) -> None:
        self._links = links
        self._viewers: set[Viewer] = set()
        self._points: deque[dict[str, Any]] = deque(maxlen=POINTS_MAX)
        self._totals: tuple[str, float, dict[str, float]] | None = None  # member, time, counters
        self._document: dict[str, Any] = {}
        self._led: dict[str, Any] = {}  # the last response of the leader
        self._troubles: dict[str, str] = {}  # by poll: why it failed, if the last one did
        self._number = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._seen: dict[JobId, tuple[object, ...]] = {}

    @property
    def viewers(self) -> int:
        """The number of open pages."""
        return len(self._viewers)

    async def overview(self) -> dict[str, Any]:
        """The state of the group: the last poll if pages are open, else a new one.

        Raises:
            RollqError: no member responds, or access is denied.
        """
        if not self._viewers or not self._document:
            await asyncio.gather(self._poll_member(), self._poll_leader())
        return self._document | self._led

    async def events(self, job_id: JobId | None) -> AsyncGenerator[bytes, None]:
        """Events for one page until it closes, optionally with changes of one job."""
        viewer = Viewer(job_id)
        self._viewers.add(viewer)
        if not self._tasks:
            looks = (
                self._keep("member", POLL_S, self._poll),
                self._keep("leader", LEADER_S, self._poll_leader),
            )
            self._tasks = [asyncio.create_task(one) for one in looks]
        try:
            if self._document:
                yield event("overview", self._document | self._led, self._number)
            for why in list(self._troubles.values()):
                yield event("gone", {"why": why})
            while True:
                yield await viewer.events.get()
        finally:
            self._viewers.discard(viewer)
            if not self._viewers:
                self.stop()

    def continue_from(self, other: Live) -> None:
        """Continue the charts of replaced connections."""
        self._points.extend(other._points)

    def stop(self) -> None:
        """Stop polling."""
        for task in self._tasks:
            task.cancel()
        self._tasks = []
        self._seen.clear()
        self._troubles.clear()
        self._totals = None

    async def _keep(self, name: str, every_s: float, look: Callable[[], Awaitable[str]]) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                why = await look()
            except RollqError as error:
                why = error.message
                if error.code in NOT_LET_IN_CODES:  # stop until the next login
                    self._tell(event("login", {"why": why}))
            except Exception as error:  # a bug: later polls may not meet it
                log.exception("a bug: the group cannot be polled")
                why = repr(error)
            self._note(name, why)
            await asyncio.sleep(max(every_s / 10, every_s - (loop.time() - began)))

    def _note(self, name: str, why: str) -> None:
        """Tell pages of a poll that failed, every time: they take silence for a lost link. Data is
        back when no poll fails any more, since one that succeeds says nothing of the other."""
        failed_before = self._troubles.pop(name, "")
        if why:
            self._troubles[name] = why
            self._tell(event("gone", {"why": why}))
        elif failed_before and not self._troubles:
            cluster = self._led.get("cluster") or {}
            self._tell(event("back", {"leader": cluster.get("leader", "")}))

    async def _poll(self) -> str:
        """Poll for all pages; returns what the member lacks."""
        lacks = await self._poll_member()
        self._number += 1
        self._tell(event("overview", self._document | self._led, self._number))
        for job_id in self._watched():
            await self._poll_job(job_id)
        return lacks

    async def _poll_member(self) -> str:
        """Poll what every member knows; returns what it lacks."""
        families = {one.name: one for one in await self._links.read(list[Family], "metrics")}
        counts = counts_in(families)
        rates = self._rates(families)
        point = {"t": int(time.time() * 1000), **rates}
        point |= {name: counts[name] for name in ("waiting", "running")}
        if self._points and point["t"] - self._points[-1]["t"] < 500 * POLL_S:
            self._points.pop()  # an additional poll within the interval
        self._points.append(point)
        oldest_s = _values(families, "rollq_queue_oldest_seconds")
        connected = _values(families, "rollq_workers_connected") or _values(
            families, "rollq_workers"
        )
        self._document = {
            "counts": counts,
            "rates": rates,
            "history": list(self._points),
            "oldest_wait_ms": int(1000 * max(oldest_s, default=0)),
            "workers": {
                "connected": int(sum(connected)),
                "slots": int(sum(_values(families, "rollq_worker_slots"))),
                "busy": int(sum(_values(families, "rollq_worker_slots_used"))),
                "running": int(sum(_values(families, "rollq_attempts_running"))),
                "draining": int(sum(_values(families, "rollq_workers_drained"))),
            },
            "member": self._links.member,
            "applied": self._links.applied,
        }
        has_leader = _values(families, "rollq_raft_has_leader") != [0.0]
        return "" if has_leader else "there is no leader"

    async def _poll_leader(self) -> str:
        """Poll what only the leader knows; returns why it does not respond. Without a leader the
        rest is shown without it."""
        links = self._links
        try:
            cluster = await links.ask(ClusterView, "cluster", timeout_s=LEADER_S)
            kind = list[views.UnservedView]
            unserved = await links.ask(kind, "unserved", limit=UNSERVED_MAX, timeout_s=LEADER_S)
        except RollqError as error:
            self._led = {"cluster": None, "alarms": [], "unserved": []} | self._led
            return error.message
        described = cluster_document(cluster)
        self._led = {
            "cluster": described,
            "alarms": described["alarms"],
            "unserved": [msgspec.structs.asdict(one) for one in unserved],
        }
        return ""

    def _rates(self, families: dict[str, Family]) -> dict[str, float]:
        """Rates per second since the last poll of the same member."""
        outcomes = _by_label(families, "rollq_jobs_ended_total")
        totals = {
            "accepted": sum(_values(families, "rollq_jobs_accepted_total")),
            "started": sum(_values(families, "rollq_attempts_started_total")),
            "ended": sum(outcomes.values()),
            "failed": outcomes.get("failed", 0.0) + outcomes.get("dead", 0.0),
        }
        now = time.monotonic()
        last, self._totals = self._totals, (self._links.member, now, totals)
        if last is None or last[0] != self._links.member or now <= last[1]:
            return dict(NO_RATES)
        passed_s = now - last[1]
        grown = {name: totals[name] - last[2][name] for name in totals}
        if min(grown.values()) < 0:  # the member was restarted
            return dict(NO_RATES)
        return {name: round(value / passed_s, 3) for name, value in grown.items()}

    def _watched(self) -> list[JobId]:
        watched = {one.job_id for one in self._viewers if one.job_id is not None}
        return sorted(watched)[:WATCHED_JOBS_MAX]

    async def _poll_job(self, job_id: JobId) -> None:
        view = await self._links.find(views.RawJobView, "job", job_id)
        seen: tuple[object, ...] = (None,)
        document: dict[str, Any] = {"id": guid_to_text(job_id), "state": "", "attempt": 0}
        if view is not None:
            seen = (view.state, view.attempt, view.stamp_ms, view.cancel_requested)
            document |= {"state": state_of(view), "attempt": view.attempt}
        if self._seen.get(job_id) != seen:
            self._seen[job_id] = seen
            self._tell(event("job", document), job_id)

    def _tell(self, piece: bytes, job_id: JobId | None = None) -> None:
        for viewer in self._viewers:
            if job_id is None or viewer.job_id == job_id:
                viewer.tell(piece)


def counts_in(families: dict[str, Family]) -> dict[str, int]:
    """The number of jobs by state, with the state names for users."""
    by_state = {name: int(n) for name, n in _by_label(families, "rollq_jobs").items()}
    failed = int(sum(_values(families, "rollq_jobs_failed")))
    return {
        "blocked": by_state.get("blocked", 0),
        "waiting": by_state.get("waiting", 0),
        "delayed": by_state.get("delayed", 0),
        "running": by_state.get("running", 0),
        "ok": by_state.get("done", 0) - failed,
        "failed": failed,
        "dead": by_state.get("dead", 0),
        "cancelled": by_state.get("cancelled", 0),
    }


def _values(families: dict[str, Family], name: str) -> list[float]:
    family = families.get(name)
    return [] if family is None else [sample.value for sample in family.samples]


def _by_label(families: dict[str, Family], name: str) -> dict[str, float]:
    family = families.get(name)
    samples: Iterable[Any] = () if family is None else family.samples
    return {sample.labels[0]: sample.value for sample in samples}

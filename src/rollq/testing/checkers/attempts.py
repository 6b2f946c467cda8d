"""Checker of attempts: a job dies only of attempts that it had."""

from __future__ import annotations

from rollq.base.ids import JobId
from rollq.base.jobs import AttemptRef
from rollq.grid import events as facts
from rollq.grid.commands import Cause
from rollq.grid.effects import Applied
from rollq.grid.events import Event
from rollq.grid.state import GridState
from rollq.testing.checkers.base import LogChecker
from rollq.testing.checkers.sessions import Runs
from rollq.testing.sim_member import SimMember

LOST = frozenset({facts.JOB_TIMED_OUT, facts.JOB_WORKER_LOST, facts.JOB_NACKED, facts.JOB_RETRIED})
# Causes after which the group cannot know whether the attempt had started.
UNKNOWN = frozenset({Cause.LEASE_LOST, Cause.WORKER_DOWN, Cause.WORKER_RESTARTED})


class Starts(LogChecker):
    """A job dies only after as many attempts as it may have. An attempt counts if a worker tried to
    start it or if no member can know; one that was given back does not."""

    name = "only starts count as attempts"

    def __init__(self, runs: Runs) -> None:
        super().__init__()
        self._runs = runs
        self._counted: dict[JobId, int] = {}  # since the last redrive

    def on_entry(self, member: SimMember, applied: Applied, state: GridState) -> None:
        for event in facts.each_of(applied.events):
            if event.kind in (facts.JOB_REDRIVEN, facts.JOB_FORGOTTEN, facts.JOB_PURGED):
                self._counted.pop(event.job_id, None)
            elif event.kind in LOST:
                self._count(event)
            elif event.kind == facts.JOB_DEAD and event.worker_id:
                self._count(event)
                self._check(event, state)

    def _count(self, event: Event) -> None:
        ref = AttemptRef(event.job_id, event.attempt, event.fence)
        if event.cause in UNKNOWN or self._runs.has_started(ref):
            self._counted[event.job_id] = self._counted.get(event.job_id, 0) + 1

    def _check(self, event: Event, state: GridState) -> None:
        record = state.jobs.get(event.job_id)
        if record is None or record.end is None:
            return  # redriven or forgotten in the same entry
        limit = record.options.max_attempts or state.settings.max_attempts
        counted = self._counted.get(event.job_id, 0)
        if counted < limit:
            self.fail(
                f"job {event.job_id.hex()} died at attempt {event.attempt}, after {counted} "
                f"attempts that count of {limit}: {event.detail}"
            )

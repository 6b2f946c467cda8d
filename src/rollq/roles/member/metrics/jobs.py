"""Job counters since this process began, counted from applied entries.

Every member applies the same entries, so every member counts the same: the counts of one are those
of the group. Entries replayed at the start do not count.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rollq.base.counters import JOB_MS, Histogram
from rollq.base.jobs import Status
from rollq.grid.commands import Cause
from rollq.grid.events import (
    ARRAY_ENQUEUED,
    EVENT_TYPES,
    JOB_ACKED,
    JOB_ASSIGNED,
    JOB_BLOCKED,
    JOB_CANCELLED,
    JOB_DEAD,
    JOB_DELAYED,
    JOB_ENQUEUED,
    JOB_EXPIRED,
    JOB_NACKED,
    JOB_RETRIED,
    JOB_TIMED_OUT,
    JOB_WORKER_LOST,
    Event,
)

ACCEPTED: Final = (JOB_ENQUEUED, JOB_DELAYED, JOB_BLOCKED, ARRAY_ENQUEUED)


class JobCounters:
    """Job counters of one member.

    Attributes:
        facts: Events, by kind.
        failed: Results whose program failed.
        dead: Dead-lettered jobs, by `Cause`.
        run_ms: Run times of attempts with a result, as reported by workers.
    """

    __slots__ = ("dead", "facts", "failed", "run_ms")

    def __init__(self) -> None:
        self.facts: dict[str, int] = dict.fromkeys(EVENT_TYPES, 0)
        self.failed = 0
        self.dead: dict[int, int] = dict.fromkeys(Cause, 0)
        self.run_ms = Histogram(JOB_MS)

    def observe(self, happened: Iterable[Event]) -> None:
        """Count the events of an applied entry: one addition for each event, however many jobs it
        covers."""
        facts = self.facts
        for event in happened:
            kind, run = event.kind, event.run
            if run is not None:
                count = run.count
            else:  # an event of a whole array covers all its tasks
                count = event.count if event.array_id and not event.job_id else 1
            facts[kind] = facts.get(kind, 0) + count
            if kind == JOB_ACKED:
                if event.status == Status.FAILED:
                    self.failed += count
                if run is not None and run.run_ms:
                    self.run_ms.add_all(run.run_ms)
                else:
                    self.run_ms.add(event.run_ms, count)
            elif kind in (JOB_DEAD, JOB_EXPIRED):
                self.dead[event.cause] = self.dead.get(event.cause, 0) + count

    @property
    def accepted(self) -> int:
        """Accepted jobs and tasks."""
        facts = self.facts
        return sum(facts[kind] for kind in ACCEPTED)

    @property
    def started(self) -> int:
        """Attempts assigned to workers."""
        return self.facts[JOB_ASSIGNED]

    def ended(self) -> dict[str, float]:
        """Ended jobs and tasks by outcome. Each end counts once, so a dead job that is redriven
        counts again."""
        facts = self.facts
        return {
            "succeeded": facts[JOB_ACKED] - self.failed,
            "failed": self.failed,
            "dead": facts[JOB_DEAD] + facts[JOB_EXPIRED],
            "cancelled": facts[JOB_CANCELLED],
        }

    def retried(self) -> dict[str, float]:
        """Lost attempts that are retried, by cause."""
        facts = self.facts
        return {
            "lease_lost": facts[JOB_TIMED_OUT],
            "worker_lost": facts[JOB_WORKER_LOST],
            "given_back": facts[JOB_NACKED],
            "failed": facts[JOB_RETRIED],
        }

"""What became of jobs since this process began, counted from what it applied.

Every member applies the same, so every member counts the same: the numbers of one are those of the
group. What a start reads back from disk does not count.
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
    """Numbers of one member.

    Attributes:
        facts: How many of each kind.
        failed: Of the results: their program did not end well.
        dead: By `Cause`: jobs that came to the dead letters.
        run_ms: How long the attempts ran that gave results, as their workers say.
    """

    __slots__ = ("dead", "facts", "failed", "run_ms")

    def __init__(self) -> None:
        self.facts: dict[str, int] = dict.fromkeys(EVENT_TYPES, 0)
        self.failed = 0
        self.dead: dict[int, int] = dict.fromkeys(Cause, 0)
        self.run_ms = Histogram(JOB_MS)

    def observe(self, happened: Iterable[Event]) -> None:
        """Count what became true by one applied entry: one addition an event, however many jobs it
        stands for."""
        facts = self.facts
        for event in happened:
            kind, run = event.kind, event.run
            if run is not None:
                count = run.count
            else:  # of an array as a whole: for as many tasks as it says
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
        """Jobs and tasks that were accepted."""
        facts = self.facts
        return sum(facts[kind] for kind in ACCEPTED)

    @property
    def started(self) -> int:
        """Attempts that were given to workers."""
        return self.facts[JOB_ASSIGNED]

    def ended(self) -> dict[str, float]:
        """Jobs and tasks that ended, by how; no job is in two of them at once, but one that was
        dead and is run again ends twice."""
        facts = self.facts
        return {
            "succeeded": facts[JOB_ACKED] - self.failed,
            "failed": self.failed,
            "dead": facts[JOB_DEAD] + facts[JOB_EXPIRED],
            "cancelled": facts[JOB_CANCELLED],
        }

    def retried(self) -> dict[str, float]:
        """Attempts that came to nothing and are made again, by why."""
        facts = self.facts
        return {
            "lease_lost": facts[JOB_TIMED_OUT],
            "worker_lost": facts[JOB_WORKER_LOST],
            "given_back": facts[JOB_NACKED],
            "failed": facts[JOB_RETRIED],
        }

"""Events that explain changes in the charts of a report: leader changes, lost workers, paused
queues.

The history has no leader changes. But every worker opens a new session with a new leader, so a
leader change is where all workers of a group do that within seconds without having left. A single
worker may just have lost its connection.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from rollq.base.jobs import Cause
from rollq.grid.events import QUEUE_PAUSED, QUEUE_RESUMED, WORKER_CLOSED
from rollq.spark.asking.busy import WorkerUptime
from rollq.spark.asking.periods import Period, PeriodQueries
from rollq.spark.report.model import Incident

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BURST_MS: Final = 15_000  # events that are closer together have one cause
GONE_MS_MAX: Final = 60_000  # a worker that died with the leader is given up within this time
NAMED_MAX: Final = 3
INCIDENTS_MAX: Final = 40
_WEIGHTS: Final = ("leader", "paused", "lost", "again")  # by importance


class Incidents(PeriodQueries):
    """Queries about one period."""

    def __init__(
        self, spark: SparkSession, period: Period, sessions: Sequence[WorkerUptime]
    ) -> None:
        super().__init__(spark, period)
        self._sessions = sessions

    def found(self) -> tuple[list[Incident], int]:
        """The most important incidents in order of time, and how many were left out."""
        back = [one for one in reconnections(self._sessions) if one.at_ms >= self.period.first_ms]
        every = [*back, *self._lost(), *self._pauses()]
        every.sort(key=lambda one: (_WEIGHTS.index(one.kind), one.at_ms))
        shown = sorted(every[:INCIDENTS_MAX], key=lambda one: one.at_ms)
        return shown, len(every) - len(shown)

    def _lost(self) -> list[Incident]:
        """Workers that were lost while they held jobs: given up by the leader, or started again
        before that, without these jobs."""
        names = {one.worker_id: one.name for one in self._sessions}
        rows = self.rows(f"""
            SELECT unix_millis(_ts), worker_id, sum(if(type = '{WORKER_CLOSED}', `count`, 1))
            FROM events
            WHERE (type = '{WORKER_CLOSED}' AND `count` > 0
                   OR cause = {int(Cause.WORKER_RESTARTED)}) AND {self.within("_ts")}
            GROUP BY _ts, worker_id ORDER BY _ts, worker_id LIMIT {100 * INCIDENTS_MAX}
        """)
        found = [
            Incident(at, "lost", names.get(worker, worker[:8]), count=int(held))
            for at, worker, held in rows
        ]
        return [
            Incident(
                burst[0].at_ms,
                "lost",
                *_named([one.what for one in burst]),
                count=sum(one.count for one in burst),
            )
            for burst in _bursts(found)
        ]

    def _pauses(self) -> list[Incident]:
        """Pauses of queues."""
        rows = self.rows(f"""
            SELECT at, queue, until
            FROM (SELECT type, queue, unix_millis(_ts) AS at,
                         unix_millis(lead(_ts) OVER (PARTITION BY _group, queue
                                                     ORDER BY _index, _ordinal)) AS until
                  FROM events WHERE type IN ('{QUEUE_PAUSED}', '{QUEUE_RESUMED}'))
            WHERE type = '{QUEUE_PAUSED}' AND at <= {self.period.last_ms}
              AND coalesce(until, {self.period.last_ms}) >= {self.period.first_ms}
            ORDER BY at, queue LIMIT {100 * INCIDENTS_MAX}
        """)
        return [Incident(at, "paused", queue or "", until_ms=until) for at, queue, until in rows]


def reconnections(sessions: Sequence[WorkerUptime]) -> Iterator[Incident]:
    """Sessions that were reopened without having been closed: leader changes, and reconnections."""
    by_group = attrgetter("group")
    for _, own in groupby(sorted(sessions, key=by_group), by_group):
        mine = sorted(own, key=attrgetter("worker_id", "up_ms"))
        again = sorted(
            (
                new
                for old, new in pairwise(mine)
                if old.worker_id == new.worker_id and old.down_ms == new.up_ms
            ),
            key=attrgetter("up_ms", "name"),
        )
        moments = [Incident(one.up_ms, "again", one.worker_id) for one in again]
        names = {one.worker_id: one.name for one in again}
        for burst in _bursts(moments):
            at, back = burst[0].at_ms, {one.what for one in burst}
            until = burst[-1].at_ms + GONE_MS_MAX
            missing = {
                one.worker_id
                for one in mine
                if one.up_ms < at <= one.down_ms and one.worker_id not in back
            }
            gone = {one.worker_id for one in mine if at <= one.down_ms <= until}
            if len(back) > 1 and missing <= gone:
                yield Incident(at, "leader", count=len(back))
            else:
                yield Incident(at, "again", *_named([names[one.what] for one in burst]))


def _bursts(found: Sequence[Incident]) -> Iterator[list[Incident]]:
    """Group incidents that closely follow each other."""
    burst: list[Incident] = []
    for one in found:
        if burst and one.at_ms - burst[-1].at_ms > BURST_MS:
            yield burst
            burst = []
        burst.append(one)
    if burst:
        yield burst


def _named(names: Sequence[str]) -> tuple[str, int]:
    """The first names, and how many more there are."""
    every = list(dict.fromkeys(names))
    return ", ".join(every[:NAMED_MAX]), max(0, len(every) - NAMED_MAX)

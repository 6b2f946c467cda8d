"""Job counts of a period by queue and by client, and of the preceding period."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from rollq.grid.events import (
    ARRAY_ENQUEUED,
    JOB_ACKED,
    JOB_CANCELLED,
    JOB_DEAD,
    JOB_EXPIRED,
)
from rollq.spark.asking.periods import PeriodQueries
from rollq.spark.pipeline.silver import ACCEPTED, REQUEUES, quoted
from rollq.spark.report.model import EarlierFigures, ExecRow, Percentiles, ShareRow
from rollq.spark.report.scales import HOUR

SHARES_MAX: Final = 12
EXECS_MAX: Final = 15
# The number of jobs in an event: several tasks of an array, or one job.
NUMBER: Final = "if(job_id IS NULL, `count`, 1)"
BEGINS: Final = (*ACCEPTED, ARRAY_ENQUEUED)
# Counts by outcome, in the order of the fields of `Slot`.
COUNTS: Final = f"""
    sum(if(type IN ({quoted(BEGINS)}), {NUMBER}, 0)),
    count_if(type = '{JOB_ACKED}' AND status = 0),
    count_if(type = '{JOB_ACKED}' AND status <> 0),
    sum(if(type IN ({quoted((JOB_DEAD, JOB_EXPIRED))}), {NUMBER}, 0)),
    sum(if(type = '{JOB_CANCELLED}', {NUMBER}, 0)),
    count_if(type IN ({quoted(REQUEUES)}))"""
_COUNTED: Final = quoted((*BEGINS, JOB_ACKED, JOB_DEAD, JOB_EXPIRED, JOB_CANCELLED, *REQUEUES))
# Value in gold, and column.
_DIMENSIONS: Final = {"queue": "queue", "client": "client_id", "exec": "exec"}


class Shares(PeriodQueries):
    """Queries about one period."""

    def by(self, dimension: str) -> tuple[list[ShareRow], int]:
        """By `queue` or `client`: those with most jobs, and how many more there are."""
        known = self._every(dimension)
        known.sort(key=lambda row: (-row.submitted, row.name))
        return known[:SHARES_MAX], max(0, len(known) - SHARES_MAX)

    def execs(self) -> tuple[list[ExecRow], int]:
        """The programs of what ended, the slowest first, and how many more there are."""
        known = [_exec_row(row) for row in self._every("exec")]
        ended = [row for row in known if row.jobs or row.run]
        ended.sort(key=lambda row: (-row.run.p95 if row.run else 1.0, row.exec_name))
        return ended[:EXECS_MAX], max(0, len(ended) - EXECS_MAX)

    def _every(self, dimension: str) -> list[ShareRow]:
        column = _DIMENSIONS[dimension]
        if self.period.is_fine:
            counts = self.rows(f"""
                SELECT coalesce({column}, ''), {COUNTS} FROM events
                WHERE {self.within("_ts")} AND type IN ({_COUNTED}) GROUP BY 1
            """)
        else:
            counts = self.rows(f"""
                SELECT coalesce(name, ''), sum(submitted), sum(succeeded), sum(failed), sum(dead),
                       sum(cancelled), sum(retried)
                FROM hourly WHERE dimension = '{dimension}' AND {self.within("hour", HOUR)}
                GROUP BY 1
            """)
        times = self.times(f"coalesce({column}, '')")
        return [
            ShareRow(name, *_counts(six), times.get((name, "wait")), times.get((name, "run")))
            for name, *six in counts
            if any(six)
        ]

    def times(self, name: str) -> dict[tuple[str, str], Percentiles]:
        """Exact percentiles of wait and run times by name, as in gold. All attempts with a result
        count."""
        three = ", ".join(
            f"min(if(upto * 100 >= total * {percent}, value, NULL))" for percent in (50, 95, 99)
        )
        one = "PARTITION BY name, metric"
        rows = self.rows(f"""
            SELECT name, metric, {three}
            FROM (SELECT name, metric, value, sum(n) OVER ({one} ORDER BY value) AS upto,
                         sum(n) OVER ({one}) AS total
                  FROM (SELECT {name} AS name, 'wait' AS metric, wait_ms AS value, count(*) AS n
                        FROM attempts
                        WHERE {self.within("assigned_at")} AND wait_ms IS NOT NULL GROUP BY 1, 3
                        UNION ALL
                        SELECT {name}, 'run', run_ms, count(*) FROM attempts
                        WHERE {self.within("ended_at")} AND run_ms IS NOT NULL GROUP BY 1, 3))
            GROUP BY name, metric
        """)
        return {(row[0], row[1]): Percentiles(*map(float, row[2:])) for row in rows}

    def earlier(self) -> EarlierFigures:
        """Totals, for the comparison with the following period."""
        (counts,) = self.rows(f"""
            SELECT {COUNTS} FROM events WHERE {self.within("_ts")} AND type IN ({_COUNTED})
        """)
        times = self.times("''")
        return EarlierFigures(
            self.period.first_ms,
            self.period.last_ms,
            *_counts(counts),
            times.get(("", "wait")),
            times.get(("", "run")),
        )


def _exec_row(row: ShareRow) -> ExecRow:
    ended = row.succeeded + row.failed + row.dead + row.cancelled
    return ExecRow(row.name, ended, row.run, row.wait, row.failed, row.dead, row.retried)


def _counts(values: Sequence[Any]) -> tuple[int, int, int, int, int, int]:
    submitted, succeeded, failed, dead, cancelled, retried = (int(one or 0) for one in values)
    return submitted, succeeded, failed, dead, cancelled, retried

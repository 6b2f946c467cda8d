"""The data of a report, queried from the tables of the pipeline. Spark aggregates; the result is a
few hundred plain rows, whatever the size of the tables.

A period of days uses gold's hours. A short period would be a single column: there the same figures
are computed from silver, in smaller slots.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from rollq.grid.events import (
    JOB_ACKED,
    JOB_CANCELLED,
    JOB_DEAD,
    JOB_EXPIRED,
    JOB_REDRIVEN,
)
from rollq.spark.asking.busy import Busy
from rollq.spark.asking.incidents import Incidents
from rollq.spark.asking.periods import Period, PeriodQueries
from rollq.spark.asking.shares import BEGINS, COUNTS, NUMBER, Shares
from rollq.spark.asking.tales import stories
from rollq.spark.pipeline import crowds
from rollq.spark.pipeline.dialect import SPARK
from rollq.spark.pipeline.silver import CAUSES, MARKS, UNFINISHED, after_of, quoted
from rollq.spark.report.model import (
    CauseRow,
    CheckRow,
    Depth,
    Percentiles,
    Report,
    ReportSpan,
    Slot,
)
from rollq.spark.report.scales import HOUR, MINUTE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUESTIONS_AT_ONCE: Final = 4
EXECS_NAMED: Final = 3
DEPTH_POINTS_MAX: Final = 240
# Events that are not about a job, or come long after its end, do not extend the period.
_ASIDE: Final = (
    *("worker_up", "worker_down", "client_open", "confirm", "forget", "settings"),
    *("queue_pause", "queue_resume", "cache_put", "cache_remove", "adopt", "purge"),
)
_ENDS: Final = (JOB_ACKED, JOB_DEAD, JOB_EXPIRED, JOB_CANCELLED)


def gather(
    spark: SparkSession,
    *,
    source: str,
    made_ms: int,
    last_ms: int = 0,
    job_id: str = "",
    compares: bool = False,
) -> Report:
    """Collect the data of the page. The views of `queries.add_views` must exist.

    Args:
        spark: the session with the views.
        source: the location of the tables, shown on the page.
        made_ms: the current time.
        last_ms: length of the period, which ends with the last event; 0: all.
        job_id: the job to show in detail; empty: some notable jobs are chosen.
        compares: whether to include the preceding period of the same length.

    Raises:
        StateError: UNKNOWN_JOB if the tables do not have the job.
    """
    spans, period = _spans(spark, last_ms)
    if period is None:
        return Report(made_ms=made_ms, source=source, spans=spans)
    asked, shares = _Figures(spark, period), Shares(spark, period)
    busy = Busy(spark, period)
    # Most of the time of a query is planning, which is single-threaded: run several concurrently.
    with ThreadPoolExecutor(QUESTIONS_AT_ONCE) as pool:
        told = pool.submit(stories, spark, period.bounds_ms, job_id, busy.worker_names())
        depth, execs = pool.submit(asked.depth), pool.submit(shares.execs)
        times, moved = pool.submit(shares.times, "''"), pool.submit(asked.bytes_moved)
        queues, clients = pool.submit(shares.by, "queue"), pool.submit(shares.by, "client")
        incidents = pool.submit(Incidents(spark, period, busy.sessions).found)
        before = pool.submit(Shares(spark, period.before).earlier) if compares else None
        retries, dead = pool.submit(asked.retries), pool.submit(asked.dead)
        slots, heat = pool.submit(asked.slots), pool.submit(busy.heat)
        carried, checks = pool.submit(asked.carried), pool.submit(asked.checks)
    return Report(
        made_ms=made_ms,
        source=source,
        spans=spans,
        first_ms=period.first_ms,
        last_ms=period.last_ms,
        slot_ms=period.slot_ms,
        slots=slots.result(),
        wait=times.result().get(("", "wait")),
        run=times.result().get(("", "run")),
        depth_ms=depth.result()[0],
        depth=depth.result()[1],
        heat=heat.result(),
        retries=retries.result(),
        dead=dead.result(),
        execs=execs.result()[0],
        execs_left_out=execs.result()[1],
        stories=told.result(),
        bytes_moved=moved.result()[0],
        cache_hit_bytes=moved.result()[1],
        cache_miss_bytes=moved.result()[2],
        open_before=carried.result()[0],
        redriven=carried.result()[1],
        checks=checks.result(),
        incidents=incidents.result()[0],
        incidents_left_out=incidents.result()[1],
        queues=queues.result()[0],
        queues_left_out=queues.result()[1],
        clients=clients.result()[0],
        clients_left_out=clients.result()[1],
        earlier=before.result() if before else None,
    )


def _spans(spark: SparkSession, last_ms: int) -> tuple[list[ReportSpan], Period | None]:
    aside = ", ".join(f"'{kind}'" for kind in _ASIDE)
    rows = spark.sql(f"""
        SELECT coalesce(_group, ''), min(_index), max(_index), count(*),
               min(unix_millis(_ts)) FILTER (WHERE type NOT IN ({aside})),
               max(unix_millis(_ts)) FILTER (WHERE type NOT IN ({aside}))
        FROM events GROUP BY 1 ORDER BY 1
    """).collect()
    spans = [ReportSpan(*row[:4]) for row in rows]
    known = [(row[4], row[5]) for row in rows if row[4] is not None]
    if not known:
        return spans, None
    first, last = min(one for one, _ in known), max(one for _, one in known)
    return spans, Period.of(max(first, last - last_ms) if last_ms else first, last)


class _Figures(PeriodQueries):
    """Queries about one period."""

    def slots(self) -> list[Slot]:
        """Job counts and percentiles by slot."""
        step = self.period.slot_ms
        counts = self._fine_counts() if self.period.is_fine else self._gold_counts()
        return [counts.get(start) or Slot(start) for start in self.period.starts(step)]

    def _gold_counts(self) -> dict[int, Slot]:
        """From gold. Of several hours the maximum is used, as percentiles do not add up."""
        rows = self.rows(f"""
            SELECT {self.slot("hour")}, sum(submitted), sum(succeeded), sum(failed), sum(dead),
                   sum(cancelled), sum(retried),
                   max(wait_ms_p50), max(wait_ms_p95), max(wait_ms_p99),
                   max(run_ms_p50), max(run_ms_p95), max(run_ms_p99)
            FROM hourly
            WHERE dimension = 'all' AND {self.within("hour", HOUR)} GROUP BY 1
        """)
        return {
            row[0]: _slot(row[:7], _percentiles(row[7:10]), _percentiles(row[10:13]))
            for row in rows
        }

    def _fine_counts(self) -> dict[int, Slot]:
        facts = self.rows(f"""
            SELECT {self.slot("_ts")}, {COUNTS} FROM events WHERE {self.within("_ts")} GROUP BY 1
        """)
        waits, runs = self._times("assigned_at", "wait_ms"), self._times("ended_at", "run_ms")
        return {row[0]: _slot(row, waits.get(row[0]), runs.get(row[0])) for row in facts}

    def _times(self, moment: str, value: str) -> dict[int, Percentiles | None]:
        """Exact percentiles by slot, as in gold."""
        three = ", ".join(SPARK.percentile("every", percent) for percent in (50, 95, 99))
        rows = self.rows(f"""
            SELECT slot, {three}
            FROM (SELECT {self.slot(moment)} AS slot, sort_array(collect_list({value})) AS every
                  FROM attempts
                  WHERE {self.within(moment)} AND {value} IS NOT NULL GROUP BY 1)
        """)
        return {row[0]: _percentiles(row[1:]) for row in rows}

    def carried(self) -> tuple[int, int]:
        """Jobs open at the start of the period, and redrives in it. Together with the submitted
        jobs they equal those that ended or are open at its end."""
        begins, ends = quoted((*BEGINS, JOB_REDRIVEN)), quoted(_ENDS)
        first = f"timestamp_millis({self.period.first_ms})"
        ((before, redriven),) = self.rows(f"""
            SELECT sum(if(_ts < {first}, if(type IN ({begins}), 1, -1) * {NUMBER}, 0)),
                   sum(if(type = '{JOB_REDRIVEN}' AND {self.within("_ts")}, {NUMBER}, 0))
            FROM events WHERE type IN ({begins}, {ends})
        """)
        return int(before or 0), int(redriven or 0)

    def depth(self) -> tuple[int, list[Depth]]:
        """Waiting and running jobs: the last value of a slot, or the maximum of its minutes."""
        length = self.period.last_ms - self.period.first_ms
        if length < 30 * MINUTE:
            return self.period.slot_ms, list(self._fine_depth())
        minutes = max(1, -(-length // (MINUTE * DEPTH_POINTS_MAX)))
        step = minutes * MINUTE
        return step, list(self._gold_depth(step))

    def _gold_depth(self, step: int) -> Iterator[Depth]:
        """From gold, which has a row for each change: a value holds until the next row."""
        starts = self.period.starts(step)
        rows = self.rows(f"""
            WITH steps AS (
                SELECT minute, waiting - lag(waiting, 1, 0L) OVER of_queue AS waits,
                       running - lag(running, 1, 0L) OVER of_queue AS runs
                FROM depth WHERE minute <= timestamp_millis({self.period.last_ms})
                WINDOW of_queue AS (PARTITION BY `group`, queue ORDER BY minute)),
            levels AS (
                SELECT minute, sum(sum(waits)) OVER (ORDER BY minute) AS waiting,
                       sum(sum(runs)) OVER (ORDER BY minute) AS running
                FROM steps GROUP BY minute)
            SELECT greatest({self.slot("minute", step)}, {starts.start - step}L),
                   max(waiting), max(running), max_by(waiting, minute), max_by(running, minute),
                   unix_millis(min(minute))
            FROM levels GROUP BY 1
        """)
        known = {row[0]: row[1:] for row in rows}
        waiting, running = known.get(starts.start - step, (0,) * 5)[2:4]
        for start in starts:
            most = (waiting, running)
            if start in known:
                *levels, waiting, running, first = known[start]
                # The carried-over level was there at the end of the slot's first minute, or left in
                # it.
                most = (
                    tuple(levels)
                    if first == start
                    else tuple(map(max, zip(most, levels, strict=True)))
                )
            yield Depth(start, *most)

    def _fine_depth(self) -> Iterator[Depth]:
        """From gold's level before the minute in which the period begins, plus the changes since
        then by slot."""
        since = self.period.first_ms // MINUTE * MINUTE
        ((waiting, running),) = self.rows(f"""
            SELECT coalesce(sum(waiting), 0), coalesce(sum(running), 0)
            FROM (SELECT max_by(waiting, minute) AS waiting, max_by(running, minute) AS running
                  FROM depth WHERE minute < timestamp_millis({since}) GROUP BY `group`, queue)
        """)
        steps = {row[0]: (row[1], row[2]) for row in self.rows(self._steps_since(since))}
        starts = self.period.starts(self.period.slot_ms)
        waiting += sum(one for at, (one, _) in steps.items() if at < starts.start)
        running += sum(one for at, (_, one) in steps.items() if at < starts.start)
        for start in starts:
            came, began = steps.get(start, (0, 0))
            waiting, running = waiting + came, running + began
            yield Depth(start, waiting, running)

    def _steps_since(self, since_ms: int) -> str:
        """Changes of waiting and running jobs by slot: counted as in the pipeline, in smaller
        slots."""
        recent = f"_ts >= timestamp_millis({since_ms})"
        ends = quoted((JOB_CANCELLED, JOB_EXPIRED))
        # Jobs withdrawn since then need their earlier events: had they been waiting?
        withdrawn = f"""
            (SELECT * FROM (
                SELECT _group AS grp, queue, _ts, _ts AS ts, type,
                       lag({after_of("type", "delay_ms", "status")})
                           OVER (PARTITION BY job_id, _group ORDER BY _index, _ordinal) AS p_after
                FROM events LEFT SEMI JOIN (
                    SELECT job_id AS one, _group AS its FROM events
                    WHERE {recent} AND type IN ({ends}) AND job_id IS NOT NULL)
                  ON job_id = one AND _group = its
                WHERE type IN ({quoted(MARKS)}))
             WHERE {recent})"""
        of_arrays = "(SELECT * FROM events WHERE job_id IS NULL AND array_id IS NOT NULL)"
        marks = crowds.array_marks(SPARK, news=of_arrays, has_open=False)
        ms = "unix_millis({})"
        single = " UNION ALL ".join(
            (
                crowds.job_steps(f"(SELECT * FROM events WHERE {recent})", ms),
                crowds.withdrawn(withdrawn, ms),
                crowds.array_steps(
                    f"(SELECT * FROM ({marks}) WHERE ts >= timestamp_millis({since_ms}))", ms
                ),
            )
        )
        return f"SELECT {self.slot_of('moment')}, sum(waits), sum(runs) FROM ({single}) GROUP BY 1"

    def retries(self) -> list[CauseRow]:
        """Attempts without a result, whether the job ran again or died. A job that expired before
        any start has no attempt; an exit code is a result, even if the job died by it."""
        return _causes(
            self.rows(f"""
                SELECT outcome, exec, count(*) FROM attempts
                WHERE outcome IN ({quoted(UNFINISHED)}) AND {self.within("ended_at")} GROUP BY 1, 2
            """)
        )

    def dead(self) -> list[CauseRow]:
        """Dead jobs by cause."""
        if not self.period.is_fine:
            return _causes(
                self.rows(f"""
                    SELECT cause, exec, sum(jobs) FROM dead
                    WHERE {self.within("hour", HOUR)} GROUP BY 1, 2
                """)
            )
        rows = self.rows(f"""
            SELECT cause, exec, sum({NUMBER}) FROM events
            WHERE type IN ({quoted((JOB_DEAD, JOB_EXPIRED))}) AND {self.within("_ts")} GROUP BY 1, 2
        """)
        return _causes((CAUSES.get(cause, "other"), name, number) for cause, name, number in rows)

    def checks(self) -> list[CheckRow]:
        """The outcomes of the checks of all batches."""
        rows = self.rows("""
            SELECT name, `group`, count(*), count_if(outcome = 'failed'),
                   count_if(outcome = 'unknown'),
                   coalesce(max(batch) FILTER (WHERE outcome = 'failed'), 0)
            FROM checks GROUP BY 1, 2 ORDER BY 2, 1
        """)
        return [CheckRow(*row) for row in rows]

    def bytes_moved(self) -> tuple[int, int, int]:
        """Bytes of files: transferred in total, cache hits, cache misses."""
        if self.period.is_fine:
            ((moved, hits, misses),) = self.rows(f"""
                SELECT sum(blob_bytes + fetched_bytes), sum(held_bytes), sum(fetched_bytes)
                FROM attempts WHERE {self.within("ended_at")}
            """)
        else:
            ((moved, hits, misses),) = self.rows(f"""
                SELECT sum(bytes_moved), sum(cache_hit_bytes), sum(cache_miss_bytes) FROM hourly
                WHERE dimension = 'all' AND {self.within("hour", HOUR)}
            """)
        return int(moved or 0), int(hits or 0), int(misses or 0)


def _slot(counts: Any, wait: Percentiles | None, run: Percentiles | None) -> Slot:
    start, submitted, succeeded, failed, dead, cancelled, retried = map(int, counts)
    return Slot(start, submitted, succeeded, failed, dead, cancelled, retried, wait, run)


def _percentiles(values: Any) -> Percentiles | None:
    if values is None or any(one is None for one in values):
        return None
    return Percentiles(*map(float, values))


def _causes(rows: Iterable[Any]) -> list[CauseRow]:
    """Causes with their programs, the most frequent first."""
    found: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for cause, exec_name, number in rows:
        found[cause or "unknown"].append((exec_name or "", int(number)))
    causes = [
        CauseRow(
            cause,
            sum(number for _, number in execs),
            tuple(sorted(execs, key=lambda one: (-one[1], one[0]))[:EXECS_NAMED]),
        )
        for cause, execs in found.items()
    ]
    return sorted(causes, key=lambda one: (-one.count, one.cause))

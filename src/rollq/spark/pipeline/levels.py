"""Queue depth over time and estimates by exec, as SQL: cumulative sums, kept in small tables."""

from __future__ import annotations

from rollq.grid.events import (
    ARRAY_ENQUEUED,
    JOB_BLOCKED,
    JOB_DEAD,
    JOB_DELAYED,
    JOB_ENQUEUED,
    JOB_EXPIRED,
)
from rollq.spark.pipeline.dialect import SqlDialect
from rollq.spark.pipeline.silver import REQUEUES, quoted


def depth(d: SqlDialect) -> str:
    """Waiting and running jobs at the end of each minute with a change, valid until the next row;
    and the current level of each queue, in rows without a minute.

    Reads `levels_before` (the levels of the previous batch), `new_steps` and `day_steps` (all steps
    from a day on, including new ones). It sums backwards from the current level, so that nothing
    before that day is read. If the beginning of the history is missing, values are relative and may
    be negative.
    """
    return f"""
        WITH changes AS (
            SELECT {d.group} AS grp, queue, minute, sum(waits) AS waits, sum(runs) AS runs
            FROM (
                SELECT {d.group}, queue, minute, -waits AS waits, -runs AS runs FROM day_steps
                UNION ALL
                SELECT {d.group}, queue, CAST(NULL AS timestamp), waits, runs FROM new_steps
                UNION ALL
                SELECT {d.group}, queue, CAST(NULL AS timestamp), waiting, running
                FROM levels_before)
            GROUP BY {d.group}, queue, minute),
        added AS (
            SELECT grp, queue, minute,
                sum(waits) OVER (w) - CASE WHEN minute IS NULL THEN 0 ELSE waits END AS waiting,
                sum(runs) OVER (w) - CASE WHEN minute IS NULL THEN 0 ELSE runs END AS running
            FROM changes
            WINDOW w AS (PARTITION BY grp, queue ORDER BY minute DESC NULLS FIRST))
        SELECT grp AS {d.group}, queue, minute, CAST(waiting AS bigint) AS waiting,
            CAST(running AS bigint) AS running
        FROM added WHERE minute IS NOT NULL OR waiting <> 0 OR running <> 0
    """


def counts(d: SqlDialect, *, news: str = "news") -> str:
    """Histograms of this batch by exec. Reads `ended` (ended attempts) and new events. All attempts
    with a run time count, including retried ones and the last of a dead job."""
    n = f"CASE WHEN job_id IS NULL THEN {d.count} ELSE 1 END"
    submitted = quoted((JOB_ENQUEUED, JOB_DELAYED, JOB_BLOCKED, ARRAY_ENQUEUED))
    return f"""
        SELECT {d.group}, exec, metric, value, CAST(sum(n) AS bigint) AS n
        FROM (
            SELECT {d.group}, exec, 'run' AS metric, run_ms AS value, 1 AS n
            FROM ended WHERE run_ms IS NOT NULL
            UNION ALL
            SELECT {d.group}, exec, 'wait', wait_ms, 1 FROM ended WHERE wait_ms IS NOT NULL
            UNION ALL
            SELECT {d.group}, exec, 'failed', 0, 1 FROM ended WHERE outcome = 'failed'
            UNION ALL
            SELECT _group, exec,
                CASE WHEN type IN ({submitted}) THEN 'jobs'
                    WHEN type IN ({quoted((JOB_DEAD, JOB_EXPIRED))}) THEN 'dead'
                    ELSE 'retried' END,
                0, {n}
            FROM {news} WHERE type IN ({submitted}, {quoted((JOB_DEAD, JOB_EXPIRED, *REQUEUES))}))
        GROUP BY {d.group}, exec, metric, value
    """


def added_counts(d: SqlDialect) -> str:
    """Sum up several batches. Reads `counts`."""
    return f"""
        SELECT {d.group}, exec, metric, value, CAST(sum(n) AS bigint) AS n
        FROM counts GROUP BY {d.group}, exec, metric, value
    """


def execs(d: SqlDialect) -> str:
    """All-time estimates by exec. Reads `counts`."""
    percentiles = ", ".join(
        f"min(CASE WHEN metric = '{metric}' AND upto * 100 >= total * {percent} THEN value END)"
        f" AS {metric}_ms_p{percent}"
        for metric in ("run", "wait")
        for percent in (50, 95, 99)
    )
    sums = ", ".join(
        f"CAST(coalesce(sum(CASE WHEN metric = '{metric}' THEN n END), 0) AS bigint) AS {name}"
        for metric, name in (("failed",) * 2, ("dead",) * 2, ("retried",) * 2, ("run", "runs"))
    )
    jobs = "CAST(coalesce(sum(CASE WHEN metric = 'jobs' THEN n END), 0) AS bigint) AS jobs"
    by_value = f"PARTITION BY {d.group}, exec, metric ORDER BY value"
    return f"""
        WITH added AS ({added_counts(d)}),
        ranked AS (
            SELECT *, sum(n) OVER ({by_value}) AS upto,
                sum(n) OVER (PARTITION BY {d.group}, exec, metric) AS total
            FROM added)
        SELECT {d.group}, exec, {jobs}, {percentiles}, {sums}
        FROM ranked GROUP BY {d.group}, exec
    """

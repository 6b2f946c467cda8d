"""Hourly figures, as SQL: whole hours are recomputed from silver and bronze.

`touched` holds the (group, hour) pairs to compute; only files that may have rows of these are read.
Percentiles of an hour are exact, by nearest rank.
"""

from __future__ import annotations

from typing import Final

from rollq.grid.events import (
    ARRAY_ENQUEUED,
    JOB_BLOCKED,
    JOB_CANCELLED,
    JOB_DEAD,
    JOB_DELAYED,
    JOB_ENQUEUED,
    JOB_EXPIRED,
)
from rollq.spark.pipeline.dialect import SqlDialect
from rollq.spark.pipeline.silver import CAUSES, REQUEUES, quoted

_DIMENSIONS: Final = {
    "exec": "exec",
    "client": "client_id",
    "queue": "queue",
    "worker": "worker_id",
}
_COUNTS: Final = ("submitted", "started", "succeeded", "failed", "dead", "cancelled", "retried")
_SUMS: Final = ("run_ms_sum", "busy_ms", "bytes_moved", "cache_hit_bytes", "cache_miss_bytes")
_PERCENTS: Final = (50, 95, 99)
_FACTS: Final = (
    *(JOB_ENQUEUED, JOB_DELAYED, JOB_BLOCKED, ARRAY_ENQUEUED),
    *(JOB_DEAD, JOB_EXPIRED, JOB_CANCELLED),
    *REQUEUES,
)
_HOUR_MS: Final = 3_600_000
_NO_MS: Final = "CAST(NULL AS bigint)"


def hourly(d: SqlDialect) -> str:
    """Counts, sums and percentiles by dimension and hour. Reads `events`, `attempts`, `busy` and
    `touched`.

    An attempt is counted in the hour of its assignment (`started`, wait) and in that of its end
    (all else), except its run time, which is split over the hours in which it ran. A retry is
    counted in the hour in which the failed attempt ended. Run times are those of all attempts with
    a result, whatever the final state of their jobs.
    """
    columns = ", ".join(_DIMENSIONS.values())
    dimensions = ", ".join(f"(grp, hour, {column})" for column in _DIMENSIONS.values())
    counted = (*_COUNTS, *_SUMS)
    sums = ", ".join(f"sum({name}) AS {name}" for name in counted)
    totals = ", ".join(f"CAST(sum({name}) AS bigint) AS {name}" for name in counted)
    percentiles = ", ".join(
        f"{d.percentile(f'{metric}_list', percent)} AS {metric}_ms_p{percent}"
        for metric in ("wait", "run")
        for percent in _PERCENTS
    )
    # Aggregate by all dimensions first: that leaves less data for the five grouping sets.
    return f"""
        WITH facts AS ({_facts(d)}),
        cells AS (
            SELECT grp, hour, {columns}, {sums}, max(peak_bytes) AS peak_bytes,
                {d.gather("wait_ms")} AS wait_list, {d.gather("run_ms")} AS run_list
            FROM facts GROUP BY grp, hour, {columns}),
        added AS (
            SELECT grp, hour, {columns}, {_dimension()} AS dimension, {totals},
                coalesce(max(peak_bytes), 0) AS peak_bytes_max,
                {d.merge("wait_list")} AS wait_list, {d.merge("run_list")} AS run_list
            FROM cells
            GROUP BY GROUPING SETS ((grp, hour), {dimensions}))
        SELECT grp AS {d.group}, dimension, coalesce({columns}, '') AS name, hour,
            {", ".join(_COUNTS)}, {percentiles}, {", ".join(_SUMS)}, peak_bytes_max
        FROM added
        WHERE dimension = 'all' OR coalesce({columns}) IS NOT NULL
    """


def _dimension() -> str:
    """The name of the grouping set that a row belongs to."""
    named = " ".join(
        f"WHEN grouping({column}) = 0 THEN '{name}'" for name, column in _DIMENSIONS.items()
    )
    return f"CASE {named} ELSE 'all' END"


def _facts(d: SqlDialect) -> str:
    """One row per counted item, with zeros in all other columns."""
    columns = ", ".join(_DIMENSIONS.values())
    n = f"CASE WHEN job_id IS NULL THEN {d.count} ELSE 1 END"
    submitted = quoted((JOB_ENQUEUED, JOB_DELAYED, JOB_BLOCKED, ARRAY_ENQUEUED))
    dead = quoted((JOB_DEAD, JOB_EXPIRED))
    return f"""
        SELECT a.{d.group} AS grp, t.hour, {columns}, 0 AS submitted, 0 AS started,
            CASE WHEN outcome = 'ok' THEN 1 ELSE 0 END AS succeeded,
            CASE WHEN outcome = 'failed' THEN 1 ELSE 0 END AS failed,
            0 AS dead, 0 AS cancelled, 0 AS retried,
            coalesce(run_ms, 0) AS run_ms_sum, 0 AS busy_ms,
            blob_bytes + fetched_bytes AS bytes_moved, held_bytes AS cache_hit_bytes,
            fetched_bytes AS cache_miss_bytes, peak_bytes, {_NO_MS} AS wait_ms, run_ms
        FROM attempts a JOIN touched t
            ON a.{d.group} = t.grp AND date_trunc('hour', a.ended_at) = t.hour
        UNION ALL
        SELECT a.{d.group}, t.hour, {columns}, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, wait_ms,
            {_NO_MS}
        FROM attempts a JOIN touched t
            ON a.{d.group} = t.grp AND date_trunc('hour', a.assigned_at) = t.hour
        UNION ALL
        SELECT e._group, t.hour, {columns},
            CASE WHEN type IN ({submitted}) THEN {n} ELSE 0 END, 0, 0, 0,
            CASE WHEN type IN ({dead}) THEN {n} ELSE 0 END,
            CASE WHEN type = '{JOB_CANCELLED}' THEN {n} ELSE 0 END,
            CASE WHEN type IN ({quoted(REQUEUES)}) THEN 1 ELSE 0 END,
            0, 0, 0, 0, 0, 0, {_NO_MS}, {_NO_MS}
        FROM events e JOIN touched t ON e._group = t.grp AND date_trunc('hour', e._ts) = t.hour
        WHERE type IN ({quoted(_FACTS)})
        UNION ALL
        SELECT b.{d.group}, t.hour, {columns}, 0, 0, 0, 0, 0, 0, 0, 0, busy_ms, 0, 0, 0, 0,
            {_NO_MS}, {_NO_MS}
        FROM busy b JOIN touched t ON b.{d.group} = t.grp AND b.hour = t.hour
    """


def late_hourly(d: SqlDialect) -> str:
    """Additions by run time to hours without new events, as rows of `hourly`. Reads `new_busy` and
    `touched`."""
    columns = ", ".join(_DIMENSIONS.values())
    dimensions = ", ".join(f"(grp, hour, {column})" for column in _DIMENSIONS.values())
    zeros = ", ".join(f"CAST(0 AS bigint) AS {name}" for name in _COUNTS)
    percentiles = ", ".join(
        f"{_NO_MS} AS {metric}_ms_p{percent}" for metric in ("wait", "run") for percent in _PERCENTS
    )
    sums = ", ".join(
        "busy_ms" if name == "busy_ms" else f"CAST(0 AS bigint) AS {name}" for name in _SUMS
    )
    return f"""
        SELECT grp AS {d.group}, dimension, coalesce({columns}, '') AS name, hour,
            {zeros}, {percentiles}, {sums}, CAST(0 AS bigint) AS peak_bytes_max
        FROM (
            SELECT grp, hour, {columns}, {_dimension()} AS dimension,
                CAST(sum(busy_ms) AS bigint) AS busy_ms
            FROM (
                SELECT b.{d.group} AS grp, b.hour, {columns}, busy_ms
                FROM new_busy b LEFT ANTI JOIN touched t ON b.{d.group} = t.grp AND b.hour = t.hour)
            GROUP BY GROUPING SETS ((grp, hour), {dimensions}))
        WHERE dimension = 'all' OR coalesce({columns}) IS NOT NULL
    """


def added_hourly(d: SqlDialect) -> str:
    """Merge rows of the same hour. Reads `hours_in_parts`."""
    sums = ", ".join(f"CAST(sum({name}) AS bigint) AS {name}" for name in (*_COUNTS, *_SUMS))
    most = ", ".join(
        f"max({metric}_ms_p{percent}) AS {metric}_ms_p{percent}"
        for metric in ("wait", "run")
        for percent in _PERCENTS
    )
    return f"""
        SELECT {d.group}, dimension, name, hour, {sums}, {most},
            max(peak_bytes_max) AS peak_bytes_max
        FROM hours_in_parts GROUP BY {d.group}, dimension, name, hour
    """


def busy(d: SqlDialect) -> str:
    """Run time by hour of the attempts that ended in this batch. Reads `ended`.

    An attempt without run time has a row with 0: in that hour a worker had a job.
    """
    within = f"least(until_ms, hour_ms + {_HOUR_MS}) - greatest(start_ms, hour_ms)"
    first = f"start_ms - start_ms % {_HOUR_MS}"
    last = f"until_ms - until_ms % {_HOUR_MS}"
    return f"""
        SELECT {d.group}, {d.moment("hour_ms")} AS hour, exec, client_id, queue, worker_id,
            CAST(sum(busy_ms) AS bigint) AS busy_ms
        FROM (
            SELECT *, {within} AS busy_ms
            FROM (
                SELECT *, {d.series(first, last, _HOUR_MS)} AS hour_ms
                FROM (
                    SELECT {d.group}, exec, client_id, queue, worker_id,
                        {d.ms("started_at")} AS start_ms, {d.ms("ended_at")} AS until_ms
                    FROM ended WHERE started_at IS NOT NULL)))
        WHERE busy_ms > 0 OR start_ms = until_ms
        GROUP BY {d.group}, hour_ms, exec, client_id, queue, worker_id
    """


def added_busy(d: SqlDialect) -> str:
    """Sum up several batches. Reads `busy`."""
    return f"""
        SELECT {d.group}, hour, exec, client_id, queue, worker_id,
            CAST(sum(busy_ms) AS bigint) AS busy_ms
        FROM busy GROUP BY {d.group}, hour, exec, client_id, queue, worker_id
    """


def dead(d: SqlDialect) -> str:
    """Dead jobs by hour, exec and cause. Reads `events`, `touched`."""
    words = " ".join(f"WHEN {number} THEN '{word}'" for number, word in CAUSES.items())
    return f"""
        SELECT e._group AS {d.group}, t.hour, e.exec,
            CASE e.cause {words} ELSE 'other' END AS cause,
            CAST(sum(CASE WHEN e.job_id IS NULL THEN e.{d.count} ELSE 1 END) AS bigint) AS jobs
        FROM events e JOIN touched t ON e._group = t.grp AND date_trunc('hour', e._ts) = t.hour
        WHERE e.type IN ({quoted((JOB_DEAD, JOB_EXPIRED))})
        GROUP BY 1, 2, 3, 4
    """


def utilisation(d: SqlDialect) -> str:
    """Busy time of workers relative to the capacity of their slots, in hours in which some worker
    had a job. Reads `busy`, `open_attempts`, `sessions` and `passed`: by group the first and the
    last hour to compute, and the last known timestamp, at which open intervals are cut.

    A worker is busy while its ended attempts ran. When an open or lost attempt began to run is
    unknown, because workers prefetch: an open one counts from its assignment, as far as slots are
    free; a lost one does not count.
    """
    held_ms = f"greatest(least(until_ms, hour_ms + {_HOUR_MS}) - greatest(start_ms, hour_ms), 0)"
    return f"""
        WITH ran AS (
            SELECT p.grp, b.worker_id, {d.ms("b.hour")} AS hour_ms, b.busy_ms AS busy_ms
            FROM busy b JOIN passed p ON b.{d.group} = p.grp
            WHERE {d.ms("b.hour")} >= p.first_ms AND {d.ms("b.hour")} <= p.last_ms
            UNION ALL
            SELECT grp, worker_id, hour_ms, {held_ms}
            FROM ({_open_by_hour(d)}) WHERE hour_ms >= first_ms AND hour_ms <= last_ms),
        hours AS (SELECT DISTINCT grp, hour_ms FROM ran),
        there AS ({_there(d)}),
        added AS (
            SELECT grp, worker_id, hour_ms, max(name) AS name, CAST(max(slots) AS bigint) AS slots,
                CAST(sum(busy_ms) AS bigint) AS busy_ms,
                CAST(sum(capacity_ms) AS bigint) AS capacity_ms
            FROM (
                SELECT grp, worker_id, hour_ms, CAST(NULL AS string) AS name, 0 AS slots, busy_ms,
                    0 AS capacity_ms FROM ran
                UNION ALL
                SELECT grp, worker_id, hour_ms, name, slots, 0, capacity_ms FROM there)
            GROUP BY grp, worker_id, hour_ms),
        clipped AS (
            SELECT *, CASE WHEN busy_ms > capacity_ms AND capacity_ms > 0 THEN capacity_ms
                ELSE busy_ms END AS within_ms
            FROM added WHERE busy_ms > 0 OR capacity_ms > 0)
        SELECT grp AS {d.group}, worker_id, name, {d.moment("hour_ms")} AS hour, slots,
            within_ms AS busy_ms, capacity_ms,
            CASE WHEN capacity_ms > 0
                THEN CAST(within_ms AS double) / CAST(capacity_ms AS double) END AS utilisation
        FROM clipped
    """


def _open_by_hour(d: SqlDialect) -> str:
    """Open attempts, one row for each hour since their assignment."""
    first = f"start_ms - start_ms % {_HOUR_MS}"
    last = f"greatest(until_ms, start_ms) - greatest(until_ms, start_ms) % {_HOUR_MS}"
    return f"""
        SELECT *, {d.series(first, last, _HOUR_MS)} AS hour_ms
        FROM (
            SELECT p.grp, p.first_ms, p.last_ms, a.worker_id,
                {d.ms("a.assigned_at")} AS start_ms, p.until_ms
            FROM open_attempts a JOIN passed p ON a.{d.group} = p.grp)"""


def _there(d: SqlDialect) -> str:
    """The capacity of workers in these hours."""
    there_ms = f"least(s.until_ms, h.hour_ms + {_HOUR_MS}) - greatest(s.up_ms, h.hour_ms)"
    return f"""
        SELECT s.grp, s.worker_id, s.name, s.slots, h.hour_ms,
            ({there_ms}) * s.slots AS capacity_ms
        FROM (
            SELECT p.grp, o.worker_id, o.name, o.slots, {d.ms("o.up_at")} AS up_ms,
                coalesce({d.ms("o.down_at")}, p.until_ms) AS until_ms
            FROM sessions o JOIN passed p ON o.{d.group} = p.grp) s
        JOIN hours h
            ON s.grp = h.grp AND h.hour_ms < s.until_ms AND h.hour_ms + {_HOUR_MS} > s.up_ms"""

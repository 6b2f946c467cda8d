"""Figures by hour, as SQL: from silver and bronze, always whole hours anew.

`touched` names the (group, hour) pairs to be made; what reads a table reads only the files that can
hold rows of these. An hour's percentiles are exact: the smallest value that 50, 95, 99 of a hundred
do not exceed.
"""

from __future__ import annotations

from typing import Final

from rollq.grid.events import (
    ARRAY_ENQUEUED,
    JOB_CANCELLED,
    JOB_DEAD,
    JOB_DELAYED,
    JOB_ENQUEUED,
    JOB_EXPIRED,
)
from rollq.spark.pipeline.dialect import Dialect
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
    *(JOB_ENQUEUED, JOB_DELAYED, ARRAY_ENQUEUED, JOB_DEAD, JOB_EXPIRED, JOB_CANCELLED),
    *REQUEUES,
)
_NO_MS: Final = "CAST(NULL AS bigint)"


def hourly(d: Dialect) -> str:
    """Counts, sums and percentiles by dimension and hour. Reads `events`, `attempts`, `touched`.

    An attempt counts where it started (`started`, wait) and where it ended (all else); the retry of
    an attempt counts where that ended.
    """
    facts = _facts(d)
    dimensions = ", ".join(f"(grp, hour, {column})" for column in _DIMENSIONS.values())
    columns = ", ".join(_DIMENSIONS.values())
    sums = ", ".join([*(f"CAST(sum({name}) AS bigint) AS {name}" for name in (*_COUNTS, *_SUMS))])
    percentiles = ", ".join(
        f"{d.percentile(f'{metric}_list', percent)} AS {metric}_ms_p{percent}"
        for metric in ("wait", "run")
        for percent in _PERCENTS
    )
    return f"""
        WITH facts AS ({facts}),
        added AS (
            SELECT grp, hour, {columns}, {_dimension()} AS dimension, {sums},
                coalesce(max(peak_bytes), 0) AS peak_bytes_max,
                {d.gather("wait_ms")} AS wait_list, {d.gather("run_ms")} AS run_list
            FROM facts
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


def _facts(d: Dialect) -> str:
    """One row for each thing that counts, with zeros for what it is not."""
    columns = ", ".join(_DIMENSIONS.values())
    n = f"CASE WHEN job_id IS NULL THEN {d.count} ELSE 1 END"
    submitted = quoted((JOB_ENQUEUED, JOB_DELAYED, ARRAY_ENQUEUED))
    dead = quoted((JOB_DEAD, JOB_EXPIRED))
    return f"""
        SELECT a.{d.group} AS grp, t.hour, {columns}, 0 AS submitted, 0 AS started,
            CASE WHEN outcome = 'ok' THEN 1 ELSE 0 END AS succeeded,
            CASE WHEN outcome = 'failed' AND run_ms IS NOT NULL THEN 1 ELSE 0 END AS failed,
            0 AS dead, 0 AS cancelled,
            0 AS retried,
            coalesce(run_ms, 0) AS run_ms_sum, coalesce(held_ms, 0) AS busy_ms,
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
    """


def dead(d: Dialect) -> str:
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


def utilisation(d: Dialect) -> str:
    """How much of the time of their slots workers were busy. Reads `attempts`, `sessions`,
    `horizons` (by group the last moment that is known, until which what is open lasts) and
    `passed` (by group the hours to be made)."""

    busy = _by_hour(d, "attempts", "assigned_at", "ended_at", "a.worker_id")
    there = _by_hour(d, "sessions", "up_at", "down_at", "a.worker_id, a.name, a.slots")
    return f"""
        WITH busy AS ({busy}), there AS ({there}),
        both_of AS (
            SELECT grp, worker_id, hour, CAST(NULL AS string) AS name, 0 AS slots, ms AS busy_ms,
                0 AS capacity_ms FROM busy
            UNION ALL
            SELECT grp, worker_id, hour, name, slots, 0, ms * slots FROM there),
        added AS (
            SELECT grp, worker_id, hour, max(name) AS name, CAST(max(slots) AS bigint) AS slots,
                CAST(sum(busy_ms) AS bigint) AS busy_ms,
                CAST(sum(capacity_ms) AS bigint) AS capacity_ms
            FROM both_of GROUP BY grp, worker_id, hour)
        SELECT grp AS {d.group}, worker_id, name, hour, slots, busy_ms, capacity_ms,
            CASE WHEN capacity_ms > 0
                THEN CAST(busy_ms AS double) / CAST(capacity_ms AS double) END AS utilisation
        FROM added WHERE busy_ms > 0 OR capacity_ms > 0
    """


def _by_hour(d: Dialect, table: str, start: str, end: str, columns: str) -> str:
    """How long each row of a table was inside each hour of `passed`. What is open lasts until the
    horizon of its group; most of what has ended did so in its first hour."""
    first, last = f"date_trunc('hour', {start})", "date_trunc('hour', until)"
    within = (
        f"least({d.ms('a.until')}, {d.ms('p.hour')} + 3600000)"
        f" - greatest({d.ms(f'a.{start}')}, {d.ms('p.hour')})"
    )
    return f"""
        SELECT a.grp, {columns}, p.hour, greatest({within}, 0) AS ms
        FROM (
            SELECT *, {first} AS hour FROM ({_lasting(d, table, end)}) WHERE {first} >= {last}
            UNION ALL
            SELECT *, {d.hours(start, "until")} AS hour FROM ({_lasting(d, table, end)})
            WHERE {first} < {last}) a
        JOIN passed p ON a.grp = p.grp AND a.hour = p.hour"""


def _lasting(d: Dialect, table: str, end: str) -> str:
    return f"""
        SELECT o.*, h.grp, coalesce(o.{end}, h.last) AS until
        FROM {table} o JOIN horizons h ON o.{d.group} = h.grp"""

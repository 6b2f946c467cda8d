"""Arrays, sessions of workers, actions of operators, and changes of queue depth, as SQL.

They are few compared to jobs: open rows are rewritten in every batch.
"""

from __future__ import annotations

from typing import Final

from rollq.grid.events import (
    ARRAY_ENDED,
    ARRAY_ENQUEUED,
    JOB_ACKED,
    JOB_ASSIGNED,
    JOB_CANCELLED,
    JOB_DEAD,
    JOB_ENQUEUED,
    JOB_EXPIRED,
    JOB_REDRIVEN,
    JOB_RELEASED,
    JOB_UNBLOCKED,
    WORKER_CLOSED,
    WORKER_OPENED,
)
from rollq.spark.pipeline.dialect import SqlDialect
from rollq.spark.pipeline.silver import CARRY, REQUEUES, WAITING, quoted

_ARRAY_MARKS: Final = (
    *(ARRAY_ENQUEUED, JOB_RELEASED, JOB_CANCELLED, JOB_EXPIRED, JOB_DEAD, ARRAY_ENDED),
)
_ARRAY_WINDOW: Final = "PARTITION BY grp, array_id ORDER BY i, o"
_WORKER_WINDOW: Final = "PARTITION BY grp, worker_id ORDER BY i, o"


def array_marks(d: SqlDialect, *, news: str = "news", has_open: bool = True) -> str:
    """Events of arrays as a whole, with the state known at each. Reads new events and, if there are
    any, `open_arrays`."""
    ready = f"""CASE
        WHEN type = '{CARRY}' THEN {d.pack(at="c_ready_at")}
        WHEN type = '{ARRAY_ENQUEUED}' THEN
            {d.pack(at="CASE WHEN delay_ms = 0 THEN ts END")}
        WHEN type = '{JOB_RELEASED}' THEN {d.pack(at="ts")} END"""
    carried = f"""
        UNION ALL
        SELECT {d.group}, array_id, last_index, last_ordinal, submitted_at, '{CARRY}', 0, tasks,
            client_id, queue, exec, priority, body_bytes, blob_bytes, request, true, first_index,
            submitted_at, tasks, ready_at
        FROM open_arrays"""
    return f"""
        SELECT *, {d.latest(ready, _ARRAY_WINDOW)} AS ready,
            {d.latest_before(ready, _ARRAY_WINDOW)} AS ready_before,
            sum(CASE WHEN starts THEN 1 ELSE 0 END) OVER ({_ARRAY_WINDOW}) AS life,
            lead(starts) OVER ({_ARRAY_WINDOW}) AS n_starts
        FROM (
            SELECT _group AS grp, array_id, _index AS i, _ordinal AS o, _ts AS ts, type, delay_ms,
                {d.count} AS n, client_id, queue, exec, priority, body_bytes, blob_bytes, request,
                type = '{ARRAY_ENQUEUED}' AS starts, _index AS s_index, _ts AS s_at,
                {d.count} AS s_tasks, CAST(NULL AS timestamp) AS c_ready_at
            FROM {news} WHERE job_id IS NULL AND array_id IS NOT NULL
                AND type IN ({quoted(_ARRAY_MARKS)})
            {carried if has_open else ""})
    """


def arrays(d: SqlDialect) -> str:
    """One row per array whose beginning is known; from `array_marks`."""
    first = "CASE WHEN starts THEN {} END"
    # Events after the end are ignored: in a later batch they would not be seen.
    place = d.pack(i="i", o="o")
    last = f"coalesce(min(CASE WHEN type = '{ARRAY_ENDED}' THEN {place} END), max({place}))"
    return f"""
        SELECT grp AS {d.group}, array_id, min(client_id) AS client_id, min(queue) AS queue,
            min(exec) AS exec, min(priority) AS priority,
            max({first.format("s_tasks")}) AS tasks, max({first.format("s_at")}) AS submitted_at,
            max(ready.at) AS ready_at,
            min(CASE WHEN type = '{ARRAY_ENDED}' THEN ts END) AS ended_at,
            max({first.format("body_bytes")}) AS body_bytes,
            max({first.format("blob_bytes")}) AS blob_bytes,
            max({first.format("s_index")}) AS first_index, ({last}).i AS last_index,
            ({last}).o AS last_ordinal, max({first.format("request")}) AS request
        FROM array_marks WHERE life > 0 GROUP BY grp, array_id, life
    """


def array_lives(d: SqlDialect) -> str:
    """Data of arrays that their tasks need, from `arrays_now`."""
    return f"""
        SELECT {d.group} AS grp, array_id, submitted_at, ready_at, body_bytes, blob_bytes, request,
            first_index,
            lead(first_index) OVER (PARTITION BY {d.group}, array_id ORDER BY first_index)
                AS next_index
        FROM arrays_now
    """


def sessions(d: SqlDialect) -> str:
    """Sessions of workers: from an opening to the next one, or to the closing. Reads `news` and
    `open_workers`."""
    return f"""
        WITH marks AS (
            SELECT _group AS grp, worker_id, _index AS i, _ordinal AS o, _ts AS ts,
                {d.first_word("detail")} AS name, {d.count} AS slots,
                type = '{WORKER_OPENED}' AS is_up
            FROM news WHERE type IN ('{WORKER_OPENED}', '{WORKER_CLOSED}')
            UNION ALL
            SELECT {d.group}, worker_id, last_index, last_ordinal, up_at, name, slots, true
            FROM open_workers),
        spans AS (
            SELECT *, lead(ts) OVER ({_WORKER_WINDOW}) AS down_at FROM marks)
        SELECT grp AS {d.group}, worker_id, name, slots, ts AS up_at, down_at, i AS last_index,
            o AS last_ordinal
        FROM spans WHERE is_up
    """


def acts(d: SqlDialect, *, news: str = "news") -> str:
    """Actions of users, and refusals. Reads new events."""
    return f"""
        SELECT _group AS {d.group}, _ts AS at, type, asked_by, account, action, resource, address,
            {d.count}, detail, queue, client_id, job_id, array_id, cache_id,
            _index, _ordinal
        FROM {news} WHERE asked_by IS NOT NULL
    """


def steps(d: SqlDialect, *, has_arrays: bool) -> str:
    """Changes of waiting and running jobs by queue and minute. Reads `news`, `moves` and
    `array_marks`."""
    minute = "date_trunc('minute', {})"
    single = f"{job_steps('news', minute)} UNION ALL {withdrawn('moves', minute)}"
    if has_arrays:
        single += f" UNION ALL {array_steps('array_marks', minute)}"
    return f"""
        SELECT grp AS {d.group}, queue, moment AS minute, CAST(sum(waits) AS bigint) AS waits,
            CAST(sum(runs) AS bigint) AS runs
        FROM ({single})
        WHERE waits <> 0 OR runs <> 0 GROUP BY grp, queue, moment
    """


def job_steps(events: str, moment: str) -> str:
    """Changes of waiting and running jobs by events of single jobs.

    Args:
        events: the table.
        moment: SQL that rounds a timestamp, with a placeholder for it.
    """
    in_queue = quoted((JOB_ENQUEUED, JOB_RELEASED, JOB_REDRIVEN))
    return f"""
        SELECT _group AS grp, queue, {moment.format("_ts")} AS moment,
            CASE WHEN type IN ({in_queue}) THEN 1
                WHEN type = '{JOB_ASSIGNED}' THEN -1
                WHEN type IN ({quoted((JOB_UNBLOCKED, *REQUEUES))}) AND delay_ms = 0 THEN 1
                ELSE 0 END AS waits,
            CASE WHEN type = '{JOB_ASSIGNED}' THEN 1
                WHEN type IN ({quoted((JOB_ACKED, JOB_DEAD, *REQUEUES))}) THEN -1
                WHEN type = '{JOB_CANCELLED}' AND fence > 0 THEN -1
                ELSE 0 END AS runs
        FROM {events} WHERE job_id IS NOT NULL"""


def withdrawn(moves: str, moment: str) -> str:
    """Jobs that were cancelled or expired while waiting. Only their previous state tells whether
    they were waiting or delayed; other events need no previous state."""
    return f"""
        SELECT grp, queue, {moment.format("ts")} AS moment, -1 AS waits, 0 AS runs
        FROM {moves}
        WHERE p_after = '{WAITING}' AND type IN ('{JOB_CANCELLED}', '{JOB_EXPIRED}')"""


def array_steps(marks: str, moment: str) -> str:
    """Changes by events of arrays: of tasks that were never assigned."""
    return f"""
        SELECT grp, queue, {moment.format("ts")} AS moment,
            CASE WHEN type = '{ARRAY_ENQUEUED}' THEN CASE WHEN delay_ms = 0 THEN n ELSE 0 END
                WHEN type = '{JOB_RELEASED}' THEN n
                WHEN ready_before.at IS NOT NULL
                    AND type IN ({quoted((JOB_CANCELLED, JOB_EXPIRED, JOB_DEAD))}) THEN -n
                ELSE 0 END AS waits, 0 AS runs
        FROM {marks} WHERE type <> '{CARRY}'"""

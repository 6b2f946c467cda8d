"""Jobs and attempts from events, as SQL.

Each event that changes the state of a job is a *mark*; the previous mark has the state before it.
A job that was open after the last batch is one more mark, `carry`, before its new ones, so that
only open jobs are ever read again. One pass over the marks of a job, in order, gives its attempts
(a mark after `running` ends one) and its row (the last mark of a life).

No query here uses WITH: Spark does not find a cached table below one, and would recompute `moves`
for each query.

A life begins when a job is accepted; if a forgotten id is accepted again it begins another life,
which is another job with a row of its own. Tasks of arrays have no mark of acceptance: their life
begins with the first assignment, and earlier data is from the array.
"""

from __future__ import annotations

from typing import Final

from rollq.grid.events import (
    JOB_ACKED,
    JOB_ASSIGNED,
    JOB_BLOCKED,
    JOB_CANCELLED,
    JOB_DEAD,
    JOB_DELAYED,
    JOB_ENQUEUED,
    JOB_EXPIRED,
    JOB_NACKED,
    JOB_PURGED,
    JOB_REDRIVEN,
    JOB_RELEASED,
    JOB_RETRIED,
    JOB_TIMED_OUT,
    JOB_UNBLOCKED,
    JOB_WORKER_LOST,
)
from rollq.spark.pipeline.dialect import SqlDialect

REQUEUES: Final = (JOB_TIMED_OUT, JOB_WORKER_LOST, JOB_NACKED, JOB_RETRIED)
ACCEPTED: Final = (JOB_ENQUEUED, JOB_DELAYED, JOB_BLOCKED)
MARKS: Final = (
    *(JOB_ENQUEUED, JOB_DELAYED, JOB_BLOCKED, JOB_RELEASED, JOB_UNBLOCKED),
    *(JOB_ASSIGNED, JOB_ACKED, *REQUEUES),
    *(JOB_DEAD, JOB_EXPIRED, JOB_CANCELLED, JOB_REDRIVEN, JOB_PURGED),
)
CARRY: Final = "carry"
# The states, as shown to users.
WAITING: Final = "waiting"
DELAYED: Final = "delayed"
BLOCKED: Final = "blocked"
RUNNING: Final = "running"
FINAL_STATES: Final = ("ok", "failed", "cancelled", "purged")  # a dead job may be redriven
# Job ids first: Spark sorts by a prefix of the first column, and groups have equal prefixes.
_WINDOW: Final = "PARTITION BY job_id, grp ORDER BY i, o"
OUTCOMES: Final = {  # of attempts, by the event that ended them
    JOB_CANCELLED: "cancelled",
    JOB_TIMED_OUT: "lease_lost",
    JOB_WORKER_LOST: "worker_down",
    JOB_NACKED: "nacked",
    JOB_RETRIED: "retried",
}
# Outcomes of attempts that came to nothing: the job goes back, or died.
UNFINISHED: Final = tuple(OUTCOMES[kind] for kind in REQUEUES)
CAUSES: Final = {  # of the numbers in the history
    0: "none",
    1: "lease_lost",
    2: "worker_down",
    3: "nacked",
    4: "exit_code",
    5: "expired",
    6: "worker_restarted",
    7: "id_taken",
    8: "parent",
}
# The outcome of the last attempt of a dead job, by cause; `dead` is one that ran, and had a
# retryable exit code.
_DEAD_OUTCOMES: Final = {1: "lease_lost", 2: "worker_down", 3: "nacked", 4: "dead"}
_EXIT_CODE: Final = 4  # the cause


def quoted(words: tuple[str, ...]) -> str:
    """A list of string literals in SQL."""
    return ", ".join(f"'{word}'" for word in words)


def moves(d: SqlDialect, *, has_arrays: bool, has_open: bool) -> str:
    """The marks that end an attempt or a life, with the values of the previous mark.

    Reads `news` (new events), `open_jobs` if there are any, and `array_lives` if some of the events
    are of tasks of arrays.
    """
    marks = _event_marks(d, has_arrays)
    if has_open:
        marks += f" UNION ALL {_carry_marks(d)}"
    behind = f"""
        SELECT *,
            lag(after) OVER ({_WINDOW}) AS p_after,
            lag(ts) OVER ({_WINDOW}) AS p_ts,
            lag(cause) OVER ({_WINDOW}) AS p_cause,
            lag(detail) OVER ({_WINDOW}) AS p_detail,
            lag(exit_code) OVER ({_WINDOW}) AS p_exit_code,
            lag(signal) OVER ({_WINDOW}) AS p_signal,
            lag(run_ms) OVER ({_WINDOW}) AS p_run_ms,
            lead(starts) OVER ({_WINDOW}) AS n_starts
        FROM ({marks})"""
    waited = f"""
        SELECT *,
            CASE WHEN type = '{CARRY}' THEN c_wait_ms
                WHEN type = '{JOB_ASSIGNED}' AND ready_at IS NOT NULL
                    THEN {d.between_ms("ready_at", "ts")}
                WHEN type = '{JOB_ASSIGNED}' AND p_after = '{WAITING}'
                    THEN {d.between_ms("p_ts", "ts")}
            END AS own_wait_ms
        FROM ({behind})"""
    known = f"""
        SELECT *,
            lag(own_wait_ms) OVER ({_WINDOW}) AS p_wait_ms,
            {d.latest(_begun(d), _WINDOW)} AS begun,
            {d.latest(_started(d), _WINDOW)} AS started,
            {d.latest(_assigned(d), _WINDOW)} AS assigned
        FROM ({waited})"""
    return f"""
        SELECT grp, job_id, i, o, ts, type, after, attempt, fence, priority, client_id, queue, exec,
            array_id, job_key, worker_id, status, exit_code, signal, run_ms, peak_bytes, blob_bytes,
            fetched_bytes, held_bytes, cause, detail, c_ended_at, p_after, p_ts, p_cause, p_detail,
            p_exit_code, p_signal, p_run_ms, p_wait_ms, own_wait_ms, begun.at AS begun_at,
            begun.body_bytes AS begun_body_bytes, begun.blob_bytes AS begun_blob_bytes,
            begun.request AS begun_request,
            started.at AS started_at,
            started.wait_ms AS started_wait_ms,
            assigned.wait_ms AS assigned_wait_ms,
            p_after = '{RUNNING}' AND type <> '{CARRY}' AS ends_attempt,
            coalesce(n_starts, true) AS is_last,
            coalesce(n_starts, false) AS is_superseded
        FROM ({known})
        WHERE (p_after = '{RUNNING}' AND type <> '{CARRY}') OR coalesce(n_starts, true)
            OR type IN ('{JOB_CANCELLED}', '{JOB_EXPIRED}')
    """


def _event_marks(d: SqlDialect, has_arrays: bool) -> str:
    """New events as marks. Missing text is NULL, so `array_id` identifies tasks."""
    first_of_task = f"(e.type = '{JOB_ASSIGNED}' AND e.attempt = 1 AND e.array_id IS NOT NULL)"
    lives = ("l.submitted_at", "l.body_bytes", "l.blob_bytes", "l.request")
    join = f"""
        LEFT JOIN array_lives l ON {first_of_task} AND e._group = l.grp AND e.array_id = l.array_id
            AND e._index >= l.first_index
            AND (l.next_index IS NULL OR e._index < l.next_index)"""
    of_none = ("CAST(NULL AS timestamp)", "0", "0", "CAST(NULL AS string)")
    of_array = lives if has_arrays else of_none
    ready_at = "l.ready_at" if has_arrays else "CAST(NULL AS timestamp)"
    accepted = f"e.type IN ({quoted(ACCEPTED)})"
    return f"""
        SELECT e._group AS grp, e.job_id, e._index AS i, e._ordinal AS o, e._ts AS ts, e.type,
            {after_of("e.type", "e.delay_ms", "e.status")} AS after,
            ({accepted} OR {first_of_task}) AS starts,
            e.attempt, e.fence, e.priority, e.client_id, e.queue, e.exec, e.array_id, e.job_key,
            e.worker_id, e.status, {_of_run("exit_code")}, {_of_run("signal")}, {_of_run("run_ms")},
            e.peak_bytes, e.blob_bytes, e.fetched_bytes, e.held_bytes, e.cause, e.detail,
            CASE WHEN {accepted} THEN e._ts WHEN {first_of_task} THEN {of_array[0]} END AS s_at,
            CASE WHEN {accepted} THEN e.body_bytes WHEN {first_of_task} THEN {of_array[1]} END
                AS s_body_bytes,
            CASE WHEN {accepted} THEN e.blob_bytes WHEN {first_of_task} THEN {of_array[2]} END
                AS s_blob_bytes,
            CASE WHEN {accepted} THEN e.request WHEN {first_of_task} THEN {of_array[3]} END
                AS s_request,
            {ready_at} AS ready_at,
            CAST(NULL AS timestamp) AS c_first_at, CAST(NULL AS bigint) AS c_first_wait_ms,
            CAST(NULL AS bigint) AS c_wait_ms, CAST(NULL AS timestamp) AS c_ended_at
        FROM news e {join if has_arrays else ""}
        WHERE e.job_id IS NOT NULL AND e.type IN ({quoted(MARKS)})
    """


def _of_run(column: str) -> str:
    """A field of a program that ran; NULL if it is not known to have run."""
    return f"""CASE WHEN e.type IN ({quoted((JOB_ACKED, JOB_RETRIED))})
            OR (e.type = '{JOB_DEAD}' AND e.cause = {_EXIT_CODE}) OR e.run_ms > 0
            THEN e.{column} END AS {column}"""


def after_of(kind: str, delay_ms: str, status: str) -> str:
    """The state after an event."""
    return f"""CASE
        WHEN {kind} IN ({quoted((JOB_ENQUEUED, JOB_RELEASED, JOB_REDRIVEN))}) THEN '{WAITING}'
        WHEN {kind} = '{JOB_ASSIGNED}' THEN '{RUNNING}'
        WHEN {kind} = '{JOB_ACKED}' THEN CASE WHEN {status} = 0 THEN 'ok' ELSE 'failed' END
        WHEN {kind} = '{JOB_DELAYED}' THEN '{DELAYED}'
        WHEN {kind} = '{JOB_BLOCKED}' THEN '{BLOCKED}'
        WHEN {kind} IN ({quoted((JOB_UNBLOCKED, *REQUEUES))}) THEN
            CASE WHEN {delay_ms} > 0 THEN '{DELAYED}' ELSE '{WAITING}' END
        WHEN {kind} IN ({quoted((JOB_DEAD, JOB_EXPIRED))}) THEN 'dead'
        WHEN {kind} = '{JOB_CANCELLED}' THEN 'cancelled'
        WHEN {kind} = '{JOB_PURGED}' THEN 'purged' END"""


def _carry_marks(d: SqlDialect) -> str:
    """Open jobs as their first marks."""
    return f"""
        SELECT {d.group}, job_id, last_index, last_ordinal, since, '{CARRY}', state, true,
            attempts, 0, priority, client_id, queue, exec, array_id, job_key,
            CAST(NULL AS string), status, exit_code, signal, run_ms, 0, 0, 0, 0, cause, detail,
            submitted_at, body_bytes, blob_bytes, request, CAST(NULL AS timestamp),
            first_assigned_at, wait_ms, last_wait_ms, ended_at
        FROM open_jobs
    """


def _begun(d: SqlDialect) -> str:
    """On marks that begin a life: data of the acceptance."""
    packed = d.pack(
        at="s_at", body_bytes="s_body_bytes", blob_bytes="s_blob_bytes", request="s_request"
    )
    return f"CASE WHEN starts THEN {packed} END"


def _started(d: SqlDialect) -> str:
    """On marks that begin a life, and on its first assignment: data of the latter."""
    return f"""CASE
        WHEN type = '{CARRY}' THEN {d.pack(at="c_first_at", wait_ms="c_first_wait_ms")}
        WHEN type = '{JOB_ASSIGNED}' AND attempt = 1 THEN {d.pack(at="ts", wait_ms="own_wait_ms")}
        WHEN starts THEN {d.pack(at="CAST(NULL AS timestamp)", wait_ms="CAST(NULL AS bigint)")}
        END"""


def _assigned(d: SqlDialect) -> str:
    """On marks that begin a life, and on every assignment: the wait before the latter."""
    return f"""CASE
        WHEN type IN ('{CARRY}', '{JOB_ASSIGNED}') THEN {d.pack(wait_ms="own_wait_ms")}
        WHEN starts THEN {d.pack(wait_ms="CAST(NULL AS bigint)")} END"""


def ended_attempts(d: SqlDialect) -> str:
    """Ended attempts, from `moves`."""
    dead = " ".join(f"WHEN {number} THEN '{word}'" for number, word in _DEAD_OUTCOMES.items())
    others = " ".join(f"WHEN '{kind}' THEN '{word}'" for kind, word in OUTCOMES.items())
    return f"""
        SELECT grp AS {d.group}, job_id, attempt, fence, exec, client_id, queue, worker_id,
            p_ts AS assigned_at, ts AS ended_at,
            CASE type
                WHEN '{JOB_ACKED}' THEN CASE WHEN status = 0 THEN 'ok' ELSE 'failed' END
                WHEN '{JOB_DEAD}' THEN CASE cause {dead} ELSE 'worker_down' END
                {others}
            END AS outcome,
            exit_code, signal, run_ms, {d.between_ms("p_ts", "ts")} AS held_ms,
            p_wait_ms AS wait_ms, peak_bytes, blob_bytes, fetched_bytes, held_bytes,
            {_slot_taken_at(d)} AS started_at
        FROM moves WHERE ends_attempt
    """


def _slot_taken_at(d: SqlDialect) -> str:
    """When an ended attempt began to run: `run_ms` before its end rather than at its assignment,
    because workers prefetch. NULL if it is not known to have run."""
    ran_at = d.moment(f"{d.ms('ts')} - run_ms")
    return f"CASE WHEN run_ms IS NOT NULL THEN least(ts, greatest(p_ts, {ran_at})) END"


def begun_attempts(d: SqlDialect) -> str:
    """Attempts that began in this batch and are still running, from `moves`."""
    return f"""
        SELECT grp AS {d.group}, job_id, attempt, fence, exec, client_id, queue, worker_id,
            ts AS assigned_at, CAST(NULL AS timestamp) AS ended_at, 'running' AS outcome,
            CAST(NULL AS int) AS exit_code, CAST(NULL AS int) AS signal,
            CAST(NULL AS bigint) AS run_ms, CAST(NULL AS bigint) AS held_ms,
            own_wait_ms AS wait_ms, CAST(NULL AS bigint) AS peak_bytes,
            CAST(NULL AS bigint) AS blob_bytes, CAST(NULL AS bigint) AS fetched_bytes,
            CAST(NULL AS bigint) AS held_bytes, CAST(NULL AS timestamp) AS started_at
        FROM moves WHERE is_last AND NOT is_superseded AND type = '{JOB_ASSIGNED}'
    """


def running_attempts(d: SqlDialect) -> str:
    """Attempts from before this batch that are still running, without new events. Reads
    `running_before` and `news`."""
    return f"""
        SELECT r.* FROM running_before r LEFT ANTI JOIN news n
            ON r.{d.group} = n._group AND r.job_id = n.job_id AND n.type IN ({quoted(MARKS)})
    """


def jobs(d: SqlDialect) -> str:
    """Rows of jobs from `moves`; `is_open` if a later batch may change them."""
    # A purge follows the end of the dead job.
    is_end = "after IN ('ok', 'failed', 'dead', 'cancelled', 'purged')"
    ended_at = f"""CASE WHEN type = '{CARRY}' THEN c_ended_at WHEN after = 'purged' THEN p_ts
        WHEN {is_end} THEN ts END"""
    status = f"""CASE WHEN type = '{CARRY}' OR after IN ('ok', 'failed') THEN status
        WHEN after IN ('dead', 'purged') THEN 1 WHEN after = 'cancelled' THEN 2 END"""
    closed = f"(is_superseded OR after IN ({quoted(FINAL_STATES)}))"

    def of_end(column: str) -> str:
        return f"""CASE WHEN after = 'purged' THEN p_{column}
            WHEN type = '{CARRY}' OR {is_end} THEN {column} END AS {column}"""

    return f"""
        SELECT grp AS {d.group}, job_id, job_key, client_id, queue, exec, array_id, priority,
            after AS state, begun_at AS submitted_at, started_at AS first_assigned_at, ended_at,
            end_status AS status, {of_end("exit_code")}, {of_end("signal")},
            CASE WHEN after = 'purged' THEN p_cause ELSE cause END AS cause,
            attempt AS attempts, started_wait_ms AS wait_ms, {of_end("run_ms")},
            {d.between_ms("begun_at", "ended_at")} AS total_ms,
            begun_body_bytes AS body_bytes, begun_blob_bytes AS blob_bytes,
            CASE WHEN after = 'purged' THEN p_detail ELSE detail END AS detail,
            i AS last_index, o AS last_ordinal, ts AS since, assigned_wait_ms AS last_wait_ms,
            begun_request AS request, is_open
        FROM (
            SELECT *, {ended_at} AS ended_at, {status} AS end_status, NOT {closed} AS is_open
            FROM moves WHERE is_last)
    """

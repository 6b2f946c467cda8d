"""The meaning of tables and columns: the one definition of figures. `docs/dictionary.md` is
generated from it, and Spark's `DESCRIBE` shows it. Text only; the computation is SQL elsewhere.
"""

from __future__ import annotations

from typing import Final

# The meaning of one row, by public table.
ROWS: Final = {
    "bronze_events": "a fact, as the history has it; key `_group`, `_index`, `_ordinal`",
    "silver_jobs": "a job as it stands; an id that was forgotten and accepted again is another job",
    "silver_attempts": "an attempt: a job that was assigned to a worker, until that ended",
    "silver_arrays": "an array; tasks that were never assigned are in no other silver table",
    "silver_workers": "a session of a worker, from its coming to its going or coming again",
    "silver_audit": "an act that somebody asked for, or a refusal",
    "gold_hourly": "an hour of all, or of one exec, client, queue or worker",
    "gold_dead": "dead jobs of an hour by exec and cause",
    "gold_depth": "a queue at the end of a minute in which a job came or went; valid until its next"
    " row",
    "gold_utilisation": "a worker in an hour in which some worker had a job",
    "gold_execs": "a program or function, over all time",
    "gold_checks": "a check of a batch and group",
}
# The meaning of a column, unless the table has its own.
_COMMON: Final = {
    "group": "name of the group",
    "job_id": "the job",
    "job_key": "what its owner calls the job",
    "client_id": "who submitted it",
    "queue": "its queue",
    "exec": "program or function",
    "worker_id": "the worker",
    "array_id": "of a task: its array",
    "priority": "higher first",
    "fence": "number of the attempt among all of the group",
    "exit_code": "of the program; NULL if it is not known to have run to its end",
    "signal": "that ended the program; 0: none; NULL as `exit_code`",
    "cause": "why it was lost or died: 0 none, 1 lease lost, 2 worker down, 3 nacked, 4 exit code,"
    " 5 expired, 6 worker restarted, 7 id taken, 8 parent",
    "detail": "for people: who cancelled it, what a worker said",
    "body_bytes": "of arguments and small files",
    "blob_bytes": "of the files that it needs; of an end: of those that it left",
    "fetched_bytes": "of the inputs of an attempt: brought to its worker for it",
    "held_bytes": "of the inputs of an attempt: its worker had them",
    "peak_bytes": "the most memory that it used",
    "request": "what it was asked to run, as JSON: `args`, `files`, names of `env`, 2 KiB at most",
    "hour": "start of the hour",
    "name": "what people call the worker",
    "slots": "how many jobs it runs at once",
    "last_index": "log index of the last event that is in this row",
    "last_ordinal": "place of that event in its log entry",
    "asked_by": "account that asked, or client id if nothing proves an account",
    "account": "account or role that was changed",
    "action": "that was refused, or done",
    "resource": "that it was refused or done on",
    "address": "from where it was asked",
    "parents": "of a new job: the jobs that it waits for, each with its condition, as JSON",
    "count": "tasks of an array, slots of a worker, cap of a client, files of a cache, refusals",
    "cache_id": "the cache",
    "attempt": "number of the attempt, from 1",
    "run_ms": "how long the program ran, as its worker measured; NULL if that was not told",
    "busy_ms": "time in which attempts ran: from `run_ms` before their end to their end, cut at the"
    " edges of hours, because workers fetch ahead",
    "submitted_at": "when it was accepted; NULL if the history begins later",
    "ended_at": "when it ended; NULL: it has not",
    "failed": "jobs whose program ended with another exit code than 0, and stayed so",
    "dead": "jobs that died: tried too often, or expired",
    "retried": "attempts that came to nothing and went back to the queue",
}
_PERCENTILES: Final = {
    f"{metric}_ms_p{percent}": f"{percent} of a hundred {words} at most this; exact, nearest rank"
    for metric, words in (
        ("wait", "assignments waited ready in their queue"),
        ("run", "attempts that ran to an end that their worker told took"),
    )
    for percent in (50, 95, 99)
}
# The meaning of a column in one table.
_BY_TABLE: Final = {
    "bronze_events": {
        "type": "what happened: `enqueue`, `assign`, `ack`, `dlq` and so on",
        "job_id": "the job; NULL if it is about something else, or an array as a whole",
        "queue": "its queue; of what an operator set: the pattern",
        "attempt": "number of the attempt, from 1; 0: it is about none",
        "delay_ms": "of a new job, or one that goes back: not before so much time",
        "lease_ms": "of an assignment",
        "status": "of an end: 0 OK, 1 failed, 2 cancelled",
        "exit_code": "of an end: of the program",
        "signal": "of an end: that ended the program",
        "run_ms": "of an end: how long the program ran",
        "detail": "name, patterns, error text, who asked",
        "_group": "name of the group",
        "_index": "log index",
        "_ordinal": "place in the log entry, from 0",
        "_ts": "time of the group when it happened",
    },
    "silver_jobs": {
        "state": "`blocked` (by jobs that it waits for), `waiting`, `delayed`, `running`, `ok`,"
        " `failed`, `dead`, `cancelled`, `purged`: dead, and taken from the list",
        "first_assigned_at": "first attempt; NULL: none yet",
        "status": "0 OK, 1 failed, 2 cancelled; NULL: it has not ended",
        "attempts": "how often it was assigned",
        "wait_ms": "ready in its queue before its first attempt",
        "run_ms": "of its last attempt",
        "total_ms": "from acceptance to end",
        "since": "when its state changed last",
        "last_wait_ms": "ready in its queue before its last attempt",
    },
    "silver_attempts": {
        "assigned_at": "when the worker got it",
        "outcome": "`ok`, `failed`, `cancelled`, `running`; `retried`, `nacked`, `lease_lost`,"
        " `worker_down`: it goes back or its job died; `dead`: the last of its job by exit code",
        "held_ms": "from assignment to end: the worker had it",
        "wait_ms": "its job was ready in the queue for so long before",
        "started_at": "when it began to run: `run_ms` before its end; NULL if `run_ms` is",
    },
    "silver_arrays": {
        "array_id": "the array",
        "tasks": "how many",
        "ready_at": "when its tasks could first be assigned",
        "first_index": "log index of its acceptance",
    },
    "silver_workers": {
        "up_at": "when it came",
        "down_at": "when it went; NULL: it is there",
    },
    "silver_audit": {
        "at": "when",
        "type": "`refused`, `act`, or the event of what was changed",
        "count": "how often it was refused",
        "_index": "log index",
        "_ordinal": "place in the log entry",
    },
    "gold_hourly": {
        "dimension": "`all`, `exec`, `client`, `queue` or `worker`",
        "name": "of that exec, client, queue or worker; empty for `all`",
        "submitted": "jobs and tasks that were accepted",
        "started": "attempts that were assigned",
        "succeeded": "jobs that ended with exit code 0",
        "cancelled": "jobs that were cancelled",
        "run_ms_sum": "of `run_ms` of attempts that ended in this hour",
        "bytes_moved": "`blob_bytes` and `fetched_bytes` of attempts that ended",
        "cache_hit_bytes": "`held_bytes` of attempts that ended",
        "cache_miss_bytes": "`fetched_bytes` of attempts that ended",
        "peak_bytes_max": "the greatest `peak_bytes` of attempts that ended",
    },
    "gold_dead": {
        "cause": "why, as a word: `lease_lost`, `exit_code`, `expired` and so on",
        "jobs": "how many died",
    },
    "gold_depth": {
        "minute": "start of the minute",
        "waiting": "jobs and tasks that are ready and not assigned, at its end",
        "running": "jobs that workers have, at its end",
    },
    "gold_utilisation": {
        "slots": "the most in this hour",
        "busy_ms": "as in `gold_hourly`; what has not ended counts from its assignment on, as far"
        " as slots are free, so never more than `capacity_ms`",
        "capacity_ms": "slots times the time for which the worker was there",
        "utilisation": "`busy_ms` of `capacity_ms`, from 0 to 1",
    },
    "gold_execs": {
        "jobs": "jobs and tasks that were accepted",
        "runs": "attempts that ran to an end that their worker told",
    },
    "gold_checks": {
        "batch": "number of the batch",
        "at": "when it was made",
        "name": "of the check",
        "outcome": "`ok`, `failed`, or `unknown`: it cannot be told where history is missing",
        "expected": "what should be found",
        "found": "what was found",
    },
}


def meaning_of(table: str, column: str) -> str:
    """The meaning of a column; empty for internal tables."""
    if table not in ROWS:
        return ""
    return _BY_TABLE[table].get(column) or _PERCENTILES.get(column) or _COMMON[column]

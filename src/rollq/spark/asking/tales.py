"""Timelines of single jobs for a report: which jobs, also by short ids, and their events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rollq.base.errors import ErrorCode, StateError
from rollq.spark.pipeline.dialect import SPARK
from rollq.spark.report.model import Attempt, Story, TimelineEvent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TELLING: Final = ("queue", "exec", "client_id", "attempt", "worker_id", "status", "exit_code")
FACTS_MAX: Final = 400
AMBIGUOUS_SHOWN: Final = 5


def job_like(spark: SparkSession, given: str, first: str, last: str) -> str:
    """The id of the one job in the tables whose digits, without dashes, begin and end so. `given`:
    how the user wrote it.

    Raises:
        StateError: UNKNOWN_JOB if the tables have none; AMBIGUOUS_ID if they have several.
    """
    digits = "replace(job_id, '-', '')"
    begins, ends = (f"{name}({digits}, " for name in ("startswith", "endswith"))
    rows = spark.sql(
        f"""SELECT DISTINCT job_id FROM jobs
            WHERE {begins}{SPARK.text(first)}) AND {ends}{SPARK.text(last)})
            ORDER BY job_id LIMIT {AMBIGUOUS_SHOWN + 1}"""
    ).collect()
    found = [row["job_id"] for row in rows]
    if not found:
        raise _unknown(given)
    if len(found) > 1:
        raise StateError(
            ErrorCode.AMBIGUOUS_ID,
            f"{given} is short for several ids",
            f"give more digits: {', '.join(found[:AMBIGUOUS_SHOWN])}",
        )
    return str(found[0])


def stories(
    spark: SparkSession, period_ms: tuple[int, int], job_id: str, workers: dict[str, str]
) -> list[Story]:
    """The requested job, or the notable jobs of the period.

    Raises:
        StateError: UNKNOWN_JOB if the tables do not have the job.
    """
    chosen = {job_id: "asked for"} if job_id else _standing_out(spark, *period_ms)
    if not chosen:
        return []
    # No parameters: by Connect, the parser of Delta leaves them unbound.
    ids = ", ".join(SPARK.text(one) for one in chosen)
    jobs = {
        row["job_id"]: row
        for row in spark.sql(
            f"""SELECT *, unix_millis(submitted_at) AS submitted_ms,
                       unix_millis(ended_at) AS ended_ms
                FROM jobs WHERE job_id IN ({ids})"""
        ).collect()
    }
    if job_id and job_id not in jobs:
        raise _unknown(job_id)
    attempts = spark.sql(
        f"""SELECT *, unix_millis(assigned_at) AS assigned_ms, unix_millis(ended_at) AS ended_ms
            FROM attempts WHERE job_id IN ({ids}) ORDER BY assigned_at, attempt"""
    ).collect()
    facts = spark.sql(
        f"""SELECT *, unix_millis(_ts) AS at_ms FROM events WHERE job_id IN ({ids})
            ORDER BY _index, _ordinal LIMIT {FACTS_MAX}"""
    ).collect()
    return [
        _story(
            jobs[one],
            why,
            [_attempt(row, workers) for row in attempts if row["job_id"] == one],
            [_fact(row, workers) for row in facts if row["job_id"] == one],
        )
        for one, why in chosen.items()
        if one in jobs
    ]


def _unknown(job: str) -> StateError:
    return StateError(
        ErrorCode.UNKNOWN_JOB,
        f"the tables do not know job {job}",
        "they are as the last rollq pipeline run left them",
    )


def _standing_out(spark: SparkSession, first_ms: int, last_ms: int) -> dict[str, str]:
    """Jobs that an operator would look at first, each with the reason."""
    (row,) = spark.sql(f"""
        SELECT max_by(job_id, struct(attempts, job_id)) FILTER (WHERE attempts > 1),
               max_by(job_id, struct(ended_at, job_id)) FILTER (WHERE state = 'dead'),
               max_by(job_id, struct(total_ms, job_id)) FILTER (WHERE state IN ('ok', 'failed'))
        FROM jobs
        WHERE submitted_at BETWEEN timestamp_millis({first_ms}) AND timestamp_millis({last_ms})
    """).collect()
    found: dict[str, str] = {}
    for job_id, why in zip(row, ("most attempts", "the last that died", "slowest"), strict=True):
        if job_id:
            found.setdefault(job_id, why)
    return found


def _story(row: Any, why: str, attempts: list[Attempt], facts: list[TimelineEvent]) -> Story:
    return Story(
        job_id=row["job_id"],
        why=why,
        state=row["state"] or "",
        exec_name=row["exec"] or "",
        queue=row["queue"] or "",
        client=row["client_id"] or "",
        key=row["job_key"] or "",
        submitted_ms=row["submitted_ms"],
        ended_ms=row["ended_ms"],
        detail=row["detail"] or "",
        attempts=attempts,
        facts=facts,
    )


def _attempt(row: Any, workers: dict[str, str]) -> Attempt:
    assigned = row["assigned_ms"]
    worker = row["worker_id"] or ""
    return Attempt(
        number=row["attempt"],
        worker=workers.get(worker, worker[:8]),
        ready_ms=assigned - (row["wait_ms"] or 0),
        assigned_ms=assigned,
        ended_ms=row["ended_ms"],
        outcome=row["outcome"] or "running",
    )


def _fact(row: Any, workers: dict[str, str]) -> TimelineEvent:
    """An event with its details as text."""
    said = []
    for name in _TELLING:
        value = row[name]
        if value:
            said.append(f"{name} {workers.get(value, value) if name == 'worker_id' else value}")
    if row["detail"]:
        said.append(row["detail"])
    return TimelineEvent(
        row["at_ms"], f"{row['_index']}.{row['_ordinal']}", row["type"], ", ".join(said)
    )

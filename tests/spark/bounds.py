"""What no table of the pipeline can say, whatever happened: bounds of physics, and sums that must
agree. Written from what the figures mean."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.spark.comparing import rows_of
from tests.spark.plain import Row

COUNTS = ("submitted", "started", "succeeded", "failed", "dead", "cancelled", "retried")
OPEN = ("waiting", "delayed", "running")


def impossible(out: Path) -> list[str]:
    """All that is so in the tables of a folder and cannot be."""
    tables = Tables(out)
    return [
        *busy_beyond_slots(tables),
        *depths_that_cannot_be(tables),
        *sums_that_differ(tables),
        *times_that_cannot_be(tables),
        *jobs_that_do_not_add_up(tables),
    ]


class Tables:
    """Rows of tables by name."""

    def __init__(self, out: Path) -> None:
        self._out = out

    def __getattr__(self, name: str) -> list[Row]:
        counted = rows_of(self._out, name)
        rows = [dict(row) for row, number in counted.items() for _ in range(number)]
        setattr(self, name, rows)
        return rows


def busy_beyond_slots(tables: Tables) -> Iterator[str]:
    """Nobody is busy for longer than the slots are there."""
    ran: dict[Any, int] = {}
    for row in tables.gold_hourly:
        if row["dimension"] == "worker":
            ran[row["group"], row["name"], row["hour"]] = row["busy_ms"]
    for row in tables.gold_utilisation:
        place = (row["group"], row["worker_id"], row["hour"])
        if not ran.pop(place, 0) <= row["busy_ms"] <= row["capacity_ms"]:
            yield f"busy beyond the slots: {row}"
    for place, busy_ms in ran.items():
        if busy_ms:
            yield f"busy for {busy_ms} ms while it was not there: {place}"
    run_ms = sum(row["run_ms"] or 0 for row in tables.silver_attempts)
    if (
        sum(
            ms
            for row in tables.gold_hourly
            if row["dimension"] == "all"
            for ms in (row["busy_ms"],)
        )
        > run_ms
    ):
        yield "workers were busy for longer than anything ran"


def depths_that_cannot_be(tables: Tables) -> Iterator[str]:
    """A queue holds no less than nothing; what runs at the end are attempts that have not ended."""
    last: dict[Any, Row] = {}
    for row in sorted(tables.gold_depth, key=lambda row: row["minute"]):
        if row["waiting"] < 0 or row["running"] < 0:
            yield f"less than nothing: {row}"
        last[row["group"], row["queue"]] = row
    running = sum(row["running"] for row in last.values())
    attempts = sum(row["ended_at"] is None for row in tables.silver_attempts)
    if running != attempts:
        yield f"{running} run by the depth, {attempts} by the attempts"
    waiting = sum(row["waiting"] for row in last.values())
    jobs = sum(row["state"] == "waiting" for row in tables.silver_jobs)
    if waiting < jobs:
        yield f"{waiting} wait by the depth, and {jobs} jobs do"


def sums_that_differ(tables: Tables) -> Iterator[str]:
    """What is told by exec, by client and by queue is the same as of all, and so is what all
    tables say of the same."""
    sums: dict[Any, Any] = defaultdict(lambda: defaultdict(int))
    for row in tables.gold_hourly:
        for name in (*COUNTS, "busy_ms", "run_ms_sum", "bytes_moved"):
            sums[name, row["group"], row["hour"]][row["dimension"]] += row[name]
    for place, by in sums.items():
        dimensions = ["exec", "client", "queue"]
        if place[0] in ("busy_ms", "run_ms_sum", "started"):
            dimensions.append("worker")
        for dimension in dimensions:
            if by[dimension] != by["all"]:
                yield f"{place}: {by[dimension]} by {dimension}, {by['all']} of all"
    everything: dict[str, int] = defaultdict(int)
    for (name, *_), by in sums.items():
        everything[name] += by["all"]
    execs = {
        name: sum(row[name] for row in tables.gold_execs)
        for name in tables.gold_execs[0]
        if name in ("jobs", "failed", "dead", "retried", "runs")
    }
    told = {
        "jobs": everything["submitted"],
        "failed": everything["failed"],
        "dead": everything["dead"],
        "retried": everything["retried"],
        "runs": sum(row["run_ms"] is not None for row in tables.silver_attempts),
    }
    if execs != told:
        yield f"by exec {execs}, by hour {told}"
    dead = sum(row["jobs"] for row in tables.gold_dead)
    if dead != everything["dead"]:
        yield f"{dead} dead by cause, {everything['dead']} by hour"


def times_that_cannot_be(tables: Tables) -> Iterator[str]:
    """Percentiles are in order; an attempt runs while its worker has it."""
    for row in (*tables.gold_hourly, *tables.gold_execs):
        for metric in ("wait", "run"):
            three = [row[f"{metric}_ms_p{percent}"] for percent in (50, 95, 99)]
            known = [one for one in three if one is not None]
            if known != sorted(known) or len(known) not in (0, 3) or known[:1] < [0][: len(known)]:
                yield f"{metric} {three}: {row}"
    for row in tables.silver_attempts:
        if row["started_at"] is not None:
            first = min(row["assigned_at"], row["ended_at"])
            if not first <= row["started_at"] <= row["ended_at"]:
                yield f"it ran while it was not there: {row}"


def jobs_that_do_not_add_up(tables: Tables) -> Iterator[str]:
    """Submitted and redriven are as many as ended or are open."""
    events = tables.bronze_events
    tasks = 0
    balance = 0
    for row in events:
        number = row["count"] if row["job_id"] is None else 1
        if row["type"] in ("enqueue", "delay", "array_enqueue", "redrive"):
            balance += number
        elif row["type"] in ("ack", "dlq", "expire", "cancel"):
            balance -= number
        # Tasks that were never assigned have no rows in the table of jobs.
        if row["type"] == "array_enqueue":
            tasks += row["count"]
        elif row["job_id"] is None and row["type"] in ("dlq", "expire", "cancel"):
            tasks -= row["count"]
        elif row["type"] == "assign" and row["attempt"] == 1 and row["array_id"] is not None:
            tasks -= 1
    jobs = sum(row["state"] in OPEN for row in tables.silver_jobs)
    if balance != jobs + tasks:
        yield f"{balance} jobs are open by what happened, {jobs} and {tasks} tasks are"

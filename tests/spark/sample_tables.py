"""Tables as the pipeline leaves them, made by hand from a small story, so that what is asked of
them can be told by counting."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

FIRST_MS = 1_795_003_200_000  # 2026-11-18 12:00:00 UTC
HOUR_MS = 3_600_000
IDLE_MS = FIRST_MS + 3 * HOUR_MS
WAIT_MS = 40
GROUP = "demo"
WORKERS = {"w-1": "ann", "w-2": "bob"}
DEPTHS = (("a", FIRST_MS, 3), ("b", FIRST_MS, 3), ("a", FIRST_MS + 2 * HOUR_MS, 1))

Rows = list[dict[str, Any]]


def job_id(number: int) -> str:
    return f"00000000-0000-0000-0000-{number:012x}"


def write_tables(folder: Path, count: int = 60, gap_ms: int = 500) -> None:
    """One job after the other, each for 400 ms; every tenth fails, every twentieth loses its
    first worker, and the last one dies."""
    story = Story(count, gap_ms)
    for name, rows in story.tables().items():
        (folder / name).mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(rows), folder / name / "part.parquet")


def at(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


class Story:
    """Plays it, and keeps what each table would hold."""

    def __init__(self, count: int, gap_ms: int) -> None:
        self.events: Rows = []
        self.jobs: Rows = []
        self.attempts: Rows = []
        self.last_ms = FIRST_MS
        for worker in WORKERS:
            self.event("worker_up", FIRST_MS - 60_000, worker_id=worker, count=1)
        for number in range(count):
            self.play(number, FIRST_MS + number * gap_ms, is_last=number == count - 1)

    def play(self, number: int, start: int, *, is_last: bool) -> None:
        name = job_id(number)
        self.event("enqueue", start, job_id=name)
        if is_last:
            self.attempt(name, 1, start, start + 400, "nacked")
            self.event("dlq", start + 400, job_id=name, cause=3, detail="no such exec")
            return self.job(name, "dead", start, start + 400, detail="no such exec")
        if number % 20 == 19:
            self.attempt(name, 1, start, start + 200, "worker_down")
            worker = self.attempts[-1]["worker_id"]  # it was started again
            self.event("worker_down_requeue", start + 200, job_id=name, cause=6, worker_id=worker)
            self.attempt(name, 2, start + 200, start + 640, "ok")
            self.event("ack", start + 640, job_id=name, run_ms=400)
            return self.job(name, "ok", start, start + 640, attempts=2)
        failed = number % 10 == 9
        self.attempt(name, 1, start, start + 440, "failed" if failed else "ok")
        self.event("ack", start + 440, job_id=name, status=int(failed), run_ms=400)
        state = "failed" if failed else "ok"
        return self.job(name, state, start, start + 440, exit_code=int(failed))

    def event(self, kind: str, ms: int, **fields: Any) -> None:
        self.last_ms = max(self.last_ms, ms)
        numbers = ["attempt", "status", "cause", "exit_code", "run_ms", "count", "priority"]
        numbers += ["fence", "delay_ms", "body_bytes", "blob_bytes"]
        row: dict[str, Any] = {name: fields.get(name, 0) for name in numbers}
        for name in ("job_id", "array_id", "queue", "exec", "client_id", "worker_id", "detail"):
            row[name] = fields.get(name)
        if "job_id" in fields:
            row |= {"queue": "default", "exec": "calc", "client_id": "cx"}
        row["request"] = "{}" if kind == "enqueue" else None
        row |= {"type": kind, "_group": GROUP, "_index": len(self.events) + 1, "_ordinal": 0}
        self.events.append(row | {"_ts": at(ms)})

    def attempt(self, name: str, number: int, ready: int, ended: int, outcome: str) -> None:
        assigned = ready + WAIT_MS
        worker = "w-1" if len(self.attempts) % 2 else "w-2"
        self.event("assign", assigned, job_id=name, attempt=number, worker_id=worker)
        self.attempts.append(
            {
                "group": GROUP,
                "job_id": name,
                "attempt": number,
                "exec": "calc",
                "queue": "default",
                "client_id": "cx",
                "worker_id": worker,
                "assigned_at": at(assigned),
                "ended_at": at(ended),
                "outcome": outcome,
                "run_ms": ended - assigned,
                "held_ms": ended - assigned,
                "wait_ms": assigned - ready,
                "started_at": at(assigned),
                **dict.fromkeys(("blob_bytes", "fetched_bytes", "held_bytes"), 0),
            }
        )

    def job(self, name: str, state: str, start: int, ended: int, **fields: Any) -> None:
        row = {
            "group": GROUP,
            "job_id": name,
            "job_key": None,
            "client_id": "cx",
            "queue": "default",
            "exec": "calc",
            "state": state,
            "submitted_at": at(start),
            "first_assigned_at": at(start + WAIT_MS),
            "ended_at": at(ended),
            "attempts": 1,
            "exit_code": 0,
            "total_ms": ended - start,
            "detail": None,
        }
        self.jobs.append(row | fields)

    def tables(self) -> dict[str, Rows]:
        hours = range(FIRST_MS, self.last_ms + 1, HOUR_MS)
        return {
            "bronze_events": self.events,
            "silver_jobs": self.jobs,
            "silver_attempts": self.attempts,
            "silver_arrays": [{"group": GROUP, "array_id": job_id(0)}],
            "silver_workers": [
                {"group": GROUP, "worker_id": worker, "name": name, "slots": 2}
                | {"up_at": at(FIRST_MS - 60_000), "down_at": at(self.last_ms + 60_000)}
                for worker, name in WORKERS.items()
            ],
            "silver_audit": [
                {"group": GROUP, "at": at(FIRST_MS), "type": "refused", "asked_by": "eve"}
                | {"action": "jobs.read", "resource": "client:bob", "count": 2}
            ],
            "gold_hourly": [self.hour(start) for start in hours],
            "gold_dead": [
                {
                    "group": GROUP,
                    "hour": at(hours[-1]),
                    "exec": "calc",
                    "cause": "nacked",
                    "jobs": 1,
                }
            ],
            "gold_depth": [
                {"group": GROUP, "queue": queue, "minute": at(ms)}
                | {"waiting": waiting, "running": 1}
                for queue, ms, waiting in DEPTHS
            ],
            "gold_utilisation": [
                self.busy(worker, start)
                for worker in WORKERS
                for start in hours
                if start != IDLE_MS
            ],
            "gold_execs": [
                {"group": GROUP, "exec": "calc", "jobs": len(self.jobs), "failed": 1, "dead": 1}
                | {"retried": 2}
                | times("wait", 40)
                | times("run", 400)
            ],
            "gold_checks": [
                {"group": GROUP, "batch": batch, "at": at(FIRST_MS), "name": name}
                | {"outcome": outcome, "expected": 0, "found": int(outcome == "failed")}
                for batch, outcome in ((1, "ok"), (2, "failed"))
                for name in ("ends", "jobs")
            ],
        }

    def hour(self, start: int) -> dict[str, Any]:
        counts = {"submitted": 7, "started": 7, "succeeded": 5, "failed": 1, "dead": 0}
        more = {"cancelled": 1, "retried": 2, "bytes_moved": 100, "cache_hit_bytes": 30}
        row = {"group": GROUP, "dimension": "all", "name": "", "hour": at(start)}
        return (
            row | counts | more | {"cache_miss_bytes": 10} | times("wait", 40) | times("run", 400)
        )

    def busy(self, worker: str, start: int) -> dict[str, Any]:
        row = {"group": GROUP, "worker_id": worker, "name": WORKERS[worker], "hour": at(start)}
        return row | {
            "slots": 2,
            "busy_ms": HOUR_MS,
            "capacity_ms": 2 * HOUR_MS,
            "utilisation": 0.5,
        }


def times(name: str, ms: int) -> dict[str, float]:
    return {f"{name}_ms_p{part}": float(ms + part) for part in (50, 95, 99)}

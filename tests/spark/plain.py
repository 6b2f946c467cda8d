"""The tables of the pipeline by the plainest of means: one loop over the events, in order.

Written from what the tables mean, not from how the pipeline makes them; slow and obvious.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MINUTE = 60_000
WAITS = ("enqueue", "release", "redrive")
REQUEUES = {
    "timeout_requeue": "lease_lost",
    "worker_down_requeue": "worker_down",
    "nack_requeue": "nacked",
    "retry_requeue": "retried",
}
DEAD_OUTCOMES = {1: "lease_lost", 2: "worker_down", 3: "nacked", 4: "dead", 6: "worker_down"}
STATUS = {"dead": 1, "purged": 1, "cancelled": 2}
Row = dict[str, Any]


def read(*folders: Path) -> list[Row]:
    """The events of folders of segments, in order."""
    files = sorted(file for folder in folders for file in (folder / "history").glob("*.jsonl"))
    lines = (line for file in files for line in file.read_text().splitlines())
    rows = [defaultdict(int, row) for row in map(json.loads, lines) if "footer" not in row]
    return sorted(rows, key=lambda row: (row["index"], row["ordinal"]))


def between(start: int | None, end: int | None) -> int | None:
    return None if start is None or end is None else max(end - start, 0)


def ran(row: Row) -> bool:
    """Whether an event tells of a program that ran."""
    kind = row.get("type")
    by_exit_code = kind in ("ack", "retry_requeue") or (kind == "dlq" and row["cause"] == 4)
    return by_exit_code or row.get("runMs", 0) > 0


def text(row: Row, name: str) -> str | None:
    return row.get(name) or None


@dataclass
class Job:
    """One life of a job."""

    row: Row
    state: str = ""
    since: int = 0
    submitted: int | None = None
    ready: int | None = None
    first_assigned: int | None = None
    first_wait: int | None = None
    wait: int | None = None
    ended: int | None = None
    body: int | None = None
    blob: int | None = None
    request: str | None = None
    last: Row = field(default_factory=dict)
    end: Row = field(default_factory=dict)


class Replay:
    """All tables of one group."""

    def __init__(self, group: str, rows: list[Row]) -> None:
        self.group = group
        self.rows = rows
        self.jobs: list[Job] = []
        self.attempts: list[Row] = []
        self.running: dict[str, Row] = {}
        self.levels: dict[tuple[str, int], list[int]] = defaultdict(lambda: [0, 0])
        self.changes: list[tuple[int, int, int]] = []  # moment, and how many more wait and run
        self.sessions: list[Row] = []
        self._alive: dict[str, Job] = {}
        self._arrays: dict[str, Row] = {}
        self._up: dict[str, Row] = {}
        self.horizon = max(row["ts"] for row in rows)
        for row in rows:
            self._take(row)

    def _take(self, row: Row) -> None:
        kind = row["type"]
        if kind in ("worker_up", "worker_down"):
            self._session(row)
        elif "jobId" in row:
            self._job(row)
        elif "arrayId" in row:
            self._array(row)

    def _step(self, row: Row, waits: int, runs: int) -> None:
        if waits or runs:
            self.changes.append((row["ts"], waits, runs))
            level = self.levels[row["queue"], row["ts"] // MINUTE * MINUTE]
            level[0] += waits
            level[1] += runs

    def _session(self, row: Row) -> None:
        before = self._up.pop(row["workerId"], None)
        if before is not None:
            before["down"] = row["ts"]
        if row["type"] == "worker_up":
            session = {
                "worker": row["workerId"],
                "name": row["detail"].split(" ")[0],
                "slots": row["count"],
                "up": row["ts"],
                "down": None,
            }
            self._up[row["workerId"]] = session
            self.sessions.append(session)

    def _array(self, row: Row) -> None:
        kind, array_id = row["type"], row["arrayId"]
        if kind == "array_enqueue":
            ready = None if row["delayMs"] else row["ts"]
            self._arrays[array_id] = {"row": row, "ready": ready}
            self._step(row, 0 if ready is None else row["count"], 0)
        elif kind == "release":
            self._arrays[array_id]["ready"] = row["ts"]
            self._step(row, row["count"], 0)
        elif kind in ("cancel", "expire", "dlq"):
            waited = self._arrays[array_id]["ready"] is not None
            self._step(row, -row["count"] if waited else 0, 0)

    def _job(self, row: Row) -> None:
        kind, job_id, ts = row["type"], row["jobId"], row["ts"]
        is_task = kind == "assign" and row["attempt"] == 1 and "arrayId" in row
        if kind in ("enqueue", "delay", "block") or is_task:
            job = self._alive[job_id] = Job(row)
            self.jobs.append(job)
            if is_task:
                array = self._arrays[row["arrayId"]]
                job.submitted, job.ready = array["row"]["ts"], array["ready"]
                job.body, job.blob = array["row"]["bodyBytes"], array["row"]["blobBytes"]
                job.request = text(array["row"], "request")
                job.state = "waiting"
            else:
                job.submitted, job.body, job.blob = ts, row["bodyBytes"], row["blobBytes"]
                job.request = text(row, "request")
        state = self._state_after(row)
        if not state:
            return
        job = self._alive[job_id]
        self._count(row, job.state, state)
        if job.state == "running":
            self._end_attempt(row)
        if state == "running":
            self._assign(job, row)
        if state == "waiting":
            job.ready = ts
        if state in ("ok", "failed", "dead", "cancelled"):
            job.ended, job.end = ts, row
        elif state != "purged":
            job.ended, job.end = None, {}
        job.state, job.since, job.last = state, ts, row

    @staticmethod
    def _state_after(row: Row) -> str:
        kind = row["type"]
        if kind in REQUEUES or kind == "unblock":
            return "delayed" if row["delayMs"] else "waiting"
        if kind in WAITS:
            return "waiting"
        if kind == "ack":
            return "failed" if row["status"] else "ok"
        return {
            "block": "blocked",
            "delay": "delayed",
            "assign": "running",
            "dlq": "dead",
            "expire": "dead",
            "cancel": "cancelled",
            "purge": "purged",
        }.get(kind, "")

    def _count(self, row: Row, before: str, after: str) -> None:
        waits = (after == "waiting") - (before == "waiting")
        runs = (after == "running") - (before == "running")
        self._step(row, waits, runs)

    def _assign(self, job: Job, row: Row) -> None:
        job.wait = between(job.ready, row["ts"])
        if row["attempt"] == 1:
            job.first_assigned, job.first_wait = row["ts"], job.wait
        self.running[row["jobId"]] = {"row": row, "wait": job.wait}

    def _end_attempt(self, row: Row) -> None:
        begun = self.running.pop(row["jobId"])
        kind = row["type"]
        if kind == "ack":
            outcome = "failed" if row["status"] else "ok"
        elif kind == "dlq":
            outcome = DEAD_OUTCOMES[row["cause"]]
        else:
            outcome = REQUEUES.get(kind, "cancelled")
        self.attempts.append({"begun": begun, "row": row, "outcome": outcome})

    # Tables

    def silver_jobs(self) -> list[Row]:
        return [self._job_row(job) for job in self.jobs]

    def _job_row(self, job: Job) -> Row:
        last, end = job.last, job.end
        told = end if job.state == "purged" else last
        acked = end.get("type") == "ack"
        return {
            "group": self.group,
            "job_id": job.row["jobId"],
            "job_key": text(job.row, "jobKey"),
            "client_id": job.row["clientId"],
            "queue": job.row["queue"],
            "exec": job.row["execName"],
            "array_id": text(last, "arrayId"),
            "priority": job.row["priority"],
            "state": job.state,
            "submitted_at": job.submitted,
            "first_assigned_at": job.first_assigned,
            "ended_at": job.ended,
            "status": end["status"] if acked else STATUS.get(job.state),
            "exit_code": end["exitCode"] if end and ran(end) else None,
            "signal": end["signal"] if end and ran(end) else None,
            "cause": told["cause"],
            "attempts": last["attempt"],
            "wait_ms": job.first_wait,
            "run_ms": end["runMs"] if end and ran(end) else None,
            "total_ms": between(job.submitted, job.ended),
            "body_bytes": job.body,
            "blob_bytes": job.blob,
            "detail": text(told, "detail"),
            "last_index": last["index"],
            "last_ordinal": last["ordinal"],
            "since": job.since,
            "last_wait_ms": job.wait,
            "request": job.request,
        }

    def silver_attempts(self) -> list[Row]:
        ended = [self._attempt_row(one["begun"], one) for one in self.attempts]
        return ended + [self._attempt_row(begun, None) for begun in self.running.values()]

    def _attempt_row(self, begun: Row, end: Row | None) -> Row:
        start, row = begun["row"], end["row"] if end else None
        run_ms = row["runMs"] if row and ran(row) else None
        return {
            "group": self.group,
            "job_id": start["jobId"],
            "attempt": start["attempt"],
            "fence": start["fence"],
            "exec": start["execName"],
            "client_id": start["clientId"],
            "queue": start["queue"],
            "worker_id": start["workerId"],
            "assigned_at": start["ts"],
            "ended_at": row["ts"] if row else None,
            "outcome": end["outcome"] if end else "running",
            "exit_code": row["exitCode"] if row and ran(row) else None,
            "signal": row["signal"] if row and ran(row) else None,
            "run_ms": run_ms,
            "held_ms": between(start["ts"], row["ts"]) if row else None,
            "wait_ms": begun["wait"],
            "peak_bytes": row["peakBytes"] if row else None,
            "blob_bytes": row["blobBytes"] if row else None,
            "fetched_bytes": row["fetchedBytes"] if row else None,
            "held_bytes": row["heldBytes"] if row else None,
            "started_at": None
            if row is None or run_ms is None
            else min(row["ts"], max(start["ts"], row["ts"] - run_ms)),
        }

"""The figures of the pipeline by plain means; see `plain`."""

from __future__ import annotations

from collections import defaultdict

from tests.spark.plain import REQUEUES, Replay, Row

HOUR = 3_600_000
CAUSES = ["none", "lease_lost", "worker_down", "nacked", "exit_code", "expired"]
CAUSES += ["worker_restarted", "id_taken"]
COUNTS = ["submitted", "started", "succeeded", "failed", "dead", "cancelled", "retried"]
SUMS = ["run_ms_sum", "busy_ms", "bytes_moved", "cache_hit_bytes", "cache_miss_bytes"]


class Plain(Replay):
    """All tables of one group."""

    def gold_hourly(self) -> list[Row]:
        cells: dict[tuple[str, str, int], Row] = {}

        def add(row: Row, ts: int, counts: Row, **values: int | None) -> None:
            names = {
                "all": "",
                "exec": row.get("execName"),
                "client": row.get("clientId"),
                "queue": row.get("queue"),
                "worker": row.get("workerId"),
            }
            for dimension, name in names.items():
                if name is None:
                    continue
                cell = cells.setdefault((dimension, name, ts // HOUR * HOUR), defaultdict(int))
                for key, value in counts.items():
                    cell[key] += value
                for key, one in values.items():
                    if one is not None:
                        cell.setdefault(key, []).append(one)

        for row in self.rows:
            n = 1 if "jobId" in row else row["count"]
            for name, kinds in (
                ("submitted", ("enqueue", "delay", "block", "array_enqueue")),
                ("dead", ("dlq", "expire")),
                ("cancelled", ("cancel",)),
                ("retried", REQUEUES),
            ):
                if row["type"] in kinds:
                    add(row, row["ts"], {name: n})
        for attempt in self.silver_attempts():
            names = {
                "execName": attempt["exec"],
                "clientId": attempt["client_id"],
                "queue": attempt["queue"],
                "workerId": attempt["worker_id"],
            }
            add(names, attempt["assigned_at"], {"started": 1}, wait=attempt["wait_ms"])
            if attempt["ended_at"] is not None:
                counts = {
                    "succeeded": attempt["outcome"] == "ok",
                    "failed": attempt["outcome"] == "failed",
                    "run_ms_sum": attempt["run_ms"] or 0,
                    "bytes_moved": attempt["blob_bytes"] + attempt["fetched_bytes"],
                    "cache_hit_bytes": attempt["held_bytes"],
                    "cache_miss_bytes": attempt["fetched_bytes"],
                }
                add(
                    names,
                    attempt["ended_at"],
                    counts,
                    run=attempt["run_ms"],
                    peak=attempt["peak_bytes"],
                )
            if attempt["started_at"] is not None:
                for hour, ms in _hours_of_run(attempt):
                    add(names, hour, {"busy_ms": ms})
        return [
            {"group": self.group, "dimension": dimension, "name": name, "hour": hour}
            | {key: int(cell[key]) for key in (*COUNTS, *SUMS)}
            | _percentiles("wait", cell.get("wait", []))
            | _percentiles("run", cell.get("run", []))
            | {"peak_bytes_max": max(cell.get("peak", [0]))}
            for (dimension, name, hour), cell in cells.items()
        ]

    def gold_dead(self) -> list[Row]:
        counts: dict[tuple[int, str, str], int] = defaultdict(int)
        for row in self.rows:
            if row["type"] in ("dlq", "expire"):
                key = (row["ts"] // HOUR * HOUR, row["execName"], CAUSES[row["cause"]])
                counts[key] += 1 if "jobId" in row else row["count"]
        return [
            {"group": self.group, "hour": hour, "exec": name, "cause": cause, "jobs": jobs}
            for (hour, name, cause), jobs in counts.items()
        ]

    def gold_depth(self) -> list[Row]:
        rows = []
        for queue in {queue for queue, _ in self.levels}:
            waiting = running = 0
            for minute in sorted(minute for each, minute in self.levels if each == queue):
                waits, runs = self.levels[queue, minute]
                waiting, running = waiting + waits, running + runs
                rows.append(
                    {"group": self.group, "queue": queue, "minute": minute}
                    | {"waiting": waiting, "running": running}
                )
        return rows

    def gold_utilisation(self) -> list[Row]:
        cells: dict[tuple[str, int], Row] = defaultdict(lambda: defaultdict(int))
        hours = set()
        for attempt in self.silver_attempts():
            if attempt["ended_at"] is None:
                ran = _hours(attempt["assigned_at"], self.horizon, has_all=True)
            else:
                ran = _hours_of_run(attempt)
            for hour, ms in ran:
                hours.add(hour)
                cells[attempt["worker_id"], hour]["busy"] += ms
        for session in self.sessions:
            end = self.horizon if session["down"] is None else session["down"]
            for hour, ms in _hours(session["up"], end):
                if hour in hours:
                    cell = cells[session["worker"], hour]
                    cell["capacity"] += ms * session["slots"]
                    cell["slots"] = max(cell["slots"], session["slots"])
                    cell["name"] = session["name"]
        for cell in cells.values():
            cell["busy"] = min(cell["busy"], cell["capacity"] or cell["busy"])
        return [
            {"group": self.group, "worker_id": worker, "name": cell.get("name"), "hour": hour}
            | {"slots": cell["slots"], "busy_ms": cell["busy"], "capacity_ms": cell["capacity"]}
            | {"utilisation": cell["busy"] / cell["capacity"] if cell["capacity"] else None}
            for (worker, hour), cell in cells.items()
            if cell["busy"] or cell["capacity"]
        ]

    def gold_execs(self) -> list[Row]:
        cells: dict[str, Row] = defaultdict(lambda: defaultdict(int))
        for row in self.rows:
            n = 1 if "jobId" in row else row["count"]
            if row["type"] in ("enqueue", "delay", "block", "array_enqueue"):
                cells[row["execName"]]["jobs"] += n
            elif row["type"] in ("dlq", "expire"):
                cells[row["execName"]]["dead"] += n
            elif row["type"] in REQUEUES:
                cells[row["execName"]]["retried"] += 1
        for attempt in self.silver_attempts():
            if attempt["ended_at"] is None:
                continue
            cell = cells[attempt["exec"]]
            if attempt["run_ms"] is not None:
                cell.setdefault("run", []).append(attempt["run_ms"])
            cell["failed"] += attempt["outcome"] == "failed"
            if attempt["wait_ms"] is not None:
                cell.setdefault("wait", []).append(attempt["wait_ms"])
        return [
            {"group": self.group, "exec": name, "runs": len(cell.get("run", []))}
            | {key: int(cell[key]) for key in ("jobs", "failed", "dead", "retried")}
            | _percentiles("run", cell.get("run", []))
            | _percentiles("wait", cell.get("wait", []))
            for name, cell in cells.items()
        ]


def _percentiles(metric: str, values: list[int]) -> Row:
    return {f"{metric}_ms_p{percent}": percentile(values, percent) for percent in (50, 95, 99)}


def _hours(start: int, end: int, *, has_all: bool = False) -> list[tuple[int, int]]:
    """What of a span of time lies in which hour; with `has_all`, also of those that it touches."""
    first = start // HOUR * HOUR
    return [
        (hour, max(min(end, hour + HOUR) - max(start, hour), 0))
        for hour in range(first, max(start, end) + 1, HOUR)
        if has_all or min(end, hour + HOUR) > max(start, hour)
    ]


def _hours_of_run(attempt: Row) -> list[tuple[int, int]]:
    """In which hours an attempt that ended ran for how long; nothing if it is not known to."""
    if attempt["started_at"] is None:
        return []
    if attempt["started_at"] == attempt["ended_at"]:
        return [(attempt["ended_at"] // HOUR * HOUR, 0)]
    return _hours(attempt["started_at"], attempt["ended_at"])


def percentile(values: list[int], percent: int) -> int | None:
    """The smallest value that so many of a hundred do not exceed."""
    if not values:
        return None
    return sorted(values)[-(-len(values) * percent // 100) - 1]

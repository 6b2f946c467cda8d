"""The figures of a report by plain means; see `plain`."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from rollq.base.jobs import Cause
from tests.spark.plain import DEAD_OUTCOMES, MINUTE, REQUEUES, Row
from tests.spark.plain_gold import CAUSES, Plain, percentile

BEGINS = ("enqueue", "delay", "array_enqueue", "redrive")
ENDS = ("ack", "dlq", "expire", "cancel")
LOSSES = (*(Cause.LEASE_LOST, Cause.WORKER_DOWN, Cause.NACKED), Cause.WORKER_RESTARTED)
COUNTED = ("submitted", "succeeded", "failed", "dead", "cancelled", "retried")


class PlainReport:
    """What a report must say of the time from one moment to another, both included."""

    def __init__(self, tables: Plain, first: int, last: int) -> None:
        self.tables = tables
        self.first, self.last = first, last
        self.events = [row for row in tables.rows if first <= row["ts"] <= last]
        self.attempts = tables.silver_attempts()

    def slots(self, step: int) -> dict[int, Row]:
        """By slot, what happened, and how long waiting and running took."""
        slots: dict[int, Any] = defaultdict(lambda: dict.fromkeys(COUNTED, 0))
        for row in self.events:
            if name := _count_of(row):
                slots[row["ts"] // step * step][name] += _number(row)
        for name, moment in (("wait", "assigned_at"), ("run", "ended_at")):
            times: dict[int, list[int]] = defaultdict(list)
            for row in self._within(moment):
                if row[f"{name}_ms"] is not None:
                    times[row[moment] // step * step].append(row[f"{name}_ms"])
            for start, values in times.items():
                slots[start][name] = _percentiles(values)
        return dict(slots)

    def percentiles(self, name: str, moment: str) -> tuple[int | None, ...]:
        values = [row[name] for row in self._within(moment) if row[name] is not None]
        return _percentiles(values)

    def shares(self, name: str) -> dict[str, Row]:
        """By queue, client or program: what became of its jobs, and how long each took."""
        column = {"client": "client_id"}.get(name, name)
        of_events = {"client": "clientId", "exec": "execName"}.get(name, name)
        shares: dict[str, Any] = defaultdict(lambda: dict.fromkeys(COUNTED, 0))
        for row in self.events:
            if counted := _count_of(row):
                shares[row.get(of_events, "")][counted] += _number(row)
        for metric, moment in (("wait", "assigned_at"), ("run", "ended_at")):
            times: dict[str, list[int]] = defaultdict(list)
            for row in self._within(moment):
                if row[f"{metric}_ms"] is not None:
                    times[row[column] or ""].append(row[f"{metric}_ms"])
            for one, values in times.items():
                if one in shares:
                    shares[one][metric] = _percentiles(values)
        return dict(shares)

    def lost(self) -> int:
        """Jobs that workers had when they went, or began anew."""
        went = [row.get("count", 0) for row in self.events if row["type"] == "worker_down"]
        anew = [1 for row in self.events if row.get("cause") == Cause.WORKER_RESTARTED]
        return sum([*went, *anew])

    def depth(self, step: int) -> dict[int, tuple[int, int]]:
        """By slot: how many wait and run at its end, or if a slot is minutes, the most that did at
        the end of one of them."""
        piece = min(step, MINUTE)
        steps: dict[int, list[int]] = defaultdict(lambda: [0, 0])
        for ts, waits, runs in self.tables.changes:
            steps[ts // piece * piece][0] += waits
            steps[ts // piece * piece][1] += runs
        depth: dict[int, tuple[int, int]] = {}
        waiting = running = 0
        begin = min(*steps, self.first // step * step)
        for at in range(begin, self.last // step * step + step, piece):
            waiting, running = waiting + steps[at][0], running + steps[at][1]
            slot = at // step * step
            most = depth.get(slot, (0, 0))
            depth[slot] = (max(waiting, most[0]), max(running, most[1]))
        return {slot: one for slot, one in depth.items() if slot >= self.first // step * step}

    def busy(self, step: int) -> dict[tuple[str, int], float]:
        """By name of a worker and slot, which share of its slots was busy."""
        busy: dict[tuple[str, int], int] = defaultdict(int)
        for row in self.attempts:
            is_open = row["ended_at"] is None
            start = row["assigned_at"] if is_open else row["started_at"]
            end = self.last if is_open else row["ended_at"]
            if start is None:
                continue
            for slot in range(start // step * step, end + 1, step):
                part = min(end, slot + step) - max(start, slot)
                busy[row["worker_id"], slot] += max(part, 0)
        room: dict[tuple[str, int], int] = defaultdict(int)
        for one in self.tables.sessions:
            end = self.last if one["down"] is None else one["down"]
            for slot in range(one["up"] // step * step, end + 1, step):
                part = min(end, slot + step, self.last) - max(one["up"], slot)
                if part > 0:
                    room[one["worker"], slot] += part * one["slots"]
        first = self.first // step * step
        return {
            place: min(1.0, busy[place] / capacity)
            for place, capacity in room.items()
            if place[1] >= first
        }

    def causes(self) -> tuple[Counter[str], Counter[str]]:
        """How often attempts came to nothing, and jobs died, for what."""
        lost: Counter[str] = Counter()
        dead: Counter[str] = Counter()
        for row in self.events:
            if row["type"] in REQUEUES:
                lost[REQUEUES[row["type"]]] += 1
            elif row["type"] in ("dlq", "expire"):
                if row["type"] == "dlq" and row["cause"] in LOSSES:
                    lost[DEAD_OUTCOMES[row["cause"]]] += 1
                dead[CAUSES[row["cause"]]] += _number(row)
        return lost, dead

    def balance(self) -> tuple[int, int]:
        """How many were open before, and how many were redriven."""
        before = sum(
            _number(row) * ((row["type"] in BEGINS) - (row["type"] in ENDS))
            for row in self.tables.rows
            if row["ts"] < self.first
        )
        return before, sum(_number(row) for row in self.events if row["type"] == "redrive")

    def bytes_moved(self) -> tuple[int, int, int]:
        rows = self._within("ended_at")
        return (
            sum(row["blob_bytes"] + row["fetched_bytes"] for row in rows),
            sum(row["held_bytes"] for row in rows),
            sum(row["fetched_bytes"] for row in rows),
        )

    def _within(self, moment: str) -> list[Row]:
        return [
            row
            for row in self.attempts
            if row[moment] is not None and self.first <= row[moment] <= self.last
        ]


def _number(row: Row) -> int:
    return 1 if "jobId" in row else int(row["count"])


def _count_of(row: Row) -> str:
    kind = row["type"]
    if kind == "ack":
        return "failed" if row["status"] else "succeeded"
    if kind in REQUEUES:
        return "retried"
    names = {"enqueue": "submitted", "delay": "submitted", "array_enqueue": "submitted"}
    names |= {"dlq": "dead", "expire": "dead", "cancel": "cancelled"}
    return names.get(kind, "")


def _percentiles(values: list[int]) -> tuple[int | None, ...]:
    return tuple(percentile(values, percent) for percent in (50, 95, 99))

"""Worker utilisation: from gold by hour, or from attempts where hours are too coarse."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from typing import Final, NamedTuple

from rollq.spark.asking.periods import PeriodQueries
from rollq.spark.report.model import Heat, WorkerFigures
from rollq.spark.report.scales import HOUR

WORKERS_MAX: Final = 40


class WorkerUptime(NamedTuple):
    """A session of a worker."""

    worker_id: str
    name: str
    slots: int
    up_ms: int
    down_ms: int
    group: str = ""


class Busy(PeriodQueries):
    """Queries about workers."""

    def heat(self) -> Heat:
        """Utilisation by worker and slot: of the busiest workers, sorted by name."""
        step = self.period.slot_ms
        starts = tuple(self.period.starts(step))
        busy = self._fine_busy() if self.period.is_fine else self._gold_busy()
        workers: dict[str, dict[int, tuple[float, float]]] = defaultdict(dict)
        for worker_id, start, used, room in busy:
            workers[worker_id][start] = (used, room)
        order = sorted(workers, key=lambda one: -sum(used for used, _ in workers[one].values()))
        rows = []
        for worker_id in order[:WORKERS_MAX]:
            cells = workers[worker_id]
            room = sum(one for _, one in cells.values())
            share = sum(used for used, _ in cells.values()) / room if room else 0.0
            known = tuple(_share(cells.get(start)) for start in starts)
            last = self.last_sessions.get(worker_id)
            name, slots = (last.name, last.slots) if last else (worker_id[:8], 1)
            rows.append(WorkerFigures(name, slots, min(share, 1.0), known))
        rows.sort(key=lambda row: row.name)
        return Heat(starts, step, tuple(rows), max(0, len(order) - WORKERS_MAX))

    def _gold_busy(self) -> Iterator[tuple[str, int, float, float]]:
        """From gold, which has no rows for hours in which no worker had a job."""
        rows = self.rows(f"""
            SELECT worker_id, {self.slot("hour")}, sum(busy_ms), sum(capacity_ms)
            FROM utilisation WHERE {self.within("hour", HOUR)} GROUP BY 1, 2
        """)
        known = {(row[0], row[1]): (float(row[2]), float(row[3])) for row in rows}
        room = self._room()
        for worker_id, start in {**known, **room}:
            used, told = known.get((worker_id, start), (0.0, 0.0))
            yield worker_id, start, used, max(told, room.get((worker_id, start), 0.0))

    def _fine_busy(self) -> Iterator[tuple[str, int, float, float]]:
        """From attempts, split at slot boundaries as in gold: ended attempts count from their
        start, running ones from their assignment. A connected worker without attempts is idle."""
        step, last = self.period.slot_ms, self.period.last_ms
        first = self.period.starts(step).start
        rows = self.rows(f"""
            WITH runs AS (
                SELECT worker_id, coalesce(unix_millis(ended_at), {last}) AS ended,
                       unix_millis(if(ended_at IS NULL, assigned_at, started_at)) AS began
                FROM attempts WHERE worker_id IS NOT NULL),
            pieces AS (
                SELECT *, explode(sequence({self.slot_of(f"greatest(began, {first})")},
                                           {self.slot_of("ended")}, {step}L)) AS slot
                FROM runs WHERE ended >= {first} AND began <= ended AND ended <= {last})
            SELECT worker_id, slot, sum(least(ended, slot + {step}) - greatest(began, slot))
            FROM pieces GROUP BY 1, 2
        """)
        used = {(row[0], row[1]): float(row[2]) for row in rows}
        for (worker_id, start), capacity in self._room().items():
            yield worker_id, start, used.get((worker_id, start), 0.0), capacity

    def _room(self) -> dict[tuple[str, int], float]:
        """The capacity in milliseconds, by worker and slot."""
        step, last = self.period.slot_ms, self.period.last_ms
        room: dict[tuple[str, int], float] = defaultdict(float)
        for one in self.sessions:
            for start in self.period.starts(step):
                there = min(one.down_ms, start + step, last) - max(one.up_ms, start)
                if there > 0:
                    room[one.worker_id, start] += there * one.slots
        return room

    @cached_property
    def sessions(self) -> list[WorkerUptime]:
        """Worker sessions that overlap the period."""
        first, last = self.period.first_ms, self.period.last_ms
        rows = self.rows(f"""
            SELECT worker_id, coalesce(nullif(name, ''), left(worker_id, 8)),
                   greatest(coalesce(slots, 1), 1),
                   unix_millis(up_at), coalesce(unix_millis(down_at), {last}),
                   coalesce(`group`, '')
            FROM workers
            WHERE up_at <= timestamp_millis({last})
              AND coalesce(unix_millis(down_at), {last}) >= {first}
            ORDER BY up_at
        """)
        return [WorkerUptime(*row) for row in rows]

    @cached_property
    def last_sessions(self) -> dict[str, WorkerUptime]:
        """The latest session of each worker."""
        return {one.worker_id: one for one in self.sessions}

    def worker_names(self) -> dict[str, str]:
        """Worker names by id."""
        return {worker_id: one.name for worker_id, one in self.last_sessions.items()}


def _share(cell: tuple[float, float] | None) -> float | None:
    if cell is None or not cell[1]:
        return None
    return min(1.0, cell[0] / cell[1])

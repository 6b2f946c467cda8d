"""How busy the workers were: from gold by the hour, from attempts where hours are too coarse."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, Final

from rollq.spark.asking.periods import Asked
from rollq.spark.report.model import Heat, WorkerRow
from rollq.spark.report.scales import HOUR

WORKERS_MAX: Final = 40


class Busy(Asked):
    """The questions about workers."""

    _known: dict[str, tuple[str, int]] | None = None

    def heat(self) -> Heat:
        """How busy the workers were, the busiest first to be chosen, all by name."""
        step = self.period.slot_ms
        starts = tuple(self.period.starts(step))
        busy = self._fine_busy() if self.period.is_fine else self._gold_busy()
        names = self.worker_slots()
        workers: dict[str, dict[int, tuple[float, float]]] = defaultdict(dict)
        for worker_id, start, used, room in busy:
            workers[worker_id][start] = (used, room)
        order = sorted(workers, key=lambda one: -sum(used for used, _ in workers[one].values()))
        rows = []
        for worker_id in order[:WORKERS_MAX]:
            name, slots = names.get(worker_id, (worker_id[:8], 1))
            cells = workers[worker_id]
            room = sum(one for _, one in cells.values())
            share = sum(used for used, _ in cells.values()) / room if room else 0.0
            known = tuple(_share(cells.get(start)) for start in starts)
            rows.append(WorkerRow(name, slots, min(share, 1.0), known))
        rows.sort(key=lambda row: row.name)
        return Heat(starts, step, tuple(rows), max(0, len(order) - WORKERS_MAX))

    def _gold_busy(self) -> Iterable[Any]:
        return self.rows(f"""
            SELECT worker_id, {self.slot("hour")}, sum(busy_ms), sum(capacity_ms)
            FROM utilisation WHERE {self.within("hour", HOUR)} GROUP BY 1, 2
        """)

    def _fine_busy(self) -> Iterator[tuple[str, int, float, float]]:
        """From attempts, cut at the edges of slots. An attempt runs at the end of the time that
        its worker holds it. A worker that did nothing in a slot was idle, not away."""
        step, last = self.period.slot_ms, self.period.last_ms
        first = self.period.starts(step).start
        rows = self.rows(f"""
            WITH runs AS (
                SELECT worker_id, coalesce(unix_millis(ended_at), {last}) AS ended,
                       CASE WHEN ended_at IS NULL THEN unix_millis(assigned_at)
                            ELSE unix_millis(ended_at) - coalesce(run_ms, held_ms, 0) END AS began
                FROM attempts WHERE worker_id IS NOT NULL),
            pieces AS (
                SELECT *, explode(sequence({self.slot_of(f"greatest(began, {first})")},
                                           {self.slot_of("ended")}, {step}L)) AS slot
                FROM runs WHERE ended >= {first} AND began <= ended AND ended <= {last})
            SELECT worker_id, slot, sum(least(ended, slot + {step}) - greatest(began, slot))
            FROM pieces GROUP BY 1, 2
        """)
        used = {(row[0], row[1]): float(row[2]) for row in rows}
        for worker_id, (_, slots) in self.worker_slots().items():
            for start in self.period.starts(step):
                yield worker_id, start, used.get((worker_id, start), 0.0), float(slots * step)

    def worker_slots(self) -> dict[str, tuple[str, int]]:
        """Names and slots of the workers that were there in the period."""
        if self._known is None:
            rows = self.rows(f"""
                SELECT worker_id, max_by(name, hour), max_by(slots, hour) FROM utilisation
                WHERE {self.within("hour", HOUR)} GROUP BY 1
            """)
            self._known = {row[0]: (row[1] or row[0][:8], row[2] or 1) for row in rows}
        return self._known

    def worker_names(self) -> dict[str, str]:
        """What people call the workers."""
        return {worker_id: name for worker_id, (name, _) in self.worker_slots().items()}


def _share(cell: tuple[float, float] | None) -> float | None:
    if cell is None or not cell[1]:
        return None
    return min(1.0, cell[0] / cell[1])

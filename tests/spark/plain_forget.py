"""Which events stay when some are removed from the tables, by plain means; see `plain`."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.spark.plain import Replay, Row

OVER = ("ok", "failed", "cancelled", "purged")


@dataclass
class Life:
    """A job, or an array with its tasks, from its acceptance on."""

    rows: list[Row] = field(default_factory=list)
    states: dict[str, str] = field(default_factory=dict)  # of jobs
    is_array: bool = False
    has_ended: bool = False  # the array
    last_mark: int = 0  # index of the last event that changed a state

    def take(self, row: Row) -> None:
        self.rows.append(row)
        job_id, kind = row.get("jobId"), row["type"]
        if job_id is None:
            if kind == "array_end" and not self.has_ended:
                self.has_ended, self.last_mark = True, row["index"]
        elif kind == "forget" and job_id in self.states:
            self.states[job_id] = "ok"  # nobody can redrive it any more
        elif state := Replay._state_after(row):
            self.states[job_id], self.last_mark = state, row["index"]

    @property
    def is_over(self) -> bool:
        return (self.has_ended or not self.is_array) and set(self.states.values()) <= set(OVER)


def staying(rows: list[Row], client: str = "", before_ms: int | None = None) -> list[Row]:
    """What is left of the events of one group."""
    later = [row["index"] for row in rows if before_ms is not None and row["ts"] >= before_ms]
    first_later = min(later, default=1 << 62)
    gone: set[tuple[int, int]] = set()
    for rows_together, may_go in _together(rows, first_later, before_ms):
        for row in rows_together:
            if may_go and row["index"] < first_later and client in ("", row.get("clientId")):
                gone.add((row["index"], row["ordinal"]))
    return [row for row in rows if (row["index"], row["ordinal"]) not in gone]


def _together(
    rows: list[Row], first_later: int, before_ms: int | None
) -> list[tuple[list[Row], bool]]:
    """Events that stay or go together, and whether they may go."""
    lives: dict[str, list[Life]] = {}
    sessions: dict[str, list[list[Row]]] = {}
    alone: list[Row] = []
    for row in rows:
        unit = row.get("arrayId") or row.get("jobId")
        if unit:
            if row["type"] in ("enqueue", "delay", "block", "array_enqueue") or unit not in lives:
                is_array = row["type"] == "array_enqueue"
                lives.setdefault(unit, []).append(Life(is_array=is_array))
            lives[unit][-1].take(row)
        elif row["type"] in ("worker_up", "worker_down"):
            known = sessions.setdefault(row["workerId"], [])
            if known:
                known[-1].append(row)  # its end
            if row["type"] == "worker_up":
                known.append([row])
        else:
            alone.append(row)
    found = [(alone, True)]
    for every in lives.values():
        found += [(each.rows, each.is_over and each.last_mark < first_later) for each in every]
    for spans in sessions.values():
        for span in spans:
            ended = span[1]["ts"] if len(span) > 1 else None
            is_over = ended is not None and before_ms is not None and ended < before_ms
            found.append((span[:1], is_over))
            if len(span) > 1 and span[1]["type"] == "worker_down":
                found.append((span[1:], is_over))
    return found

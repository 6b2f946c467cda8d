"""Selects the events to delete for a client, a group or old history, as SQL.

A job is deleted with all of its events or not at all: the next batch needs the beginning of open
jobs, and figures of partial jobs would be wrong. So open jobs are kept, and those that ended after
the retention time. An array is one unit with its tasks, and the opening of a worker that was
connected at that time is kept. Only a whole group is deleted unconditionally.

"Before" means the position in the log, because clocks of leaders differ: everything before the
first event at or after that time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rollq.grid.events import ARRAY_ENQUEUED, JOB_FORGOTTEN, WORKER_CLOSED, WORKER_OPENED
from rollq.spark.pipeline.catalog import ARRAYS, BRONZE, JOBS, WORKERS, TableSpec
from rollq.spark.pipeline.dialect import SqlDialect
from rollq.spark.pipeline.silver import ACCEPTED, FINAL_STATES, quoted

VIEWS: Final[Mapping[str, TableSpec]] = {  # that the queries read
    "all_events": BRONZE,
    "all_jobs": JOBS,
    "all_arrays": ARRAYS,
    "all_workers": WORKERS,
}


@dataclass(frozen=True, slots=True)
class Selection:
    """The selection: events that meet all given criteria, of which there is at least one."""

    group: str = ""
    client: str = ""
    before_ms: int | None = None

    @property
    def is_whole_group(self) -> bool:
        """Whether nothing of a group stays."""
        return bool(self.group) and not self.client and self.before_ms is None


def first_indexes(d: SqlDialect, before_ms: int) -> str:
    """By group the first index at or after a time. Reads `all_events`."""
    return f"""
        SELECT _group, min(_index) FROM all_events
        WHERE _ts >= {d.moment(str(before_ms))} GROUP BY _group
    """


def judged_events(d: SqlDialect, chosen: Selection, firsts: Mapping[str, int]) -> str:
    """All events with their `unit` (a job, an array or a worker; NULL: none), whether they are
    selected (`is_chosen`), and whether they are deleted (`goes`). Reads the views above.

    Args:
        d: the dialect.
        chosen: the selection.
        firsts: the result of `first_indexes`; a group without one has no later events.
    """
    wanted = []
    if chosen.group:
        wanted.append(f"e._group = {d.text(chosen.group)}")
    if chosen.client:
        wanted.append(f"coalesce(e.client_id = {d.text(chosen.client)}, false)")
    if chosen.before_ms is not None:
        wanted.append(f"NOT {_is_later(d, 'e._group', 'e._index', firsts)}")
    kept = _nothing() if chosen.is_whole_group else _kept(d, chosen, firsts)
    return f"""
        SELECT *, is_chosen AND coalesce(place < begins, true) AS goes
        FROM (
            SELECT e.*, k.begins, {_place(d, "e._index", "e._ordinal")} AS place,
                {" AND ".join(wanted)} AS is_chosen
            FROM (SELECT *, {_UNIT} AS unit FROM all_events) e
            LEFT JOIN ({kept}) k ON e._group = k.grp AND e.unit = k.unit)
    """


def summary(d: SqlDialect) -> str:
    """The number of deleted events and jobs, and of selected jobs and arrays that are kept. Reads
    `judged`."""
    job = d.pack(g="_group", j="coalesce(job_id, array_id)")
    return f"""
        SELECT {d.count_if("goes")},
            count(DISTINCT CASE WHEN goes AND (job_id IS NOT NULL OR array_id IS NOT NULL)
                THEN {job} END),
            count(DISTINCT CASE WHEN is_chosen AND NOT goes AND type NOT IN ({quoted(_OF_WORKERS)})
                THEN {d.pack(g="_group", u="unit")} END)
        FROM judged
    """


_OF_WORKERS: Final = (WORKER_OPENED, WORKER_CLOSED)
_UNIT: Final = f"""coalesce(array_id, job_id,
    CASE WHEN type IN ({quoted(_OF_WORKERS)}) THEN worker_id END)"""


def _kept(d: SqlDialect, chosen: Selection, firsts: Mapping[str, int]) -> str:
    """The units that are kept, with the position at which their first kept life begins: a reused
    job id has several lives. A dead job may be redriven until it is forgotten."""

    def is_later(index: str) -> str:
        is_asked = chosen.before_ms is not None
        return _is_later(d, d.group, index, firsts) if is_asked else "false"

    last = _place(d, "last_index", "last_ordinal")
    accepted = quoted((*ACCEPTED, ARRAY_ENQUEUED))
    return f"""
        SELECT grp, unit, min(begins) AS begins
        FROM (
            SELECT l.grp, l.unit, l.last, coalesce(max(b.place), {_place(d, "0L", "0")}) AS begins
            FROM (
                SELECT j.grp, j.unit, j.last
                FROM (
                    SELECT {d.group} AS grp, job_id, coalesce(array_id, job_id) AS unit,
                        {last} AS last, state IN ({quoted(FINAL_STATES)}) AS is_final,
                        {is_later("last_index")} AS is_later
                    FROM all_jobs) j
                LEFT JOIN (
                    SELECT _group AS grp, job_id,
                        max({_place(d, "_index", "_ordinal")}) AS place
                    FROM all_events WHERE type = '{JOB_FORGOTTEN}' AND job_id IS NOT NULL
                    GROUP BY 1, 2) f
                ON j.grp = f.grp AND j.job_id = f.job_id AND f.place > j.last
                WHERE is_later OR NOT (is_final OR f.place IS NOT NULL)
                UNION ALL
                SELECT {d.group}, array_id, {last} FROM all_arrays
                WHERE ended_at IS NULL OR {is_later("last_index")}) l
            LEFT JOIN (
                SELECT _group AS grp, coalesce(array_id, job_id) AS unit,
                    {_place(d, "_index", "_ordinal")} AS place
                FROM all_events WHERE type IN ({accepted})) b
            ON l.grp = b.grp AND l.unit = b.unit AND b.place <= l.last
            GROUP BY l.grp, l.unit, l.last
            UNION ALL
            SELECT {d.group}, worker_id, {last}, {last} FROM all_workers
            WHERE down_at IS NULL OR {_is_after(d, "down_at", chosen)})
        GROUP BY grp, unit
    """


def _nothing() -> str:
    return """
        SELECT CAST(NULL AS string) AS grp, CAST(NULL AS string) AS unit,
            CAST(NULL AS struct<i: bigint, o: int>) AS begins WHERE false
    """


def _place(d: SqlDialect, index: str, ordinal: str) -> str:
    """A position in the log, as a comparable value."""
    return d.pack(i=index, o=ordinal)


def _is_later(d: SqlDialect, group: str, index: str, firsts: Mapping[str, int]) -> str:
    """Whether an index of a group is at or after the time."""
    whens = " ".join(f"WHEN {d.text(name)} THEN {first}L" for name, first in firsts.items())
    return f"coalesce({index} >= CASE {group} {whens} END, false)" if whens else "false"


def _is_after(d: SqlDialect, moment: str, chosen: Selection) -> str:
    """Whether a timestamp is at or after the time, if one is given."""
    if chosen.before_ms is None:
        return "false"
    return f"{moment} >= {d.moment(str(chosen.before_ms))}"

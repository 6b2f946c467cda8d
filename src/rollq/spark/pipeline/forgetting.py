"""Which events go when a client, a group or old history is removed from the tables, as SQL.

A job goes whole or not at all: the next batch needs the beginning of what has not ended, and
figures of half a job would be wrong. So a job that has not ended stays with all of its events, and
so does one that ended after the moment before which history is removed. An array is one with its
tasks, and a worker that was there at that moment keeps its coming. Only a group that is removed as
a whole takes everything along.

"Before" is told by places in the log, because clocks of leaders differ: what stands before the
first event of that moment or later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rollq.grid.events import ARRAY_ENQUEUED, JOB_FORGOTTEN, WORKER_CLOSED, WORKER_OPENED
from rollq.spark.pipeline.catalog import ARRAYS, BRONZE, JOBS, WORKERS, Table
from rollq.spark.pipeline.dialect import SqlDialect
from rollq.spark.pipeline.silver import ACCEPTED, FINAL_STATES, quoted

VIEWS: Final[Mapping[str, Table]] = {  # that the queries read
    "all_events": BRONZE,
    "all_jobs": JOBS,
    "all_arrays": ARRAYS,
    "all_workers": WORKERS,
}


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is to be removed: what fulfils all that is said here, of which there is something."""

    group: str = ""
    client: str = ""
    before_ms: int | None = None

    @property
    def is_whole_group(self) -> bool:
        """Whether nothing of a group stays."""
        return bool(self.group) and not self.client and self.before_ms is None


def first_indexes(d: SqlDialect, before_ms: int) -> str:
    """By group the first index that is not before a moment. Reads `all_events`."""
    return f"""
        SELECT _group, min(_index) FROM all_events
        WHERE _ts >= {d.moment(str(before_ms))} GROUP BY _group
    """


def judged_events(d: SqlDialect, chosen: Chosen, firsts: Mapping[str, int]) -> str:
    """All events, each with what it is a part of (`unit`: a job, an array or a worker; NULL: it
    stands alone), whether it `is_chosen`, and whether it `goes`. Reads the views above.

    Args:
        d: the dialect.
        chosen: what is to be removed.
        firsts: what `first_indexes` found; a group that is not there has nothing later.
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
    """How many events and jobs go, and how many jobs and arrays were chosen and stay. Reads
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


def _kept(d: SqlDialect, chosen: Chosen, firsts: Mapping[str, int]) -> str:
    """What stays, and the place at which the first life of it begins that does: an id that was
    forgotten and accepted again has several. A dead job may be redriven until it is forgotten."""

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
    """A place in the log, as one value that can be compared."""
    return d.pack(i=index, o=ordinal)


def _is_later(d: SqlDialect, group: str, index: str, firsts: Mapping[str, int]) -> str:
    """Whether an index of a group is none of those before the moment."""
    whens = " ".join(f"WHEN {d.text(name)} THEN {first}L" for name, first in firsts.items())
    return f"coalesce({index} >= CASE {group} {whens} END, false)" if whens else "false"


def _is_after(d: SqlDialect, moment: str, chosen: Chosen) -> str:
    """Whether it is not before the moment, if there is one."""
    if chosen.before_ms is None:
        return "false"
    return f"{moment} >= {d.moment(str(chosen.before_ms))}"

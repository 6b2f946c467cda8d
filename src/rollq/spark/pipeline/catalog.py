"""The tables: their columns, in order, and their partitioning.

Columns are only ever appended; each has the schema version that introduced it, and its value in
files of older versions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from rollq.base.errors import ErrorCode, LocalError

SCHEMA_VERSION: Final = 5


class TableColumn(NamedTuple):
    """One column."""

    name: str
    type: str
    since: int = 1  # schema version that introduced it
    before: str = "NULL"  # its value in rows of older versions


@dataclass(frozen=True, slots=True)
class TableSpec:
    """One table.

    Attributes:
        by: The timestamp column that files are partitioned by, in days; empty: not partitioned.
        since: The start of a row's interval, which ends at `by`; empty: a row is at one moment.
        is_internal: It carries state from batch to batch, and is not visible to users.
        has_open: Rows are open until they are final; open rows are rewritten by later batches.
    """

    name: str
    columns: tuple[TableColumn, ...]
    by: str = ""
    since: str = ""
    is_internal: bool = False
    has_open: bool = False

    @property
    def short(self) -> str:
        """The name without its level: `jobs` for `silver_jobs`."""
        return self.name.partition("_")[2]

    @property
    def ddl(self) -> str:
        """The columns as a DDL string for Spark."""
        return ", ".join(f"`{column.name}` {column.type}" for column in self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)


def _columns(text: str, *newer: TableColumn) -> tuple[TableColumn, ...]:
    """From `name type, name type`, followed by columns of later versions."""
    pairs = (part.split() for part in text.split(","))
    return (*(TableColumn(name, kind) for name, kind in pairs), *newer)


# The program and arguments of a job or array, as JSON.
REQUEST: Final = TableColumn("request", "string", since=3)
# Who requested which action.
ASKED: Final = tuple(
    TableColumn(name, "string", since=4)
    for name in ("asked_by", "account", "action", "resource", "address")
)

# The dependencies of a new job, as JSON.
PARENTS: Final = TableColumn("parents", "string", since=5)

BRONZE: Final = TableSpec(
    "bronze_events",
    _columns(
        "type string, job_id string, job_key string, client_id string, queue string, exec string,"
        "worker_id string, attempt int, fence bigint, priority int, delay_ms bigint,"
        "lease_ms bigint, status int, cause int, exit_code int, signal int, run_ms bigint,"
        "peak_bytes bigint, body_bytes bigint, count bigint, array_id string, detail string,"
        "cache_id string, blob_bytes bigint, fetched_bytes bigint, held_bytes bigint,"
        "_group string, _index bigint, _ordinal int, _ts timestamp",
        REQUEST,
        *ASKED,
        PARENTS,
    ),
    by="_ts",
)
JOBS: Final = TableSpec(
    "silver_jobs",
    _columns(
        "group string, job_id string, job_key string, client_id string, queue string, exec string,"
        "array_id string, priority int, state string, submitted_at timestamp,"
        "first_assigned_at timestamp, ended_at timestamp, status int, exit_code int, signal int,"
        "cause int, attempts int, wait_ms bigint, run_ms bigint, total_ms bigint,"
        "body_bytes bigint, blob_bytes bigint, detail string, last_index bigint, last_ordinal int,"
        "since timestamp, last_wait_ms bigint",
        REQUEST,
    ),
    by="ended_at",
    has_open=True,
)
ATTEMPTS: Final = TableSpec(
    "silver_attempts",
    _columns(
        "group string, job_id string, attempt int, fence bigint, exec string, client_id string,"
        "queue string, worker_id string, assigned_at timestamp, ended_at timestamp, outcome string,"
        "exit_code int, signal int, run_ms bigint, held_ms bigint, wait_ms bigint,"
        "peak_bytes bigint, blob_bytes bigint, fetched_bytes bigint, held_bytes bigint,"
        "started_at timestamp"
    ),
    by="ended_at",
    since="assigned_at",
    has_open=True,
)
ARRAYS: Final = TableSpec(
    "silver_arrays",
    _columns(
        "group string, array_id string, client_id string, queue string, exec string, priority int,"
        "tasks bigint, submitted_at timestamp, ready_at timestamp, ended_at timestamp,"
        "body_bytes bigint, blob_bytes bigint, first_index bigint, last_index bigint,"
        "last_ordinal int",
        REQUEST,
    ),
    has_open=True,
)
WORKERS: Final = TableSpec(
    "silver_workers",
    _columns(
        "group string, worker_id string, name string, slots bigint, up_at timestamp,"
        "down_at timestamp, last_index bigint, last_ordinal int"
    ),
    has_open=True,
)
AUDIT: Final = TableSpec(
    "silver_audit",
    _columns(
        "group string, at timestamp, type string, asked_by string, account string, action string,"
        "resource string, address string, count bigint, detail string, queue string,"
        "client_id string, job_id string, array_id string, cache_id string, _index bigint,"
        "_ordinal int"
    ),
    by="at",
)
HOURLY: Final = TableSpec(
    "gold_hourly",
    _columns(
        "group string, dimension string, name string, hour timestamp, submitted bigint,"
        "started bigint, succeeded bigint, failed bigint, dead bigint, cancelled bigint,"
        "retried bigint, wait_ms_p50 bigint, wait_ms_p95 bigint, wait_ms_p99 bigint,"
        "run_ms_p50 bigint, run_ms_p95 bigint, run_ms_p99 bigint, run_ms_sum bigint,"
        "busy_ms bigint, bytes_moved bigint, cache_hit_bytes bigint, cache_miss_bytes bigint,"
        "peak_bytes_max bigint"
    ),
    by="hour",
)
DEAD: Final = TableSpec(
    "gold_dead",
    _columns("group string, hour timestamp, exec string, cause string, jobs bigint"),
    by="hour",
)
DEPTH: Final = TableSpec(
    "gold_depth",
    _columns("group string, queue string, minute timestamp, waiting bigint, running bigint"),
    by="minute",
)
UTILISATION: Final = TableSpec(
    "gold_utilisation",
    _columns(
        "group string, worker_id string, name string, hour timestamp, slots bigint, busy_ms bigint,"
        "capacity_ms bigint, utilisation double"
    ),
    by="hour",
)
EXECS: Final = TableSpec(
    "gold_execs",
    _columns(
        "group string, exec string, jobs bigint, run_ms_p50 bigint, run_ms_p95 bigint,"
        "run_ms_p99 bigint, wait_ms_p50 bigint, wait_ms_p95 bigint, wait_ms_p99 bigint,"
        "failed bigint, dead bigint, retried bigint, runs bigint"
    ),
)
# The outcomes of the checks of each batch.
CHECKS: Final = TableSpec(
    "gold_checks",
    _columns(
        "group string, batch bigint, at timestamp, name string, outcome string, expected bigint,"
        "found bigint"
    ),
    by="at",
)
# Changes of depth in each minute, from which a day can be recomputed.
STEPS: Final = TableSpec(
    "state_steps",
    _columns("group string, queue string, minute timestamp, waits bigint, runs bigint"),
    by="minute",
    is_internal=True,
)
# Run time of attempts by hour; each batch adds the attempts that ended in it.
BUSY: Final = TableSpec(
    "state_busy",
    _columns(
        "group string, hour timestamp, exec string, client_id string, queue string,"
        "worker_id string, busy_ms bigint"
    ),
    by="hour",
    is_internal=True,
)
# Waiting and running jobs of each queue after the batch; rows of the depth without a minute.
LEVELS: Final = TableSpec("state_levels", DEPTH.columns, is_internal=True)
# Histograms of run and wait times by exec: all-time percentiles without reading all attempts.
COUNTS: Final = TableSpec(
    "state_counts",
    _columns("group string, exec string, metric string, value bigint, n bigint"),
    is_internal=True,
)

TABLES: Final = {
    table.name: table
    for table in (
        *(BRONZE, JOBS, ATTEMPTS, ARRAYS, WORKERS, AUDIT, HOURLY, DEAD, DEPTH, UTILISATION, EXECS),
        *(CHECKS, STEPS, LEVELS, COUNTS, BUSY),
    )
}


SHORT: Final = {table.name: table.short for table in TABLES.values() if not table.is_internal}
_LONG: Final = {short: name for name, short in SHORT.items()}


def table_of(name: str) -> TableSpec:
    """The table of this name, long or short.

    Raises:
        LocalError: BAD_OPTIONS; there is none.
    """
    table = TABLES.get(_LONG.get(name, name))
    if table is None:
        raise LocalError(
            ErrorCode.BAD_OPTIONS, f"there is no table {name!r}", f"use {', '.join(SHORT)}"
        )
    return table

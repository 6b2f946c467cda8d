"""What tables there are: their columns, in order, and how their files are split.

Columns are appended, never taken away or changed; each has the schema version that brought it, and
what stands in rows of files that are older.
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
    since: int = 1  # the schema version
    before: str = "NULL"  # in rows of older versions


@dataclass(frozen=True, slots=True)
class Table:
    """One table. `by` is the moment after which its files are split by day; without it they are
    not. With `since`, a row lasts from that moment to the other. With `has_open`, some rows may
    still change. Internal tables carry state from batch to batch and are not shown to users."""

    name: str
    columns: tuple[TableColumn, ...]
    by: str = ""
    since: str = ""
    is_internal: bool = False
    has_open: bool = False

    @property
    def ddl(self) -> str:
        """The columns as Spark takes them."""
        return ", ".join(f"`{column.name}` {column.type}" for column in self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)


def _columns(text: str, *newer: TableColumn) -> tuple[TableColumn, ...]:
    """From `name type, name type`; then those that a later version brought."""
    pairs = (part.split() for part in text.split(","))
    return (*(TableColumn(name, kind) for name, kind in pairs), *newer)


# What a job or array was asked to run, as JSON.
REQUEST: Final = TableColumn("request", "string", since=3)
# Who asked for what.
ASKED: Final = tuple(
    TableColumn(name, "string", since=4)
    for name in ("asked_by", "account", "action", "resource", "address")
)

# What a new job waits for, as JSON.
PARENTS: Final = TableColumn("parents", "string", since=5)

BRONZE: Final = Table(
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
JOBS: Final = Table(
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
ATTEMPTS: Final = Table(
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
ARRAYS: Final = Table(
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
WORKERS: Final = Table(
    "silver_workers",
    _columns(
        "group string, worker_id string, name string, slots bigint, up_at timestamp,"
        "down_at timestamp, last_index bigint, last_ordinal int"
    ),
    has_open=True,
)
AUDIT: Final = Table(
    "silver_audit",
    _columns(
        "group string, at timestamp, type string, asked_by string, account string, action string,"
        "resource string, address string, count bigint, detail string, queue string,"
        "client_id string, job_id string, array_id string, cache_id string, _index bigint,"
        "_ordinal int"
    ),
    by="at",
)
HOURLY: Final = Table(
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
DEAD: Final = Table(
    "gold_dead",
    _columns("group string, hour timestamp, exec string, cause string, jobs bigint"),
    by="hour",
)
DEPTH: Final = Table(
    "gold_depth",
    _columns("group string, queue string, minute timestamp, waiting bigint, running bigint"),
    by="minute",
)
UTILISATION: Final = Table(
    "gold_utilisation",
    _columns(
        "group string, worker_id string, name string, hour timestamp, slots bigint, busy_ms bigint,"
        "capacity_ms bigint, utilisation double"
    ),
    by="hour",
)
EXECS: Final = Table(
    "gold_execs",
    _columns(
        "group string, exec string, jobs bigint, run_ms_p50 bigint, run_ms_p95 bigint,"
        "run_ms_p99 bigint, wait_ms_p50 bigint, wait_ms_p95 bigint, wait_ms_p99 bigint,"
        "failed bigint, dead bigint, retried bigint, runs bigint"
    ),
)
# What the checks of each batch found.
CHECKS: Final = Table(
    "gold_checks",
    _columns(
        "group string, batch bigint, at timestamp, name string, outcome string, expected bigint,"
        "found bigint"
    ),
    by="at",
)
# What came and went in each minute, so that a day can be added up again.
STEPS: Final = Table(
    "state_steps",
    _columns("group string, queue string, minute timestamp, waits bigint, runs bigint"),
    by="minute",
    is_internal=True,
)
# In which hours attempts ran for how long; of each batch those that ended in it.
BUSY: Final = Table(
    "state_busy",
    _columns(
        "group string, hour timestamp, exec string, client_id string, queue string,"
        "worker_id string, busy_ms bigint"
    ),
    by="hour",
    is_internal=True,
)
# How many wait and run in each queue after all that is known; rows of the depth without a minute.
LEVELS: Final = Table("state_levels", DEPTH.columns, is_internal=True)
# How often each exec took how long: percentiles of all time without reading all attempts.
COUNTS: Final = Table(
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


def table_of(name: str) -> Table:
    """The table of a name.

    Raises:
        LocalError: BAD_OPTIONS; there is none.
    """
    table = TABLES.get(name)
    if table is None:
        public = ", ".join(each.name for each in TABLES.values() if not each.is_internal)
        raise LocalError(ErrorCode.BAD_OPTIONS, f"there is no table {name!r}", f"use {public}")
    return table

"""From fields of a history row to the columns of the table `events`. Pure.

The only mapping from rows to columns, for members that store columns and readers that get rows.
Columns are appended, never removed or changed; rows older than a column have NULL or 0 in it.
Absent text is NULL, an absent number 0.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Column(NamedTuple):
    """One column: its name, its type in SQL, and the field of a history row that it holds."""

    name: str
    type: str
    field: str


GROUP: Final = "_group"  # not in rows: set by the reader, who knows the group

EVENTS: Final = (
    Column("type", "string", "type"),
    Column("job_id", "string", "jobId"),
    Column("job_key", "string", "jobKey"),
    Column("client_id", "string", "clientId"),
    Column("queue", "string", "queue"),
    Column("exec", "string", "execName"),
    Column("worker_id", "string", "workerId"),
    Column("attempt", "int", "attempt"),
    Column("fence", "bigint", "fence"),
    Column("priority", "int", "priority"),
    Column("delay_ms", "bigint", "delayMs"),
    Column("lease_ms", "bigint", "leaseMs"),
    Column("status", "int", "status"),
    Column("cause", "int", "cause"),
    Column("exit_code", "int", "exitCode"),
    Column("signal", "int", "signal"),
    Column("run_ms", "bigint", "runMs"),
    Column("peak_bytes", "bigint", "peakBytes"),
    Column("body_bytes", "bigint", "bodyBytes"),
    Column("count", "bigint", "count"),
    Column("array_id", "string", "arrayId"),
    Column("detail", "string", "detail"),
    Column("cache_id", "string", "cacheId"),
    Column("blob_bytes", "bigint", "blobBytes"),
    Column("fetched_bytes", "bigint", "fetchedBytes"),
    Column("held_bytes", "bigint", "heldBytes"),
    Column(GROUP, "string", ""),
    Column("_index", "bigint", "index"),
    Column("_ordinal", "int", "ordinal"),
    Column("_ts", "timestamp", "ts"),
    Column("request", "string", "request"),
    Column("asked_by", "string", "by"),
    Column("account", "string", "account"),
    Column("action", "string", "action"),
    Column("resource", "string", "resource"),
    Column("address", "string", "address"),
    Column("parents", "string", "parents"),
)

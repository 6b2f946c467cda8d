"""The columns of every table that `format("rollq")` reads, as Spark and as Arrow types.

Columns are appended, never taken away or changed. Absent text is NULL, an absent number 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rollq.base.errors import ErrorCode, LocalError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class Column(NamedTuple):
    """One column: its name, its type in SQL, and the field of a history row that it holds."""

    name: str
    type: str
    field: str


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
    Column("_group", "string", ""),
    Column("_index", "bigint", "index"),
    Column("_ordinal", "int", "ordinal"),
    Column("_ts", "timestamp", "ts"),
)

TABLES: Final[dict[str, tuple[Column, ...]]] = {"events": EVENTS}


def columns_of(table: str, names: Iterable[str] = ()) -> tuple[Column, ...]:
    """The columns of a table, all of them or those that are named, in the order of the names.

    Raises:
        LocalError: BAD_OPTIONS; there is no such table or column.
    """
    columns = TABLES.get(table)
    if columns is None:
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            f"there is no table {table!r}",
            f"the tables are {', '.join(TABLES)}",
        )
    by_name = {column.name: column for column in columns}
    wanted = tuple(names)
    if unknown := [name for name in wanted if name not in by_name]:
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            f"table {table} has no column {unknown[0]!r}",
            f"its columns are {', '.join(by_name)}",
        )
    return tuple(by_name[name] for name in wanted) or columns


def ddl(columns: Sequence[Column]) -> str:
    """The columns as Spark takes them: `type string, job_id string, …`"""
    return ", ".join(f"`{column.name}` {column.type}" for column in columns)


def arrow_schema(columns: Sequence[Column]) -> Any:
    """The columns as Arrow takes them; exactly what Spark makes of `ddl`."""
    import pyarrow as pa

    types = {
        "string": pa.string(),
        "binary": pa.binary(),
        "boolean": pa.bool_(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "array<string>": pa.list_(pa.field("element", pa.string())),
    }
    return pa.schema([pa.field(column.name, types[column.type]) for column in columns])


def names_of(schema: StructType) -> tuple[str, ...]:
    """The names of the columns that Spark asks for."""
    return tuple(schema.fieldNames())

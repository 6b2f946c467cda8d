"""The columns of every table that `format("rollq")` reads, as Spark and Arrow types.

Columns are only ever appended. In events, missing text is NULL and a missing number is 0. The
columns of state tables are defined in `rollq.history.tables`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, get_type_hints

from rollq.base.errors import ErrorCode, LocalError
from rollq.history.columns import EVENTS, GROUP, Column
from rollq.history.tables import OUTPUTS, Int, OutputTableRow, TableRow, Time
from rollq.history.tables import TABLES as STATE_TABLES

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


# Of state tables: the group of a row, and the log index it was read at.
PLACE: Final = (Column(GROUP, "string", ""), Column("_index", "bigint", ""))
SQL_TYPES: Final[dict[Any, str]] = {
    str: "string",
    str | None: "string",
    bytes: "binary",
    bytes | None: "binary",
    bool: "boolean",
    bool | None: "boolean",
    Int: "int",
    Int | None: "int",
    int: "bigint",
    int | None: "bigint",
    Time: "timestamp",
    tuple[str, ...]: "array<string>",
    tuple[str, ...] | None: "array<string>",
    tuple[OutputTableRow, ...]: OUTPUTS,
}


def _state_columns(row: type[TableRow]) -> tuple[Column, ...]:
    hints = get_type_hints(row, include_extras=True)
    named = [Column(name, SQL_TYPES[hints[name]], name) for name in row.__struct_fields__]
    return (*named, *PLACE)


TABLES: Final[dict[str, tuple[Column, ...]]] = {
    "events": EVENTS,
    **{name: _state_columns(row) for name, row in STATE_TABLES.items()},
}


def columns_of(table: str, names: Iterable[str] = ()) -> tuple[Column, ...]:
    """The columns of a table: all of them, or the named ones in the given order.

    Raises:
        LocalError: BAD_OPTIONS; there is no such column.
    """
    columns = TABLES[table]
    by_name = {column.name: column for column in columns}
    wanted = tuple(names)
    if unknown := [name for name in wanted if name not in by_name]:
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            f"table {table} has no column {unknown[0]!r}",
            f"its columns are {', '.join(by_name)}",
        )
    return tuple(by_name[name] for name in wanted) or columns


def columns_in(schema: StructType, table: str) -> tuple[Column, ...]:
    """The columns of a schema: the one returned by `ddl`, or one given by the user.

    Raises:
        LocalError: BAD_OPTIONS; the table has no such columns.
    """
    columns = columns_of(table, schema.fieldNames())
    for column, field in zip(columns, schema.fields, strict=True):
        given = field.dataType.simpleString()
        if given != column.type:
            raise LocalError(
                ErrorCode.BAD_OPTIONS,
                f"column {column.name} of table {table} is {column.type}, and not {given}",
                "leave the schema to the source, and cast what it gives",
            )
    return columns


def ddl(columns: Sequence[Column]) -> str:
    """The columns as a DDL string for Spark: `type string, job_id string, …`"""
    return ", ".join(f"`{column.name}` {column.type}" for column in columns)

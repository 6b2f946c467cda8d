"""The columns of every table that `format("rollq")` reads, as Spark and as Arrow types.

Columns are appended, never taken away or changed. Absent text is NULL, an absent number 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from rollq.base.errors import ErrorCode, LocalError
from rollq.history.columns import EVENTS, Column

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


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


def names_of(schema: StructType) -> tuple[str, ...]:
    """The names of the columns that Spark asks for."""
    return tuple(schema.fieldNames())

"""Conditions on rows that the source checks itself, given as options.

Spark could push down those of a query, but we take none: once it has pushed some for a DataFrame,
Spark (4.3 was tried) uses the plan of that read for the next query on it, whatever that asks, and
rows are missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from rollq.base.errors import ErrorCode, LocalError
from rollq.history.columns import Column

IS_IN: Final = "is_in"


@dataclass(slots=True, frozen=True)
class Condition:
    """What a column must be. NULL meets none, as in SQL."""

    column: str
    test: str  # its name in pyarrow.compute: equal, less, greater_equal, is_in, …
    value: Any


def from_option(column: Column, text: str) -> Condition:
    """`filter.<column>`: one value, or several with commas between, of which any will do."""
    values = [part.strip() for part in text.split(",")]
    if column.type in ("int", "bigint"):
        try:
            return Condition(column.name, IS_IN, tuple(map(int, values)))
        except ValueError:
            raise _bad(f"filter.{column.name}", text, "give whole numbers") from None
    if column.type != "string":
        raise _bad(f"filter.{column.name}", text, "use since and until for times")
    return Condition(column.name, IS_IN, tuple(values))


def from_time(option: str, text: str) -> Condition:
    """`since` and `until`: ISO 8601, UTC if it says nothing else, or milliseconds since 1970."""
    test = "greater_equal" if option == "since" else "less"
    if text.isdecimal():
        return Condition("_ts", test, datetime.fromtimestamp(int(text) / 1000, UTC))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise _bad(option, text, "write it as 2026-01-31T12:00:00Z") from None
    return Condition("_ts", test, moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def index_range(conditions: Iterable[Condition], first: int, last: int) -> tuple[int, int]:
    """The part of a range of log indexes that can meet the conditions on `_index`."""
    for condition in conditions:
        if condition.column == "_index" and condition.test == IS_IN:
            first, last = max(first, min(condition.value)), min(last, max(condition.value))
    return first, last


def keep(table: Any, conditions: Sequence[Condition], columns: Sequence[Column]) -> Any:
    """The rows of an Arrow table or batch that meet all conditions."""
    import pyarrow.compute as pc

    from rollq.history.arrow import arrow_schema

    types = {column.name: arrow_schema([column]).field(0).type for column in columns}
    for condition in conditions:
        mask = _mask(pc, table.column(condition.column), condition, types[condition.column])
        table = table.filter(mask)
    return table


def _mask(pc: Any, array: Any, condition: Condition, kind: Any) -> Any:
    import pyarrow as pa

    if condition.test == IS_IN:
        return pc.is_in(array, value_set=pa.array(condition.value, kind), skip_nulls=True)
    return getattr(pc, condition.test)(array, pa.scalar(condition.value, kind))


def _bad(option: str, value: str, hint: str) -> LocalError:
    return LocalError(ErrorCode.BAD_OPTIONS, f"option {option}={value!r} makes no sense", hint)

"""Row conditions that are evaluated by the source, given as options.

Filter pushdown is not used: once Spark has pushed a filter down for a DataFrame (seen with 4.3), it
reuses the plan of that read for later queries on it, whatever their filters, and rows are missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from rollq.base.errors import ErrorCode, LocalError
from rollq.history.columns import EVENTS, Column

INDEX, MOMENT = (
    next(column for column in EVENTS if column.name == name) for name in ("_index", "_ts")
)
IS_IN: Final = "is_in"
_WHOLE_BITS: Final = {"int": 31, "bigint": 63}


@dataclass(slots=True, frozen=True)
class RowCondition:
    """A condition on a column. NULL meets none, as in SQL."""

    column: Column
    test: str  # its name in pyarrow.compute: equal, less, greater_equal, is_in, …
    value: Any


def bad_option(name: str, value: str, hint: str) -> LocalError:
    """The error for an option value that is not valid."""
    return LocalError(ErrorCode.BAD_OPTIONS, f"option {name}={value!r} makes no sense", hint)


def from_option(column: Column, text: str) -> RowCondition:
    """`filter.<column>`: one value, or a comma-separated list of alternatives."""
    option = f"filter.{column.name}"
    texts = tuple(part.strip() for part in text.split(","))
    if column.type == "string":
        return RowCondition(column, IS_IN, texts)
    bits = _WHOLE_BITS.get(column.type)
    if bits is None:
        hint = "times are bounded by since and until" if column == MOMENT else "use where()"
        raise bad_option(option, text, f"only text and whole numbers can be asked for so: {hint}")
    try:
        numbers = tuple(map(int, texts))
    except ValueError:
        raise bad_option(option, text, "give whole numbers") from None
    if not all(-(1 << bits) <= number < 1 << bits for number in numbers):
        raise bad_option(option, text, f"the column is {column.type}: no row has such a number")
    return RowCondition(column, IS_IN, numbers)


def from_time(option: str, text: str) -> RowCondition:
    """`since` and `until`: ISO 8601, UTC by default, or milliseconds since 1970."""
    test = "greater_equal" if option == "since" else "less"
    return RowCondition(MOMENT, test, _moment(option, text))


def millis(option: str, text: str) -> int:
    """A time in the same format, as milliseconds since 1970."""
    return round(_moment(option, text).timestamp() * 1000)


def _moment(option: str, text: str) -> datetime:
    try:
        if text.isdecimal():
            moment = datetime.fromtimestamp(int(text) / 1000, UTC)
        else:
            moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError, OSError):
        raise bad_option(option, text, "write it as 2026-01-31T12:00:00Z") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def needed(columns: Sequence[Column], conditions: Sequence[RowCondition]) -> tuple[Column, ...]:
    """The columns to read: those requested, and those used by conditions."""
    return tuple(dict.fromkeys((*columns, *(condition.column for condition in conditions))))


def index_range(conditions: Iterable[RowCondition], first: int, last: int) -> tuple[int, int]:
    """The part of an index range that can meet the conditions on `_index`."""
    for condition in conditions:
        if condition.column.name == INDEX.name and condition.test == IS_IN:
            first, last = max(first, min(condition.value)), min(last, max(condition.value))
    return first, last


def keep(table: Any, conditions: Sequence[RowCondition]) -> Any:
    """The rows of an Arrow table or batch that meet all conditions."""
    for condition in conditions:
        table = table.filter(_mask(table.column(condition.column.name), condition))
    return table


def _mask(array: Any, condition: RowCondition) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    if condition.test == IS_IN:
        return pc.is_in(array, value_set=pa.array(condition.value, array.type), skip_nulls=True)
    return getattr(pc, condition.test)(array, pa.scalar(condition.value, array.type))

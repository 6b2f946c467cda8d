"""Arrow tables from rows of state tables, which members send as JSON lines."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any

import msgspec
import pyarrow as pa

from rollq.history.arrow import arrow_schema
from rollq.history.columns import GROUP, Column
from rollq.history.tables import OUTPUTS, TABLES, TableRow


def from_state_lines(
    table: str, lines: bytes, columns: Sequence[Column], group: str, index: int
) -> pa.Table:
    """Decode whole lines of a table into an Arrow table.

    Args:
        table: its name.
        lines: as `Reader.part` returns them.
        columns: the columns to return.
        group: the group of the rows.
        index: the log index of the export.
    """
    return from_state_rows(_decoder(table).decode_lines(lines), columns, group, index)


def from_state_rows(
    rows: Sequence[TableRow], columns: Sequence[Column], group: str, index: int | Sequence[int]
) -> pa.Table:
    """The same for decoded rows, with a common index or one for each."""
    indexes = [index] * len(rows) if isinstance(index, int) else index
    schema = arrow_schema(columns)
    arrays = []
    for column, kind in zip(columns, schema.types, strict=True):
        if column.field:
            arrays.append(_array(list(map(attrgetter(column.field), rows)), column.type, kind))
        elif column.name == GROUP:
            arrays.append(pa.repeat(pa.scalar(group), len(rows)))
        else:
            arrays.append(pa.array(indexes, kind))
    return pa.Table.from_arrays(arrays, schema=schema)


def _array(values: list[Any], sql_type: str, kind: pa.DataType) -> pa.Array:
    if sql_type == "timestamp":
        return pa.array(values, pa.int64()).cast(pa.timestamp("ms", tz="UTC")).cast(kind)
    if sql_type == OUTPUTS:
        values = [[msgspec.structs.asdict(one) for one in outputs] for outputs in values]
    return pa.array(values, kind)


@lru_cache(16)
def _decoder(table: str) -> msgspec.json.Decoder[TableRow]:
    return msgspec.json.Decoder(TABLES[table])

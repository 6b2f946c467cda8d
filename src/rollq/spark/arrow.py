"""From rows of the history to Arrow batches, which is how Spark takes them fastest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as pa_json

from rollq.spark.schemas import Column, arrow_schema

BATCH_ROWS: Final = 16_384  # enough that the cost of a batch does not count, and small in memory
BLOCK_BYTES: Final = 1 << 20
_NUMBERS: Final = frozenset(("int", "bigint"))


def from_lines(lines: Any, columns: Sequence[Column], group: str) -> pa.Table:
    """JSON lines of the history as a table of these columns.

    Args:
        lines: whole lines, as bytes or a buffer.
        columns: what is wanted of each.
        group: the group whose history it is.
    """
    if not len(lines):
        return arrow_schema(columns).empty_table()
    parsed = pa_json.read_json(
        pa.BufferReader(lines),
        read_options=pa_json.ReadOptions(use_threads=False, block_size=BLOCK_BYTES),
        parse_options=_parsing(tuple(columns)),
    )
    arrays = [_column(parsed, column, group) for column in columns]
    return pa.Table.from_arrays(arrays, schema=arrow_schema(columns))


def batches(table: pa.Table, columns: Sequence[Column]) -> Iterator[pa.RecordBatch]:
    """The wanted columns of a table, in batches of a size that suits Spark."""
    wanted = table.select([column.name for column in columns]).combine_chunks()
    yield from wanted.to_batches(max_chunksize=BATCH_ROWS)


def _column(parsed: pa.Table, column: Column, group: str) -> Any:
    if not column.field:
        return pa.repeat(pa.scalar(group), len(parsed))
    array = parsed.column(column.field)
    if column.type == "timestamp":
        return array.cast(pa.timestamp("ms", tz="UTC")).cast(pa.timestamp("us", tz="UTC"))
    return pc.fill_null(array, 0) if column.type in _NUMBERS else array


@lru_cache(64)
def _parsing(columns: tuple[Column, ...]) -> pa_json.ParseOptions:
    """What to look for in a line; `index` is always there, so that rows are counted right."""
    types = {"string": pa.string(), "int": pa.int32()}
    fields = {column.field: types.get(column.type, pa.int64()) for column in columns}
    fields.pop("", None)
    fields.setdefault("index", pa.int64())
    return pa_json.ParseOptions(
        explicit_schema=pa.schema(list(fields.items())), unexpected_field_behavior="ignore"
    )

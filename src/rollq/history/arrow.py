"""Rows of the history as Arrow tables. Needs pyarrow, which only those who ask for columns have."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as pa_json

from rollq.history.columns import Column
from rollq.history.tables import OUTPUTS, int32, int64

BLOCK_BYTES: Final = 1 << 20
_OUTPUT: Final = pa.struct([("name", pa.string()), ("digest", pa.string()), ("size", pa.int64())])
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
    try:
        parsed = _parsed(lines, columns)
    except pa.ArrowInvalid:  # a number that no column holds, from before numbers had bounds
        parsed = _parsed(_within_columns(lines, columns), columns)
    arrays = [_column(parsed, column, group) for column in columns]
    return pa.Table.from_arrays(arrays, schema=arrow_schema(columns))


def _parsed(lines: Any, columns: Sequence[Column]) -> pa.Table:
    return pa_json.read_json(
        pa.BufferReader(lines),
        read_options=pa_json.ReadOptions(use_threads=False, block_size=BLOCK_BYTES),
        parse_options=_parsing(tuple(columns)),
    )


def _within_columns(lines: Any, columns: Sequence[Column]) -> bytes:
    """The same lines, with every number as its column can hold it."""
    fit = {
        column.field: int32 if column.type == "int" else int64
        for column in columns
        if column.type in _NUMBERS
    }
    mended = []
    for line in bytes(lines).splitlines():
        row = msgspec.json.decode(line, type=dict[str, Any])
        row.update({name: fit[name](row[name]) for name in fit.keys() & row.keys()})
        mended.append(msgspec.json.encode(row))
    return b"\n".join(mended) + b"\n"


def from_stream(data: Any, columns: Sequence[Column]) -> pa.Table:
    """An Arrow IPC stream of a member as a table of these columns. Only what is wanted is unpacked;
    what the member's version did not know yet is NULL or 0."""
    source = pa.py_buffer(data)
    there = pa.ipc.open_stream(source).schema
    places = [there.get_field_index(column.name) for column in columns]
    options = pa.ipc.IpcReadOptions(
        use_threads=False, included_fields=sorted({place for place in places if place >= 0})
    )
    table = pa.ipc.open_stream(source, options=options).read_all()
    schema = arrow_schema(columns)
    arrays = [
        table.column(field.name) if place >= 0 else _absent(field.type, len(table))
        for place, field in zip(places, schema, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def _absent(kind: Any, count: int) -> Any:
    value = pa.scalar(0, kind) if pa.types.is_integer(kind) else pa.scalar(None, kind)
    return pa.repeat(value, count)


def arrow_schema(columns: Sequence[Column]) -> Any:
    """The columns as Arrow takes them; exactly what Spark makes of `ddl`."""
    types = {
        "string": pa.string(),
        "binary": pa.binary(),
        "boolean": pa.bool_(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "array<string>": pa.list_(pa.field("element", pa.string())),
        OUTPUTS: pa.list_(pa.field("element", _OUTPUT)),
    }
    return pa.schema([pa.field(column.name, types[column.type]) for column in columns])


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

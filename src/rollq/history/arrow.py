"""Rows of the history as Arrow tables. Needs pyarrow, which is only installed where columns are
used."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import accumulate, repeat
from operator import attrgetter
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as pa_json

from rollq.base.ids import GUID_TEXT_BYTES, NIL_ID, guid_to_text, guids_to_text
from rollq.base.staged import KEY_END
from rollq.grid.events import AccessFact, Event
from rollq.history.columns import Column
from rollq.history.packed import PackedIndex
from rollq.history.schema import parents_text, request_text
from rollq.history.tables import OUTPUTS, int32, int64

BLOCK_BYTES: Final = 1 << 20
_OUTPUT: Final = pa.struct([("name", pa.string()), ("digest", pa.string()), ("size", pa.int64())])
_NUMBERS: Final = frozenset(("int", "bigint"))
# By the field of a history row: that of the event.
_EVENT_FIELDS: Final = {
    "type": "kind",
    "jobKey": "job_key",
    "clientId": "client_id",
    "queue": "queue",
    "execName": "exec_name",
    "workerId": "worker_id",
    "attempt": "attempt",
    "fence": "fence",
    "priority": "priority",
    "delayMs": "delay_ms",
    "leaseMs": "lease_ms",
    "status": "status",
    "cause": "cause",
    "exitCode": "exit_code",
    "signal": "signal",
    "runMs": "run_ms",
    "peakBytes": "peak_bytes",
    "bodyBytes": "body_bytes",
    "count": "count",
    "arrayId": "array_id",
    "detail": "detail",
    "cacheId": "cache_id",
    "blobBytes": "blob_bytes",
    "fetchedBytes": "fetched_bytes",
    "heldBytes": "held_bytes",
    "request": "request",
    "parents": "parents",
}


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


def from_packed(indexes: Sequence[PackedIndex], columns: Sequence[Column], group: str) -> pa.Table:
    """Packed events as a table of these columns. Shared fields of a run are repeated within Arrow,
    differing fields are copied column by column."""
    if not indexes:
        return arrow_schema(columns).empty_table()
    facts = _Facts(indexes)
    arrays = [facts.column(column, field.type, group) for column, field in _typed(columns)]
    return pa.Table.from_arrays(arrays, schema=arrow_schema(columns))


def _typed(columns: Sequence[Column]) -> Iterable[tuple[Column, pa.Field]]:
    return zip(columns, arrow_schema(columns), strict=True)


class _Facts:
    """The events of some log indexes, each with its number of rows."""

    def __init__(self, indexes: Sequence[PackedIndex]) -> None:
        self._events: list[Event] = []
        self._counts: list[int] = []
        self._places: list[tuple[int, int]] = []  # of each event: index and stamp
        self._ordinals = array("i")
        for packed in indexes:
            events = packed.events()
            counts = [1 if event.run is None else event.run.count for event in events]
            self._events += events
            self._counts += counts
            self._places += [(packed.index, packed.stamp_ms)] * len(events)
            self._ordinals.extend(range(sum(counts)))
        self._rows = len(self._ordinals)
        self._with_runs = [event for event in self._events if event.run is not None]
        self._ends = pa.array(accumulate(self._counts), pa.int64())

    def column(self, column: Column, kind: Any, group: str) -> Any:
        """One column; `kind` is its type in Arrow."""
        name = column.field
        if not name:
            return pa.repeat(pa.scalar(group), self._rows)
        if name == "ordinal":
            return _of_buffer(self._ordinals, kind)
        if name == "index":
            return self._spread(pa.array([index for index, _ in self._places], kind))
        if name == "ts":
            stamps = pa.array([1_000 * stamp_ms for _, stamp_ms in self._places], pa.int64())
            return self._spread(stamps).cast(kind)
        if name == "jobId":
            return self._job_ids()
        if name in AccessFact.__struct_fields__:
            return self._access(name, kind)
        field = _EVENT_FIELDS[name]
        make = _MAKERS.get(name) or (_texts if column.type == "string" else _numbers)
        in_run = _IN_RUNS.get(name)
        if in_run is not None and any(map(in_run, self._with_runs)):
            columns = [() if event.run is None else in_run(event) for event in self._events]
            return make(self._each(field, columns), kind)
        values = list(map(attrgetter(field), self._events))
        if values and values.count(values[0]) == len(values):  # most columns are mostly empty
            return pa.repeat(make(values[:1], kind)[0], self._rows)
        return self._spread(make(values, kind))

    def _access(self, name: str, kind: Any) -> Any:
        """What events say of who asked; most say nothing."""
        facts = [event.access for event in self._events]
        if facts.count(None) == len(facts):
            return pa.nulls(self._rows, kind)
        said = ["" if one is None else getattr(one, name) for one in facts]
        return self._spread(_texts(said, kind))

    def _spread(self, values: Any) -> Any:
        """From one value per event to one value per row."""
        if self._rows == len(self._events):
            return values
        return pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(self._ends, values))

    def _each(self, field: str, columns: Sequence[Sequence[Any]]) -> list[Any]:
        """One value per row; `columns` are those of runs."""
        values: list[Any] = []
        for event, count, column in zip(self._events, self._counts, columns, strict=True):
            values += column or repeat(getattr(event, field), count)
        return values

    def _job_ids(self) -> Any:
        ids: list[bytes] = []
        is_there = bytearray()
        for event, count in zip(self._events, self._counts, strict=True):
            job_ids = event.job_id if event.run is None else event.run.job_ids
            ids.append(job_ids or NIL_ID)
            is_there += (b"\1" if job_ids else b"\0") * count
        text = guids_to_text(b"".join(ids))
        offsets = array("i", range(0, len(text) + 1, GUID_TEXT_BYTES))
        found = pa.StringArray.from_buffers(self._rows, pa.py_buffer(offsets), pa.py_buffer(text))
        if all(is_there):
            return found
        there = _of_buffer(is_there, pa.uint8()).cast(pa.bool_())
        return pc.if_else(there, found, pa.scalar(None, pa.string()))


def _texts(values: Iterable[str], kind: Any) -> Any:
    return pa.array([value or None for value in values], kind)


def _numbers(values: list[int], kind: Any) -> Any:
    try:
        return pa.array(values, kind)
    except (pa.ArrowInvalid, OverflowError):  # from before numbers had bounds
        fit = int32 if kind == pa.int32() else int64
        return pa.array([fit(value) for value in values], kind)


def _ids(values: Iterable[bytes], kind: Any) -> Any:
    return pa.array([_id_text(value) if value else None for value in values], kind)


def _parents(values: Iterable[bytes], kind: Any) -> Any:
    return _texts([parents_text(one) if one else "" for one in values], kind)


def _requests(values: Iterable[bytes], kind: Any) -> Any:
    return _texts(map(request_text, values), kind)


def _of_buffer(values: Any, kind: Any) -> Any:
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def _fences(event: Event) -> Sequence[int]:
    assert event.run is not None, "of a run"
    if event.run.fences or not event.fence:
        return event.run.fences
    return range(event.fence, event.fence + event.run.count)


def _keys(event: Event) -> Sequence[str]:
    assert event.run is not None, "of a run"
    return event.run.keys.split(KEY_END) if event.run.keys else ()


_id_text = lru_cache(4_096)(guid_to_text)  # of few workers and arrays
_MAKERS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "workerId": _ids,
    "arrayId": _ids,
    "request": _requests,
    "parents": _parents,
}
# By the field of a history row: what a run says of each of its jobs; nothing if it says nothing.
_IN_RUNS: Final[dict[str, Callable[[Event], Sequence[Any]]]] = {
    "fence": _fences,
    "runMs": attrgetter("run.run_ms"),
    "peakBytes": attrgetter("run.peak_bytes"),
    "fetchedBytes": attrgetter("run.fetched_bytes"),
    "heldBytes": attrgetter("run.held_bytes"),
    "bodyBytes": attrgetter("run.body_bytes"),
    "blobBytes": attrgetter("run.blob_bytes"),
    "jobKey": _keys,
    "request": attrgetter("run.requests"),
}


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

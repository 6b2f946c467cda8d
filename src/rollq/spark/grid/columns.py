"""The columns that `grid_map` adds to a row: names, types and values."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rollq.base.errors import RollqError
from rollq.base.ids import guid_to_text
from rollq.roles.client.many.keyed import Ended
from rollq.roles.client.results.outputs import Output
from rollq.roles.client.results.result import Result

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import DataType

STREAMS: Final = ("stdout", "stderr")
REFUSED: Final = "REFUSED"  # no job was created
STREAM_LIMIT: Final = 64 << 20
BATCH_BYTES: Final = 128 << 20  # of streams in one batch; a single row may exceed it


@dataclass(slots=True)
class InputRow:
    """One row of the input: its position, and the outcome of its job.

    Attributes:
        stream_limit: The most bytes of stdout, and of stderr, that are returned whole.
        error: Why no job was created; empty if one was.
    """

    batch: pa.RecordBatch
    index: int
    put_at: float
    stream_limit: int = STREAM_LIMIT
    ended: Ended | None = None
    ended_at: float = 0.0
    error: str = ""

    @property
    def result(self) -> Result | None:
        """The result of its job; None without one."""
        return None if self.ended is None else self.ended.result

    @property
    def is_resumed(self) -> bool:
        """Whether the job was already known from an earlier run."""
        return self.ended is not None and self.ended.is_known

    def stream(self, name: str) -> tuple[str | None, bool]:
        """The stdout or stderr of its program, and whether it is truncated: it exceeds the limit,
        or what the grid has kept."""
        result = self.result
        if result is None:
            return None, False
        if not (self._is_long(result, name) or getattr(result, f"{name}_lost")):
            with contextlib.suppress(RollqError):  # if it cannot be fetched
                return getattr(result, name), False
        return getattr(result, f"{name}_tail"), True

    @property
    def stream_bytes(self) -> int:
        """The size of both streams in the output row."""
        result = self.result
        if result is None:
            return 0
        return sum(
            0 if self._is_long(result, name) else getattr(result, f"whole_{name}").size
            for name in STREAMS
        )

    def _is_long(self, result: Result, name: str) -> bool:
        return bool(getattr(result, f"whole_{name}").size > self.stream_limit)


def pieces(rows: Sequence[InputRow]) -> Iterator[Sequence[InputRow]]:
    """Split rows into parts that fit into one batch."""
    first = size = 0
    for number, row in enumerate(rows):
        size += row.stream_bytes
        if size > BATCH_BYTES and number > first:
            yield rows[first:number]
            first, size = number, row.stream_bytes
    yield rows[first:]


def batch_of(rows: Sequence[InputRow], column_count: int, prefix: str) -> pa.RecordBatch:
    """Rows of one input batch with the added columns."""
    import pyarrow as pa

    batch = rows[0].batch
    taken = pa.array([row.index for row in rows], pa.int64())
    arrays = [column.take(taken) for column in batch.columns[:column_count]]
    names = list(batch.schema.names[:column_count])
    for name, kind, value_of in COLUMNS:
        arrays.append(_array([value_of(row) for row in rows], _arrow_type(kind)))
        names.append(prefix + name)
    return pa.RecordBatch.from_arrays(arrays, names=names)


# --- values


def _job_id(row: InputRow) -> str | None:
    return None if row.ended is None else guid_to_text(row.ended.job_id)


def _status(row: InputRow) -> str:
    result = row.result
    return REFUSED if result is None else result.status


def _of_result(read: Callable[[Result], Any]) -> Callable[[InputRow], Any]:
    def value(row: InputRow) -> Any:
        result = row.result
        return None if result is None else read(result)

    return value


def _text_value(row: InputRow) -> str | None:
    """Text or JSON returned by a function; it is its stdout, too."""
    value = _value(row)
    return value if isinstance(value, str) and value else None


def _data(row: InputRow) -> bytes | None:
    value = _value(row)
    return value if isinstance(value, bytes) and value else None


def _value(row: InputRow) -> Any:
    result = row.result
    if result is None or (row.stream("stdout")[1] and not result.data_size):
        return None
    with contextlib.suppress(RollqError):  # if it cannot be fetched
        return result.value
    return None


def _outputs(result: Result) -> list[tuple[str, dict[str, Any]]] | None:
    try:
        outputs = result.outputs
    except RollqError:
        return None  # reported by `_error`
    return [(name, _output(one)) for name, one in outputs.items()] if outputs else None


def _output(output: Output) -> dict[str, Any]:
    content = output.read() if output.is_here else None
    return {"size": output.size, "digest": output.digest, "content": content}


def _wait_ms(row: InputRow) -> int | None:
    result = row.result
    if result is None or row.is_resumed:
        return None
    return max(0, round((row.ended_at - row.put_at) * 1000) - result.run_ms)


def _error(row: InputRow) -> str | None:
    """The error as text; None if the job succeeded."""
    if row.error or row.ended is None:
        return row.error
    if row.ended.refusal is not None:
        return str(row.ended.refusal)
    result = row.ended.result
    assert result is not None
    try:
        result.raise_for_status()
        return _broken_outputs(result)
    except RollqError as error:
        return f"{error.message}; {error.hint}" if error.hint else error.message


def _broken_outputs(result: Result) -> str | None:
    result.outputs  # noqa: B018 - raises
    return None


# --- types

TEXT, BYTES, INT, LONG, FLAG, MOMENT, FILES = (
    *("string", "binary", "int", "long", "boolean", "timestamp"),
    "map of files",
)

# Name, type, value; in the order of the columns.
COLUMNS: Final[tuple[tuple[str, str, Callable[[InputRow], Any]], ...]] = (
    ("job_id", TEXT, _job_id),
    ("status", TEXT, _status),
    ("exit_code", INT, _of_result(lambda result: result.exit_code)),
    ("signal", INT, _of_result(lambda result: result.signal)),
    ("stdout", TEXT, lambda row: row.stream("stdout")[0]),
    ("stderr", TEXT, lambda row: row.stream("stderr")[0]),
    ("value", TEXT, _text_value),
    ("data", BYTES, _data),
    ("outputs", FILES, _of_result(_outputs)),
    ("attempts", INT, _of_result(lambda result: result.attempts)),
    ("worker", TEXT, _of_result(lambda result: result.worker or None)),
    ("run_ms", LONG, _of_result(lambda result: result.run_ms)),
    ("wait_ms", LONG, _wait_ms),
    ("submitted_at", MOMENT, lambda row: round(row.put_at * 1e6)),
    ("ended_at", MOMENT, lambda row: round(row.ended_at * 1e6)),
    ("resumed", FLAG, lambda row: row.is_resumed),
    ("error", TEXT, _error),
    ("stdout_truncated", FLAG, lambda row: row.stream("stdout")[1]),
    ("stderr_truncated", FLAG, lambda row: row.stream("stderr")[1]),
)


def spark_type(kind: str) -> DataType:
    """A column's type for Spark."""
    from pyspark.sql import types

    if kind == FILES:
        one = types.StructType(
            [
                types.StructField("size", types.LongType()),
                types.StructField("digest", types.StringType()),
                types.StructField("content", types.BinaryType()),
            ]
        )
        return types.MapType(types.StringType(), one)
    plain: dict[str, DataType] = {
        TEXT: types.StringType(),
        BYTES: types.BinaryType(),
        INT: types.IntegerType(),
        LONG: types.LongType(),
        FLAG: types.BooleanType(),
        MOMENT: types.TimestampType(),
    }
    return plain[kind]


def _arrow_type(kind: str) -> pa.DataType:
    import pyarrow as pa

    if kind == FILES:
        one = {"size": pa.int64(), "digest": pa.string(), "content": pa.binary()}
        return pa.map_(pa.string(), pa.struct(list(one.items())))
    plain = {
        TEXT: pa.string(),
        BYTES: pa.binary(),
        INT: pa.int32(),
        LONG: pa.int64(),
        FLAG: pa.bool_(),
        MOMENT: pa.timestamp("us", "UTC"),
    }
    return plain[kind]


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    import pyarrow as pa

    try:
        return pa.array(values, kind)
    except UnicodeEncodeError:  # lone surrogates: output that is not UTF-8
        return pa.array([_clean(value) for value in values], kind)


def _clean(value: Any) -> Any:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value

"""Arrays and tables: numpy by its buffers, Arrow, pandas and polars by Arrow's IPC format.

The libraries belong to the application: one is imported here only when a value of it is read.
"""

from __future__ import annotations

import io
import sys
from importlib import import_module
from typing import Any, Final

from msgspec.msgpack import Ext

from rollq.values.codec import (
    FAMILIES,
    READERS,
    CannotTravelError,
    Packer,
    Tag,
    Unpacker,
    Writer,
    encode,
)

FRAME, SERIES, TABLE, BATCH, ARRAY, CHUNKED = "frame", "series", "table", "batch", "array", "chunks"
COLUMN: Final = "value"  # of a table that stands for one array or series


def _library(name: str) -> Any:
    """A library that a value needs.

    Raises:
        ValueError: it is not installed here.
    """
    try:
        return import_module(name)
    except ImportError:
        raise ValueError(f"a value needs {name}, which is not installed") from None


# --- numpy


def _write_array(packer: Packer, array: Any) -> Any:
    numpy = sys.modules["numpy"]
    if array.dtype.hasobject:
        raise CannotTravelError(type(array), "it holds Python objects: convert it to a list")
    order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    flat = array.T if order == "F" else numpy.ascontiguousarray(array)
    said = [numpy.lib.format.dtype_to_descr(array.dtype), list(array.shape), order]
    content = packer.buffer(flat.reshape(-1).view("u1")) if array.size else b""
    return _pair(packer, Tag.ARRAY, said, content)


def _array_of(unpacker: Unpacker, data: memoryview) -> Any:
    """Writable, and not copied if the bytes are mapped from a file."""
    numpy = _library("numpy")
    (described, shape, order), content = unpacker.raw(data)
    dtype = numpy.lib.format.descr_to_dtype(described)
    if dtype.hasobject:
        raise ValueError("damaged: an array of objects")
    if not content.nbytes:
        if dtype.itemsize and 0 not in shape:
            raise ValueError("damaged: an array without its bytes")
        return numpy.empty(shape, dtype, order)
    if content.readonly:
        content = memoryview(bytearray(content))
    return numpy.frombuffer(content, dtype).reshape(shape, order=order)


def _write_scalar(packer: Packer, scalar: Any) -> Any:
    numpy = sys.modules["numpy"]
    described = numpy.lib.format.dtype_to_descr(scalar.dtype)
    return packer.tagged(Tag.SCALAR, [described, scalar.tobytes()])


def _scalar_of(unpacker: Unpacker, data: memoryview) -> Any:
    numpy = _library("numpy")
    described, content = unpacker.value(data)
    dtype = numpy.lib.format.descr_to_dtype(described)
    if dtype.hasobject:
        raise ValueError("damaged: an object of numpy")
    return numpy.frombuffer(content, dtype)[0]


# --- Arrow and pandas


def _write_arrow(packer: Packer, value: Any) -> Any:
    arrow = sys.modules["pyarrow"]
    kind, table = TABLE, value
    if isinstance(value, arrow.RecordBatch):
        kind, table = BATCH, arrow.Table.from_batches([value])
    elif not isinstance(value, arrow.Table):
        kind = CHUNKED if isinstance(value, arrow.ChunkedArray) else ARRAY
        table = arrow.table({COLUMN: value})
    return _pair(packer, Tag.ARROW, kind, _ipc(packer, arrow, table))


def _arrow_of(unpacker: Unpacker, data: memoryview) -> Any:
    kind, content = unpacker.raw(data)
    table = _table_of(content)
    if kind == TABLE:
        return table
    if kind == BATCH:
        batches = table.to_batches()
        return (
            batches[0] if batches else _library("pyarrow").RecordBatch.from_pylist([], table.schema)
        )
    column = table.column(0)
    return column if kind == CHUNKED else column.combine_chunks()


def _write_pandas(packer: Packer, value: Any) -> Any:
    pandas = sys.modules["pandas"]
    try:
        arrow = import_module("pyarrow")
    except ImportError:
        raise CannotTravelError(type(value), "install pyarrow for it") from None
    kind, frame, name = FRAME, value, None
    if isinstance(value, pandas.Series):
        kind, frame, name = SERIES, value.to_frame(COLUMN), value.name
    try:
        table = arrow.Table.from_pandas(frame)
    except (arrow.ArrowException, TypeError, ValueError) as error:
        raise CannotTravelError(type(value), str(error)) from None
    return _pair(packer, Tag.PANDAS, [kind, name], _ipc(packer, arrow, table))


def _pandas_of(unpacker: Unpacker, data: memoryview) -> Any:
    _library("pandas")
    (kind, name), content = unpacker.raw(data)
    frame = _table_of(content).to_pandas()
    return frame if kind == FRAME else frame[COLUMN].rename(name)


def _ipc(packer: Packer, arrow: Any, table: Any) -> Any:
    sink = arrow.BufferOutputStream()
    with arrow.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return packer.buffer(memoryview(sink.getvalue()))


def _table_of(content: memoryview) -> Any:
    arrow = _library("pyarrow")
    try:
        return arrow.ipc.open_stream(arrow.py_buffer(content)).read_all()
    except arrow.ArrowException as error:
        raise ValueError(f"damaged: {error}") from None


# --- polars


def _write_polars(packer: Packer, value: Any) -> Any:
    polars = sys.modules["polars"]
    kind, frame, name = FRAME, value, ""
    if isinstance(value, polars.Series):
        kind, frame, name = SERIES, value.alias(COLUMN).to_frame(), value.name
    if any(dtype == polars.Object for dtype in frame.dtypes):
        raise CannotTravelError(type(value), "it holds Python objects")
    sink = io.BytesIO()
    frame.write_ipc(sink)
    return _pair(packer, Tag.POLARS, [kind, name], packer.buffer(sink.getbuffer()))


def _polars_of(unpacker: Unpacker, data: memoryview) -> Any:
    polars = _library("polars")
    (kind, name), content = unpacker.raw(data)
    frame = polars.read_ipc(io.BytesIO(content))
    return frame if kind == FRAME else frame.to_series().alias(name)


# --- for all of them


def _pair(packer: Packer, tag: int, said: Any, content: Any) -> Any:
    """A description and its bytes, which may be a buffer."""
    return Ext(tag, encode((packer.form(said), content)))


def _array_writer(kind: type) -> Writer | None:
    """Selected by the names of the class and its bases, so that nothing is imported for it."""
    for above in kind.__mro__:
        library = above.__module__.partition(".")[0]
        write = BY_NAME.get((library, above.__name__))
        if write is not None:  # a subclass of the application would lose its own fields
            is_known = above is kind or library == "pyarrow" or write is _write_scalar
            return write if is_known else None
    return None


BY_NAME: Final[dict[tuple[str, str], Writer]] = {
    ("numpy", "ndarray"): _write_array,
    ("numpy", "generic"): _write_scalar,
    ("pyarrow", "Table"): _write_arrow,
    ("pyarrow", "RecordBatch"): _write_arrow,
    ("pyarrow", "ChunkedArray"): _write_arrow,
    ("pyarrow", "Array"): _write_arrow,
    ("pandas", "DataFrame"): _write_pandas,
    ("pandas", "Series"): _write_pandas,
    ("polars", "DataFrame"): _write_polars,
    ("polars", "Series"): _write_polars,
}
FAMILIES.insert(0, _array_writer)
READERS[Tag.ARRAY] = _array_of
READERS[Tag.SCALAR] = _scalar_of
READERS[Tag.ARROW] = _arrow_of
READERS[Tag.PANDAS] = _pandas_of
READERS[Tag.POLARS] = _polars_of

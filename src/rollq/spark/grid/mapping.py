"""`grid_map`: run a program or function on the grid for each row of a DataFrame."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Unpack

from rollq.base.errors import ErrorCode, LocalError
from rollq.base.limits import CLIENT_ID_BYTES_MAX
from rollq.base.names import EXEC_NAME_HINT, is_exec_name
from rollq.roles.client.addresses import as_addresses
from rollq.roles.client.engine.base import default_id
from rollq.roles.client.jobs.options import Options, job_options
from rollq.roles.client.jobs.specs import Input, check_names
from rollq.spark.grid.columns import COLUMNS, STREAM_LIMIT, spark_type
from rollq.spark.grid.flow import Layout, MapPlan
from rollq.spark.grid.task import GridTask

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

WINDOW: Final = 1_024
TIMEOUT_S: Final = 30.0
ENDS: Final = ("OK", "FAILED", "DEAD", "CANCELLED")
SHIPPED_BYTES_MAX: Final = 16 * 1024 * 1024  # of constant files, which are sent to every task


def grid_map(
    df: DataFrame,
    *,
    exec: str,
    servers: str,
    args: Sequence[Any] | str | Column = (),
    payload: str | Column | None = None,
    files: Mapping[str, Any] | None = None,
    outputs: Sequence[str] = (),
    job_key: str | Column | None = None,
    client_id: str = "",
    rerun: Collection[str] = ("CANCELLED",),
    prefix: str = "",
    window: int = WINDOW,
    timeout: float = TIMEOUT_S,
    stream_limit: int = STREAM_LIMIT,
    credentials: str | PathLike[str] = "",
    **options: Unpack[Options],
) -> DataFrame:
    """Run a program or function on the grid for every row; returns the rows with result columns.

    Lazy like all DataFrames: jobs are submitted when the result is evaluated. A failed job does not
    fail the query; its row has the error.

    Args:
        df: The input rows.
        exec: The name of the program or function on the workers.
        servers: Members of the group, `host:port,host:port…`.
        args: The arguments, in order: a string names a column, a Column is an expression, anything
            else is a constant (`F.lit("text")` for a text). Or one column that is an array.
        payload: A column with the whole job body instead; a struct, map or array becomes JSON.
        files: Input files by name: a string names a column of bytes or text; a Column; `bytes`, a
            `Path` (read now, on the driver), a `BlobRef` or a `CacheFile` is the same for all rows.
        outputs: Patterns of the files to return; empty: all new files.
        job_key: A column with a unique key per row: a row whose key has run before under the same
            `client_id`, in any call, gets the kept result.
        client_id: The namespace of the keys; by default one per `exec`.
        rerun: Statuses of earlier results whose jobs run again.
        prefix: Of the names of the added columns.
        window: The most open jobs per partition.
        timeout: Seconds without an answer of any member after which a task fails.
        stream_limit: The most bytes of stdout, and of stderr, that are returned whole; of a larger
            stream the end is returned, and `stdout_truncated` or `stderr_truncated` is set.
        credentials: Their directory, on every executor; with `job_key` on the driver too.
        options: As of `Client.submit`: `queue`, `priority`, `run_limit`, `expire`, …

    Raises:
        LocalError: an argument is not valid. Nothing was submitted.
    """
    if client_id and job_key is None:
        raise _bad(f"client_id={client_id!r} says whose keys there are", "give a job_key")
    columns, layout, constants = _columns(df, args, payload, files or {}, job_key)
    plan = MapPlan(
        servers,
        exec,
        secrets.token_hex(8),
        "" if job_key is None else client_id or default_id(fspath(credentials), f"grid-map-{exec}"),
        layout,
        constants,
        _texts(outputs),
        options,
        frozenset(_texts(rerun)),
        prefix,
        window,
        timeout,
        stream_limit,
        fspath(credentials),
    )
    _check(plan, df)
    return _mapped(df.select("*", *columns), df, plan)


def _mapped(prepared: DataFrame, df: DataFrame, plan: MapPlan) -> DataFrame:
    from pyspark.sql.types import StructField, StructType

    task = GridTask(plan)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return task(batches)

    added = [StructField(plan.prefix + name, spark_type(kind)) for name, kind, _ in COLUMNS]
    return prepared.mapInArrow(run, StructType([*df.schema.fields, *added]))


# --- validation before anything is submitted


def _check(plan: MapPlan, df: DataFrame) -> None:
    if not is_exec_name(plan.exec_name):
        raise _bad(f"exec={plan.exec_name!r}", EXEC_NAME_HINT)
    as_addresses(plan.servers)
    job_options(plan.options)
    numbers = {"window": plan.window, "timeout": plan.timeout_s, "stream_limit": plan.stream_limit}
    for what, number in numbers.items():
        if not number > 0:
            raise _bad(f"{what}={number}", "it is above 0")
    if len(plan.client_id.encode()) > CLIENT_ID_BYTES_MAX:
        raise _bad(f"client_id={plan.client_id[:40]!r}…", f"use up to {CLIENT_ID_BYTES_MAX} bytes")
    unknown = next((end for end in plan.rerun if end not in ENDS), None)
    if unknown is not None:
        raise _bad(f"rerun={unknown!r}", f"use some of: {', '.join(ENDS)}")
    if plan.layout.has_payload and (plan.layout.file_names or plan.files or plan.outputs):
        raise _bad("a job has either a payload, or arguments and files", "give one of them")
    taken = {name.lower() for name in df.columns}
    clash = [name for name, _, _ in COLUMNS if (plan.prefix + name).lower() in taken]
    if clash:
        raise _bad(
            f"the input has columns {', '.join(plan.prefix + name for name in clash)} already",
            "give the new ones a prefix, such as prefix='job_'",
        )


def _texts(given: Collection[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _columns(
    df: DataFrame,
    args: Sequence[Any] | str | Column,
    payload: str | Column | None,
    files: Mapping[str, Any],
    job_key: str | Column | None,
) -> tuple[list[Column], Layout, dict[str, Input]]:
    """The job columns of a row, their layout, and the constant files."""
    names, contents, constants = _files(df, files)
    columns = [_arguments(df, args).alias("_args")]
    if job_key is not None:
        columns.append(_column(df, job_key, "job_key").cast("string").alias("_key"))
    if payload is not None:
        if not isinstance(args, Sequence) or args:
            raise _bad("a job has either a payload, or arguments and files", "give one of them")
        columns.append(_payload(df, payload).alias("_payload"))
    columns += [one.alias(f"_file_{number}") for number, one in enumerate(contents)]
    layout = Layout(len(df.columns), job_key is not None, payload is not None, names)
    return columns, layout, constants


def _column(df: DataFrame, given: str | Column, role: str) -> Column:
    from pyspark.sql import functions as f

    if not isinstance(given, str):
        return given
    if given not in df.columns:
        raise _bad(
            f"{role}: there is no column {given!r}",
            f"there are {', '.join(df.columns)}; a constant text is f.lit({given!r})",
        )
    return f.col(f"`{given}`")


def _arguments(df: DataFrame, args: Sequence[Any] | str | Column) -> Column:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import functions as f
    from pyspark.sql.types import ArrayType

    if isinstance(args, str | SparkColumn):
        column = _column(df, args, "args")
        found = _type_of(df, column, "args")
        if not isinstance(found, ArrayType):
            raise _bad(
                f"args is one column of type {found.simpleString()}, and no array",
                "give a list of columns: args=[…]",
            )
        return column.cast("array<string>")
    each = [
        _column(df, one, f"argument {number}") if isinstance(one, str | SparkColumn) else f.lit(one)
        for number, one in enumerate(args, 1)
    ]
    for number, one in enumerate(each, 1):
        _check_scalar(_type_of(df, one, f"argument {number}"), f"argument {number}")
    return f.array(*(one.cast("string") for one in each)).cast("array<string>")


def _payload(df: DataFrame, payload: str | Column) -> Column:
    from pyspark.sql import functions as f
    from pyspark.sql.types import ArrayType, MapType, StructType

    column = _column(df, payload, "payload")
    found = _type_of(df, column, "payload")
    if isinstance(found, StructType | MapType | ArrayType):
        column = f.to_json(column)
    return column.cast("string").cast("binary") if found.typeName() != "binary" else column


def _files(
    df: DataFrame, files: Mapping[str, Any]
) -> tuple[tuple[str, ...], list[Column], dict[str, Input]]:
    """Names and columns of files from columns, and the constant files."""
    from pyspark.sql import Column as SparkColumn

    check_names(files)
    names: list[str] = []
    columns: list[Column] = []
    constants: dict[str, Input] = {}
    for name, given in files.items():
        if isinstance(given, str | SparkColumn):
            column = _column(df, given, f"file {name!r}")
            found = _type_of(df, column, f"file {name!r}").typeName()
            if found not in ("binary", "string"):
                raise _bad(f"file {name!r} is a column of type {found}", "use bytes or text")
            names.append(name)
            columns.append(column.cast("binary"))
        else:
            constants[name] = _read(name, given) if isinstance(given, PathLike) else given
    size = sum(len(one) for one in constants.values() if isinstance(one, bytes))
    if size > SHIPPED_BYTES_MAX:
        raise _bad(
            f"files for all rows have {size} bytes; at most {SHIPPED_BYTES_MAX} go with every task",
            "put them on the workers with client.cache_put, and name them by CacheFile",
        )
    return tuple(names), columns, constants


def _read(name: str, path: PathLike[str]) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise _bad(f"file {name!r}: {error}", "give the path of a file") from None


def _type_of(df: DataFrame, column: Column, role: str) -> Any:
    from pyspark.errors import AnalysisException

    try:
        return df.select(column).schema.fields[0].dataType
    except AnalysisException as error:
        raise _bad(f"{role}: {error}", "name columns of the input") from None


def _check_scalar(found: Any, role: str) -> None:
    from pyspark.sql.types import ArrayType, BinaryType, MapType, StructType

    if isinstance(found, ArrayType | BinaryType | MapType | StructType):
        raise _bad(
            f"{role} is of type {found.simpleString()}",
            "arguments are text and numbers; send anything else as a file or as the payload",
        )


def _bad(message: str, hint: str) -> LocalError:
    return LocalError(ErrorCode.BAD_OPTIONS, message, hint)

"""SQL queries over the tables of the pipeline: views by name, results as plain rows, and error
messages that a user can act on."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rollq.base.errors import ErrorCode, LocalError
from rollq.spark.pipeline.catalog import SHORT, table_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TABLES: Final = SHORT  # each table has its full name and a short alias
DATABASE: Final = "rollq"  # of the views in a server, visible to all of its sessions
_READING: Final = (
    "select",
    "with",
    "from",
    "values",
    "table",
    "show",
    "describe",
    "desc",
    "explain",
)
_AHEAD: Final = ("with", "from")  # statements that may end in a write
_WRITING: Final = ("insert", "merge", "update", "delete")
# Not SQL keywords: literals, quoted names, comments.
_QUOTED: Final = re.compile(
    r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|--[^\n]*|/\*.*?\*/""", re.DOTALL
)
_SPARKS_PLACE: Final = re.compile(r"\s*SQLSTATE: \w+.*", re.DOTALL)
_TRACE: Final = re.compile(r"\n\s+at [\w.$]+\(.*|\s*(?:JVM|Driver) stacktrace:.*", re.DOTALL)
_NOT_FOUND: Final = "TABLE_OR_VIEW_NOT_FOUND"

Load = Callable[[str], "DataFrame"]


@dataclass(frozen=True, slots=True)
class QueryAnswer:
    """The result of a query."""

    columns: list[str]
    rows: list[tuple[Any, ...]]
    has_more: bool  # the limit cut off further rows


def add_views(spark: SparkSession, load: Load, text: str = "") -> None:
    """Register views under both names of a table. Only of tables that the query mentions, since
    opening one takes time; of all tables for SHOW, or without a query."""
    words = set(re.findall(r"\w+", text.lower()))
    is_for_all = not words or "show" in words
    for table, name in TABLES.items():
        if is_for_all or {table, name} & words:
            frame = load(table)
            frame.createOrReplaceTempView(table)
            frame.createOrReplaceTempView(name)


def views(spark: SparkSession, tables: str | Path, form: str = "") -> None:
    """Register the tables of a pipeline as views in this session: `jobs`, `attempts`, `hourly` and
    so on, as of the newest batch.

    Args:
        spark: the session.
        tables: the folder of the pipeline, or its database.
        form: the format of the tables, `parquet`, `iceberg` or `delta`, if it cannot be detected:
            it can be in a local folder.

    Raises:
        LocalError: BAD_OPTIONS if there are no tables of a pipeline.
    """
    add_views(spark, loader(spark, tables, form))


def loader(spark: SparkSession, tables: str | Path, form: str = "") -> Load:
    """A function that opens a table of a pipeline; all tables are of one batch.

    Raises:
        LocalError: BAD_OPTIONS if there are no tables of a pipeline.
    """
    from rollq.spark.pipeline.formats import storage_of
    from rollq.spark.pipeline.tables import described

    storage = storage_of(spark, tables, form)
    manifest = storage.expect()

    def load(name: str) -> DataFrame:
        table = table_of(name)
        return described(storage.read(manifest, table), table)

    return load


def served(spark: SparkSession) -> Load:
    """A function that opens a table of the server that the session is connected to."""
    return lambda name: spark.table(f"{DATABASE}.{name}")


def ask(spark: SparkSession, text: str, limit: int) -> QueryAnswer:
    """The first rows of a query's result.

    Raises:
        LocalError: BAD_OPTIONS if it is not a query, or Spark rejects it; with the reason.
    """
    from pyspark.errors import PySparkException

    query = check_reads(text)
    # Spark logs every error in a query to the terminal, with a stack trace.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    try:
        frame = spark.sql(query)
        rows = [tuple(row) for row in frame.limit(limit + 1).collect()]
    except PySparkException as error:
        raise refused(error) from None
    return QueryAnswer(frame.columns, rows[:limit], len(rows) > limit)


def check_reads(text: str) -> str:
    """The query without a trailing semicolon. Raises LocalError unless it only reads."""
    words = re.findall(r"\w+", _QUOTED.sub(" ", text).lower())
    if not words:
        raise LocalError(ErrorCode.BAD_OPTIONS, "there is no query", f"tables: {names()}")
    bad = words[:1] if words[0] not in _READING else []
    if words[0] in _AHEAD:
        bad += [word for word in words if word in _WRITING]
    if bad:
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            f"a query reads, and {bad[0].upper()} does not",
            "begin with SELECT, WITH, SHOW TABLES or DESCRIBE",
        )
    return text.strip().rstrip(";")


def refused(error: Any) -> LocalError:
    """Spark's error without its internals."""
    condition = error.getCondition() or ""
    if condition.startswith(_NOT_FOUND):
        name = (error.getMessageParameters() or {}).get("relationName", "").replace("`", "")
        return LocalError(ErrorCode.BAD_OPTIONS, f"there is no table {name}", f"tables: {names()}")
    told = str(error).strip()
    place = re.search(r"\bline (\d+),? pos(?:ition)? (\d+)", told)
    told = _SPARKS_PLACE.sub("", _TRACE.sub("", told)).removeprefix(f"[{condition}]").strip()
    where = f" (line {place[1]}, column {int(place[2]) + 1})" if place else ""
    hint = f"tables: {names()}; DESCRIBE jobs lists columns"
    return LocalError(ErrorCode.BAD_OPTIONS, f"{' '.join(told.split())}{where}", hint)


def names(tables: Iterable[str] = tuple(TABLES.values())) -> str:
    """Names as a list in a sentence."""
    return ", ".join(tables)

"""Reads and writes Parquet files listed in a manifest.

Tables must be read through the manifest: the folders also hold files of failed batches. `parquet`
decides which files a batch reads and replaces.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rollq.spark.pipeline.catalog import TableColumn, TableSpec, table_of
from rollq.spark.pipeline.dictionary import meaning_of
from rollq.spark.pipeline.manifest import DATA, Book, File

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# The partition columns of files.
DAY: Final = "day"
KIND: Final = "kind"
OPEN: Final = "open"
FINAL: Final = "final"
_NO_DAY: Final = "__HIVE_DEFAULT_PARTITION__"  # Spark's partition value for NULL
CODEC: Final = "zstd"
STAGED_CODEC: Final = "lz4_raw"
FILE_ROWS_MAX: Final = 500_000
WRITING: Final = {
    "compression": CODEC,
    "maxRecordsPerFile": str(FILE_ROWS_MAX),
    # Files need not be moved on commit: a manifest lists them afterwards.
    "mapreduce.fileoutputcommitter.algorithm.version": "2",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
_MS: Final = 1000
_ALWAYS: Final = (0, 1 << 62)


def described(frame: DataFrame, table: TableSpec) -> DataFrame:
    """The same rows, with column comments for `DESCRIBE` on a view."""
    from pyspark.sql import functions as F  # noqa: N812 - its usual name

    words = {name: meaning_of(table.name, name) for name in table.names}
    return frame.select(
        *(F.col(name).alias(name, metadata={"comment": words[name]}) for name in table.names)
    )


def paths(out: str | Path, name: str) -> list[Path]:
    """The Parquet files of a table, for readers without Spark."""
    table = table_of(name)
    book = Book(Path(out))
    return [book.out / file.path for file in book.expect().files(table.name)]


def day_of(ms: int) -> str:
    """The day of a timestamp, as a partition value."""
    return datetime.fromtimestamp(ms / _MS, UTC).strftime("%Y-%m-%d")


def days_of(spans: Iterable[tuple[int, int]]) -> set[str]:
    """The days of time spans."""
    return {day_of(ms) for first, last in spans for ms in (*range(first, last + 1, DAY_MS), last)}


class TableStore:
    """The Parquet files of one folder."""

    def __init__(self, spark: SparkSession, out: Path) -> None:
        self.out = out.absolute()
        self.spark = spark
        self._staged: list[Callable[[], object]] = []

    def read(self, table: TableSpec, files: Iterable[File]) -> DataFrame:
        """The rows of some files of a table."""
        named = [str(self.out / file.path) for file in files]
        if not named:
            return self.spark.createDataFrame([], table.ddl)
        frame = self.spark.read.schema(table.ddl).parquet(*named)
        late = [column for column in table.columns if column.before != "NULL"]
        return frame.withColumns({one.name: _filled(one) for one in late}) if late else frame

    def write(
        self, frame: DataFrame, table: TableSpec, stamp: str, open_if: str = ""
    ) -> list[File]:
        """Write rows as new files of a table, invisible until a manifest lists them.

        Args:
            frame: the rows; additional columns are dropped.
            table: the table.
            stamp: the name of the folder, which is cleared first.
            open_if: SQL condition of open rows; they get separate files without a day partition.
        """
        from pyspark.sql import functions as F  # noqa: N812 - its usual name

        folder = self.out / DATA / table.name / stamp
        shutil.rmtree(folder, ignore_errors=True)
        split = {}
        if open_if:
            split[KIND] = F.when(F.expr(open_if), F.lit(OPEN)).otherwise(F.lit(FINAL))
        if table.by:
            day = F.to_date(F.col(table.by))
            split[DAY] = F.when(~F.expr(open_if), day) if open_if else day
        rows = frame.select(*table.names, *(value.alias(name) for name, value in split.items()))
        writer = rows.write.options(**WRITING)
        (writer.partitionBy(*split) if split else writer).parquet(str(folder))
        found = (describe(path, self.out, table) for path in folder.rglob("*.parquet"))
        return sorted((file for file in found if file.rows), key=lambda file: file.path)

    def stage(self, frame: DataFrame, name: str, stamp: str) -> DataFrame:
        """Write an intermediate result to files, until `unstage`."""
        folder = self.out / DATA / f"_{name}" / stamp
        self._staged.append(partial(shutil.rmtree, folder, ignore_errors=True))
        shutil.rmtree(folder, ignore_errors=True)
        frame.write.option("compression", STAGED_CODEC).parquet(str(folder))
        return self.spark.read.schema(frame.schema).parquet(str(folder))

    def keep(self, frame: DataFrame) -> DataFrame:
        """As `stage`, in memory, for few rows. Computed by the first query."""
        kept = frame.persist()
        self._staged.append(kept.unpersist)
        return kept

    def unstage(self) -> None:
        """Release intermediate results; those of a failed batch are removed by the next sweep."""
        while self._staged:
            self._staged.pop()()


def _filled(column: TableColumn) -> Any:
    from pyspark.sql import functions as F  # noqa: N812

    return F.expr(f"coalesce(`{column.name}`, {column.before})")


def describe(path: Path, out: Path, table: TableSpec) -> File:
    """The manifest entry of a file, from its footer and its partition folders."""
    import pyarrow.parquet as pq

    footer = pq.read_metadata(path)
    within = dict(part.split("=", 1) for part in path.relative_to(out).parts if "=" in part)
    day = within.get(DAY, "")
    moments = [name for name in (table.since, table.by) if name]
    bounds = [_bounds(footer, name) for name in moments] or [_ALWAYS]
    return File(
        path=path.relative_to(out).as_posix(),
        rows=footer.num_rows,
        bytes=path.stat().st_size,
        day=day if day != _NO_DAY else "",
        kind=OPEN if within.get(KIND) == OPEN else "",
        first_ms=min(first for first, _ in bounds),
        last_ms=max(last for _, last in bounds),  # an end may precede its start, as clocks differ
    )


def _bounds(footer: Any, by: str) -> tuple[int, int]:
    """Minimum and maximum of a timestamp column; all of time without statistics."""
    lows: list[int] = []
    highs: list[int] = []
    names: Sequence[str] = footer.schema.names
    place = names.index(by) if by in names else -1
    for number in range(footer.num_row_groups):
        statistics = footer.row_group(number).column(place).statistics if place >= 0 else None
        if statistics is None or not statistics.has_min_max:
            return _ALWAYS
        lows.append(_millis(statistics.min))
        highs.append(_millis(statistics.max))
    return (min(lows), max(highs)) if lows else _ALWAYS


def _millis(moment: Any) -> int:
    return int(moment.timestamp() * _MS)

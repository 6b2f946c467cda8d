"""Tables as Parquet files listed in a manifest: a format without packages that needs a file system
shared by driver and executors.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from rollq.spark.pipeline import bronze
from rollq.spark.pipeline.bronze import Reading
from rollq.spark.pipeline.catalog import BRONZE, DEPTH, JOBS, LEVELS, TableSpec
from rollq.spark.pipeline.compact import FEW, compacted
from rollq.spark.pipeline.manifest import Book, File, TableManifest
from rollq.spark.pipeline.storage import ALL, NewEvents, Only, TableOutput
from rollq.spark.pipeline.tables import OPEN, TableStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SMALL_FILE_ROWS: Final = 100_000  # smaller files of open jobs are rewritten in every batch


class ParquetStorage:
    """The tables of one folder."""

    def __init__(self, spark: SparkSession, out: str | Path) -> None:
        self._book = Book(Path(out))
        self._store = TableStore(spark, self._book.out)

    def newest(self) -> TableManifest | None:
        """See `Storage`, also for the methods below."""
        return self._book.newest()

    def expect(self) -> TableManifest:
        return self._book.expect()

    def writing(self) -> AbstractContextManager[None]:
        return self._book.writing()

    def read(self, manifest: TableManifest, table: TableSpec) -> DataFrame:
        return self._store.read(table, manifest.files(table.name))

    def batch(self, found: TableManifest, stamp: str) -> ParquetBatch:
        return ParquetBatch(self._store, self._book, found, stamp)

    def sweep(self) -> None:
        self._book.sweep()

    def prune(self) -> None:
        self._book.sweep(keep_s=0)


class ParquetBatch:
    """Adds and replaces files of the previous manifest."""

    def __init__(self, store: TableStore, book: Book, found: TableManifest, stamp: str) -> None:
        self._stamp = stamp
        self._before = found
        self._files = dict(found.tables)
        self._store = store
        self._book = book
        self._found: Mapping[str, list[File]] = found.tables
        self._new: dict[str, list[File]] = {}
        self._kept_jobs: list[File] = []  # files of open jobs without new events

    def write_events(
        self, reading: Reading, known: Mapping[str, int], *, is_small: bool
    ) -> NewEvents:
        """See `TableBatch`, also for the methods below."""
        written = bronze.write(
            *(self._store.spark, reading, self._store.out, self._stamp, known), is_small=is_small
        )
        self._put(BRONZE, [*self._found.get(BRONZE.name, ()), *written.files], written.files)
        return NewEvents(sum(file.rows for file in written.files), written.hours)

    def begin_rebuild(self) -> NewEvents:
        events = self._files.get(BRONZE.name, [])
        self._found = {}
        self._files = {}
        self._put(BRONZE, events, events)
        hours = bronze.hours_of(self._store.read(BRONZE, events))
        return NewEvents(sum(file.rows for file in events), hours)

    def found(self, table: TableSpec, only: Only = ALL) -> DataFrame:
        return self._read(table, self._found.get(table.name, ()), only)

    def now(self, table: TableSpec, only: Only = ALL) -> DataFrame:
        return self._read(table, self._files.get(table.name, ()), only)

    def new(self, table: TableSpec, only: Only = ALL) -> DataFrame:
        return self._read(table, self._new.get(table.name, ()), only)

    def has(self, table: TableSpec, only: Only = ALL) -> bool:
        return bool(_chosen(self._found.get(table.name, ()), only))

    def take_open_jobs(self) -> DataFrame | None:
        files = self._open(JOBS)
        touched = self._touched(files)
        self._kept_jobs = [file for file in files if file not in touched]
        return self._store.read(JOBS, touched) if touched else None

    def replace_open_jobs(self, rows: DataFrame) -> None:
        # By time of submission: old jobs end together, so that few files change.
        ordered = rows.sortWithinPartitions("submitted_at")
        new = self._store.write(ordered, JOBS, self._stamp, open_if="is_open")
        self._put(JOBS, [*self._final(JOBS), *self._kept_jobs, *new], new)

    def append(self, table: TableSpec, rows: DataFrame) -> None:
        new = self._store.write(rows, table, self._stamp)
        self._put(table, [*self._found.get(table.name, ()), *new], new)

    def replace_open(self, table: TableSpec, rows: DataFrame, open_if: str) -> None:
        new = self._store.write(rows, table, self._stamp, open_if)
        self._put(table, [*self._final(table), *new], new)

    def replace_days(self, table: TableSpec, rows: DataFrame, days: Collection[str]) -> None:
        kept = [file for file in self._found.get(table.name, ()) if file.day not in days]
        new = self._store.write(rows, table, self._stamp)
        self._put(table, [*kept, *new], new)

    def replace_depth(self, rows: DataFrame, first_day: str) -> None:
        kept = [file for file in self._found.get(DEPTH.name, ()) if file.day < first_day]
        new = self._store.write(rows, DEPTH, self._stamp, "minute IS NULL")
        minutes = [file for file in new if file.kind != OPEN]
        levels = [file for file in new if file.kind == OPEN]
        self._put(DEPTH, [*kept, *minutes], minutes)
        self._put(LEVELS, levels, levels)

    def replace(self, table: TableSpec, rows: DataFrame) -> None:
        new = self._store.write(rows, table, self._stamp)
        self._put(table, new, new)

    def new_spans(self, table: TableSpec, only: Only = ALL) -> Sequence[tuple[int, int]]:
        files = _chosen(self._new.get(table.name, ()), only)
        return [(file.first_ms, file.last_ms) for file in files]

    def rows_about(self, table: TableSpec, first_ms: int, end_ms: int) -> float:
        files = self._files.get(table.name, ())
        return sum(file.rows * _share(file, first_ms, end_ms) for file in files)

    def stage(self, rows: DataFrame, name: str, *, is_small: bool) -> DataFrame:
        if is_small:
            return self._store.keep(rows)
        return self._store.stage(rows, name, self._stamp)

    def compact(self) -> bool:
        before = self._files
        self._files = compacted(self._store, before, self._stamp, many=FEW)
        return self._files != before

    def commit(self, manifest: TableManifest) -> TableManifest:
        self._files = compacted(self._store, self._files, f"{self._stamp}-c")
        made = msgspec.structs.replace(manifest, tables=self._files)
        self._book.commit(made)
        return made

    def outputs(self) -> Mapping[str, TableOutput]:
        known = {file.path for files in self._before.tables.values() for file in files}
        new = {
            name: [file for file in files if file.path not in known]
            for name, files in self._files.items()
        }
        return {
            name: TableOutput(sum(file.rows for file in files), sum(file.bytes for file in files))
            for name, files in new.items()
            if files
        }

    def end(self) -> None:
        self._store.unstage()

    def _touched(self, files: list[File]) -> list[File]:
        """The files of open jobs to rewrite: all small ones, and large ones that hold a job with
        new events."""
        large = [file for file in files if file.rows > SMALL_FILE_ROWS]
        if not large:
            return files
        rows = self._store.read(JOBS, large).select("group", "job_id", "_metadata.file_path")
        found = rows.join(
            self._store.spark.sql("SELECT DISTINCT _group AS `group`, job_id FROM news"),
            ["group", "job_id"],
            "left_semi",
        )
        ends = tuple(str(row[0]) for row in found.select("file_path").distinct().collect())
        return [
            file
            for file in files
            if file.rows <= SMALL_FILE_ROWS or any(end.endswith(file.path) for end in ends)
        ]

    def _read(self, table: TableSpec, files: Sequence[File], only: Only) -> DataFrame:
        rows = self._store.read(table, _chosen(files, only))
        moments = only.moments(table)
        return rows if moments == "true" else rows.where(moments)

    def _put(self, table: TableSpec, files: list[File], new: list[File]) -> None:
        self._files[table.name] = files
        self._new[table.name] = new

    def _open(self, table: TableSpec) -> list[File]:
        return [file for file in self._found.get(table.name, ()) if file.kind == OPEN]

    def _final(self, table: TableSpec) -> list[File]:
        return [file for file in self._found.get(table.name, ()) if file.kind != OPEN]


def _chosen(files: Sequence[File], only: Only) -> list[File]:
    return [file for file in files if _may_hold(file, only)]


def _may_hold(file: File, only: Only) -> bool:
    """Partition pruning: whether a file may have matching rows."""
    is_open = file.kind == OPEN
    return (
        (only.is_open is None or only.is_open == is_open)
        and (only.days is None or file.day in only.days)
        and file.day >= only.first_day
        and (only.first_ms is None or is_open or file.last_ms >= only.first_ms)
        and (only.end_ms is None or file.first_ms < only.end_ms)
    )


def _share(file: File, first_ms: int, end_ms: int) -> float:
    """The fraction of a file in a time span, if its rows are evenly distributed."""
    within = min(file.last_ms, end_ms) - max(file.first_ms, first_ms)
    return max(within, 0) / max(file.last_ms - file.first_ms, within, 1)

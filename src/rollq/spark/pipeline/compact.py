"""Small files become large ones: the rows are the same, only fewer files hold them.

By table and day, when there are many. What is a sum of batches is added up on the way.
"""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from rollq.spark.pipeline.catalog import BUSY, COUNTS, TABLES, Table
from rollq.spark.pipeline.dialect import SPARK
from rollq.spark.pipeline.gold import added_busy
from rollq.spark.pipeline.levels import added_counts
from rollq.spark.pipeline.manifest import Book, File, Manifest
from rollq.spark.pipeline.settings import SMALL_ROWS, small_work, suited
from rollq.spark.pipeline.tables import FILE_ROWS_MAX, TableStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MANY: Final = 24  # files of a day that hold less than they could: time to do something
FEW: Final = 2  # the same, if it is asked for
FULL_ROWS: Final = FILE_ROWS_MAX // 2
# Tables whose rows are added up: under which name, by which query.
_ADDED_UP: Final = {COUNTS: ("counts", added_counts(SPARK)), BUSY: ("busy", added_busy(SPARK))}


def compact(spark: SparkSession, out: str | Path) -> tuple[Manifest, Manifest]:
    """Compact the tables of a folder, and remove files that no manifest needs any more.

    Returns:
        The manifest before and the one after, which may be the same.

    Raises:
        LocalError: there are no tables here.
        DiskError: a pipeline is running.
    """
    book = Book(Path(out))
    before = book.expect()
    with book.writing():
        before = book.expect()
        stamp = f"{before.number + 1:010d}-{secrets.token_hex(4)}"
        with suited(spark):
            after = compacted(TableStore(spark, book.out), before, stamp, many=FEW)
        if after is not before:
            now_ms = int(time.time() * 1000)
            after = msgspec.structs.replace(after, number=before.number + 1, made_ms=now_ms)
            book.commit(after)
        book.sweep()
    return before, after


def compacted(store: TableStore, manifest: Manifest, stamp: str, many: int = MANY) -> Manifest:
    """The same tables in fewer files, if some day of a table has at least `many` that are not
    full. Files that hold open rows are none of its business: every batch writes them anew.

    Returns:
        The manifest with the new files, not yet committed; the same if there was nothing to do.
    """
    tables = dict(manifest.tables)
    for table in TABLES.values():
        small = small_files(manifest.files(table.name), many)
        if small:
            with small_work(store.spark, sum(file.rows for file in small) <= SMALL_ROWS):
                new = _rewritten(store, table, small, stamp)
            kept = [file for file in manifest.files(table.name) if file not in small]
            tables[table.name] = [*kept, *new]
    if tables == manifest.tables:
        return manifest
    return msgspec.structs.replace(manifest, tables=tables)


def small_files(files: list[File], many: int) -> list[File]:
    """Those of days that have many."""
    by_day: dict[str, list[File]] = {}
    for file in files:
        if not file.kind and file.rows < FULL_ROWS:
            by_day.setdefault(file.day, []).append(file)
    return [file for day in by_day.values() if len(day) >= many for file in day]


def _rewritten(store: TableStore, table: Table, files: list[File], stamp: str) -> list[File]:
    rows: DataFrame = store.read(table, files)
    if table in _ADDED_UP:
        name, query = _ADDED_UP[table]
        rows.createOrReplaceTempView(name)
        rows = rows.sparkSession.sql(query)
    count = -(-sum(file.rows for file in files) // FILE_ROWS_MAX)
    if table.by:
        # In the order of their moments: a day is in few files, and who asks for an hour skips the
        # rest.
        cut = rows.repartitionByRange(count, table.by) if count > 1 else rows.coalesce(1)
        return store.write(cut.sortWithinPartitions(table.by), table, stamp)
    return store.write(rows.coalesce(count), table, stamp)

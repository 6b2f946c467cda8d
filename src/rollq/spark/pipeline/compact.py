"""Merges small files into large ones without changing rows.

By table and day, if there are many. Rows that are sums over batches are added up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from rollq.spark.pipeline.catalog import BUSY, COUNTS, TABLES, TableSpec
from rollq.spark.pipeline.dialect import SPARK
from rollq.spark.pipeline.gold import added_busy
from rollq.spark.pipeline.levels import added_counts
from rollq.spark.pipeline.manifest import File
from rollq.spark.pipeline.settings import SMALL_ROWS, small_work
from rollq.spark.pipeline.tables import FILE_ROWS_MAX, TableStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MANY: Final = 24  # small files of a day that trigger compaction
FEW: Final = 2  # the same, for explicit compaction
FULL_ROWS: Final = FILE_ROWS_MAX // 2
# Tables with rows to be added up: the view name, and the query.
ADDED_UP: Final = {COUNTS: ("counts", added_counts(SPARK)), BUSY: ("busy", added_busy(SPARK))}


def compacted(
    store: TableStore, tables: Mapping[str, list[File]], stamp: str, many: int = MANY
) -> dict[str, list[File]]:
    """Merge the small files of days that have at least `many` of them. Files with open rows are
    left
    alone: every batch rewrites them.

    Returns:
        The files by table, with new ones that no manifest lists yet; unchanged without work.
    """
    made = dict(tables)
    for table in TABLES.values():
        files = tables.get(table.name, [])
        small = small_files(files, many)
        if small:
            with small_work(store.spark, sum(file.rows for file in small) <= SMALL_ROWS):
                new = _rewritten(store, table, small, stamp)
            made[table.name] = [*(file for file in files if file not in small), *new]
    return made


def small_files(files: list[File], many: int) -> list[File]:
    """The small files of days that have many."""
    by_day: dict[str, list[File]] = {}
    for file in files:
        if not file.kind and file.rows < FULL_ROWS:
            by_day.setdefault(file.day, []).append(file)
    return [file for day in by_day.values() if len(day) >= many for file in day]


def _rewritten(store: TableStore, table: TableSpec, files: list[File], stamp: str) -> list[File]:
    rows: DataFrame = store.read(table, files)
    if table in ADDED_UP:
        name, query = ADDED_UP[table]
        rows.createOrReplaceTempView(name)
        rows = rows.sparkSession.sql(query)
    count = -(-sum(file.rows for file in files) // FILE_ROWS_MAX)
    if table.by:
        # Sorted by time, so that a query for an hour can skip files.
        cut = rows.repartitionByRange(count, table.by) if count > 1 else rows.coalesce(1)
        return store.write(cut.sortWithinPartitions(table.by), table, stamp)
    return store.write(rows.coalesce(count), table, stamp)

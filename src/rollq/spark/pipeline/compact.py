"""Small files become large ones: the rows are the same, only fewer files hold them.

By table and day, when there are many. What is a sum of batches is added up on the way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from rollq.spark.pipeline.catalog import BUSY, COUNTS, TABLES, Table
from rollq.spark.pipeline.dialect import SPARK
from rollq.spark.pipeline.gold import added_busy
from rollq.spark.pipeline.levels import added_counts
from rollq.spark.pipeline.manifest import File
from rollq.spark.pipeline.settings import SMALL_ROWS, small_work
from rollq.spark.pipeline.tables import FILE_ROWS_MAX, TableStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MANY: Final = 24  # files of a day that hold less than they could: time to do something
FEW: Final = 2  # the same, if it is asked for
FULL_ROWS: Final = FILE_ROWS_MAX // 2
# Tables whose rows are added up: under which name, by which query.
ADDED_UP: Final = {COUNTS: ("counts", added_counts(SPARK)), BUSY: ("busy", added_busy(SPARK))}


def compacted(
    store: TableStore, tables: Mapping[str, list[File]], stamp: str, many: int = MANY
) -> dict[str, list[File]]:
    """The same tables in fewer files, if some day of a table has at least `many` that are not
    full. Files that hold open rows are none of its business: every batch writes them anew.

    Returns:
        The files with the new ones, which nobody sees yet; the same if there was nothing to do.
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
    """Those of days that have many."""
    by_day: dict[str, list[File]] = {}
    for file in files:
        if not file.kind and file.rows < FULL_ROWS:
            by_day.setdefault(file.day, []).append(file)
    return [file for day in by_day.values() if len(day) >= many for file in day]


def _rewritten(store: TableStore, table: Table, files: list[File], stamp: str) -> list[File]:
    rows: DataFrame = store.read(table, files)
    if table in ADDED_UP:
        name, query = ADDED_UP[table]
        rows.createOrReplaceTempView(name)
        rows = rows.sparkSession.sql(query)
    count = -(-sum(file.rows for file in files) // FILE_ROWS_MAX)
    if table.by:
        # In the order of their moments: a day is in few files, and who asks for an hour skips the
        # rest.
        cut = rows.repartitionByRange(count, table.by) if count > 1 else rows.coalesce(1)
        return store.write(cut.sortWithinPartitions(table.by), table, stamp)
    return store.write(rows.coalesce(count), table, stamp)

"""Tables of Iceberg or Delta, which have versions of their own; one more table, `rollq_batches`,
says which versions belong together.

A batch commits to one table after the other, and then adds its row to `rollq_batches`: its number,
the offsets of each group, and the version of each table. Only that last commit makes it visible:
readers take the newest row and read all tables at its versions. An interrupted batch leaves
versions without a row; the next writer restores the versions of the newest row before it begins.
This needs no lock, rename or fsync, only that the format inserts a row at most once: of two
concurrent writers the second finds its number taken.

Tables have further columns: `_batch`, the batch that wrote a row; `_day`, the partition; and
`_open`, whether a later batch may change the row.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rollq.base.errors import ErrorCode, LocalError
from rollq.spark.pipeline.catalog import TABLES, TableSpec
from rollq.spark.pipeline.lake_batch import LakeBatch, at_version, columns_of, split_of
from rollq.spark.pipeline.lake_batches import BATCHES, BatchesTable
from rollq.spark.pipeline.lake_formats import LakeFormat
from rollq.spark.pipeline.manifest import Book, TableManifest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEPT_BATCHES: Final = 100  # kept for readers that began with them
MINUTE_MS: Final = 60_000


class LakeStorage:
    """The tables of one database or folder."""

    def __init__(self, spark: SparkSession, lake: LakeFormat, tables: str) -> None:
        self._spark = spark
        self._lake = lake
        self._tables = tables
        self._batches = BatchesTable(spark, lake)
        self._last: LakeBatch | None = None

    def newest(self) -> TableManifest | None:
        """See `Storage`, also for the methods below."""
        return self._batches.newest()

    def expect(self) -> TableManifest:
        manifest = self.newest()
        if manifest is None:
            form = self._lake.form
            raise LocalError(
                ErrorCode.BAD_OPTIONS,
                f"{self._tables} holds no {form} tables of a pipeline",
                f"make them: rollq pipeline run --once --format {form} --tables {self._tables}",
            )
        return manifest

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        self._last = None
        with contextlib.ExitStack() as stack:
            if is_local(self._tables):  # a second writer fails early
                stack.enter_context(Book(Path(self._tables)).writing())
            self._batches.create()
            yield

    def read(self, manifest: TableManifest, table: TableSpec) -> DataFrame:
        return at_version(self._spark, self._lake, table, manifest.version(table.name))

    def batch(self, found: TableManifest, stamp: str) -> LakeBatch:
        last = self._last
        heads = last.heads if last and last.is_committed else self._restored(found)
        self._last = LakeBatch(
            self._spark, self._lake, self._batches, found=found, heads=heads, stamp=stamp
        )
        return self._last

    def sweep(self) -> None:
        first, last = self._batches.span()
        if last - first >= 2 * KEPT_BATCHES:
            self.expire(last - KEPT_BATCHES, KEPT_BATCHES)

    def prune(self) -> None:
        _, last = self._batches.span()
        self._batches.forget(last - 1)
        soon_ms = int(time.time() * 1000) + MINUTE_MS  # the clock of a catalog may be ahead
        for name in (BATCHES, *TABLES):
            self._lake.expire(name, soon_ms, 1)

    def expire(self, number: int, kept: int) -> None:
        """Remove batches up to that number, and the data that only they need, except for the last
        `kept` versions of each table."""
        before_ms = self._batches.forget(number)
        for name in (BATCHES, *TABLES):
            self._lake.expire(name, before_ms, kept)

    def _restored(self, found: TableManifest) -> dict[str, str]:
        """Restore tables that are not at the version of the newest batch; returns the versions of
        all."""
        heads = {}
        for table in TABLES.values():
            self._lake.create(table.name, columns_of(table), split_of(table))
            version, now = found.version(table.name), self._lake.version(table.name)
            if now != version:
                self._lake.restore(table.name, version)
            # After the restore, because Delta restores columns, too.
            if self._add_columns(table) or now != version:
                now = self._lake.version(table.name)
            heads[table.name] = now
        return heads

    def _add_columns(self, table: TableSpec) -> bool:
        """Add columns of a newer schema version; returns whether there were any."""
        name = self._lake.name(table.name)
        known = set(self._spark.table(name).columns)
        new = [f"`{one.name}` {one.type}" for one in table.columns if one.name not in known]
        if new:
            self._spark.sql(f"ALTER TABLE {name} ADD COLUMNS ({', '.join(new)})")
        return bool(new)


def is_local(tables: str) -> bool:
    """Whether it is a local folder."""
    return "/" in tables and "://" not in tables

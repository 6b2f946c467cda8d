"""Tables of Iceberg or Delta, each with versions of its own; one more, `rollq_batches`, says
which of them belong together.

A batch commits to table after table, and then adds its row to `rollq_batches`: its number, how far
each group was read, and the version of each table. That is the one commit that counts. Readers
take the newest row and read the tables at its versions, so they see whole batches. A batch that was
broken off has left versions that no row names; the next writer goes back to those that the newest
row names before it begins. No lock, rename or sync of a file system is needed for that, only that
the format adds a row once: of two writers the second finds its number taken.

Beside their own columns tables have `_batch`, which wrote a row; `_day`, which files are split by;
and `_open`, whether a row may still change.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rollq.base.errors import ErrorCode, LocalError
from rollq.spark.pipeline.catalog import TABLES, Table
from rollq.spark.pipeline.lake_batch import LakeBatch, at_version, columns_of, split_of
from rollq.spark.pipeline.lake_batches import BATCHES, BatchesTable
from rollq.spark.pipeline.lake_formats import LakeFormat
from rollq.spark.pipeline.manifest import Book, Manifest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEPT_BATCHES: Final = 100  # that can be read by those who began with them
MINUTE_MS: Final = 60_000


class LakeStorage:
    """The tables of one database or folder."""

    def __init__(self, spark: SparkSession, lake: LakeFormat, tables: str) -> None:
        self._spark = spark
        self._lake = lake
        self._tables = tables
        self._batches = BatchesTable(spark, lake)
        self._last: LakeBatch | None = None

    def newest(self) -> Manifest | None:
        """See `Storage`; so are those below."""
        return self._batches.newest()

    def expect(self) -> Manifest:
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
            if is_local(self._tables):  # so that a second writer is told before it has worked
                stack.enter_context(Book(Path(self._tables)).writing())
            self._batches.create()
            yield

    def read(self, manifest: Manifest, table: Table) -> DataFrame:
        return at_version(self._spark, self._lake, table, manifest.version(table.name))

    def batch(self, found: Manifest, stamp: str) -> LakeBatch:
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
        soon_ms = int(time.time() * 1000) + MINUTE_MS  # clocks of a catalog may differ
        for name in (BATCHES, *TABLES):
            self._lake.expire(name, soon_ms, 1)

    def expire(self, number: int, kept: int) -> None:
        """Forget batches up to that number, and remove what only they need; the last `kept`
        versions of each table stay."""
        before_ms = self._batches.forget(number)
        for name in (BATCHES, *TABLES):
            self._lake.expire(name, before_ms, kept)

    def _restored(self, found: Manifest) -> dict[str, str]:
        """The versions of tables, after those that are not as the newest batch left them were set
        back."""
        heads = {}
        for table in TABLES.values():
            self._lake.create(table.name, columns_of(table), split_of(table))
            version, now = found.version(table.name), self._lake.version(table.name)
            if now != version:
                self._lake.restore(table.name, version)
            # After that, because Delta restores columns, too.
            if self._add_columns(table) or now != version:
                now = self._lake.version(table.name)
            heads[table.name] = now
        return heads

    def _add_columns(self, table: Table) -> bool:
        """Those that a newer version of this program brought. Returns whether there were any."""
        name = self._lake.name(table.name)
        known = set(self._spark.table(name).columns)
        new = [f"`{one.name}` {one.type}" for one in table.columns if one.name not in known]
        if new:
            self._spark.sql(f"ALTER TABLE {name} ADD COLUMNS ({', '.join(new)})")
        return bool(new)


def is_local(tables: str) -> bool:
    """Whether it is a folder of this machine."""
    return "/" in tables and "://" not in tables

"""Where tables are kept: what a run and its batches ask of a format.

Two things are asked for: `Storage`, the tables of one pipeline, of which the newest manifest says
which batch they are of; and `TableBatch`, the writing of one batch, of which no reader sees
anything until it commits. Formats are implemented beside this: `parquet` by files that a manifest
names, `lake` by Iceberg and Delta. No query of the tables knows which it is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from rollq.spark.pipeline.bronze import Hour, Reading
from rollq.spark.pipeline.catalog import Table
from rollq.spark.pipeline.dialect import SPARK
from rollq.spark.pipeline.manifest import Manifest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Only:
    """Which rows of a table are read: those that fulfil all that is said here."""

    is_open: bool | None = None  # whether they may still change
    days: Collection[str] | None = None  # by the moment that the table is split by; open ones not
    first_day: str = ""
    first_ms: int | None = None  # that are of this moment or last until then, or are open
    end_ms: int | None = None

    def moments(self, table: Table) -> str:
        """What `first_ms` and `end_ms` ask for, as SQL."""
        found = []
        if self.first_ms is not None:
            first = SPARK.moment(str(self.first_ms))
            either = [f"{name} >= {first}" for name in (table.by, table.since) if name]
            if table.since:
                either.append(f"{table.by} IS NULL")
            found.append(f"({' OR '.join(either)})")
        if self.end_ms is not None:
            found.append(f"{table.by} < {SPARK.moment(str(self.end_ms))}")
        return " AND ".join(found) or "true"


ALL = Only()
OPEN_ONLY = Only(is_open=True)


@dataclass(frozen=True, slots=True)
class NewEvents:
    """What was written of the history."""

    rows: int
    hours: list[Hour]


class TableBatch(Protocol):
    """The tables as a batch found them, and what it makes of them."""

    def write_events(
        self, reading: Reading, known: Mapping[str, int], *, is_small: bool
    ) -> NewEvents:
        """Add events to the bronze table, but for those up to the index that is known of their
        group. With `is_small`, few are expected."""

    def begin_anew(self) -> NewEvents:
        """All events count as new, and all other tables are as if they were empty."""

    def found(self, table: Table, only: Only = ALL) -> DataFrame:
        """Rows as the batch found them."""

    def now(self, table: Table, only: Only = ALL) -> DataFrame:
        """Rows with what the batch has written so far."""

    def new(self, table: Table, only: Only = ALL) -> DataFrame:
        """Rows that the batch has written."""

    def has(self, table: Table, only: Only = ALL) -> bool:
        """Whether `found` may have rows: False only if there are none."""

    def take_open_jobs(self) -> DataFrame | None:
        """Open jobs as the batch found them, those with new events among them: the view `news` has
        these. None if there are none. Their rows come again with `replace_open_jobs`."""

    def replace_open_jobs(self, rows: DataFrame) -> None:
        """Add jobs, those that are open by the column `is_open`, in place of those taken."""

    def append(self, table: Table, rows: DataFrame) -> None:
        """Add rows."""

    def replace_open(self, table: Table, rows: DataFrame, open_if: str) -> None:
        """Add rows, those that are open by this SQL, in place of all that were open."""

    def replace_days(self, table: Table, rows: DataFrame, days: Collection[str]) -> None:
        """Put rows in place of all that were of these days."""

    def replace_depth(self, rows: DataFrame, first_day: str) -> None:
        """Put rows in place of the depth from that day on; those without a minute are the levels
        of queues after the batch, in place of all of these."""

    def replace(self, table: Table, rows: DataFrame) -> None:
        """Put rows in place of all."""

    def new_spans(self, table: Table, only: Only = ALL) -> Sequence[tuple[int, int]]:
        """From when to when rows last that the batch has written: spans that hold all of them, none
        if there are none."""

    def rows_about(self, table: Table, first_ms: int, end_ms: int) -> float:
        """About how many rows there are now of a span of time."""

    def stage(self, rows: DataFrame, name: str, *, is_small: bool) -> DataFrame:
        """Rows that several questions of the batch are asked of, made once."""

    def compact(self) -> bool:
        """Make few large files of many small ones. Returns whether there was something to do."""

    def commit(self, manifest: Manifest) -> Manifest:
        """Make what was written the tables that readers see, all at once. The manifest is without
        tables; returns it with them."""

    def end(self) -> None:
        """The batch is committed, or given up."""


class Storage(Protocol):
    """The tables of one pipeline."""

    def newest(self) -> Manifest | None:
        """The last batch that was committed; None if there is none."""

    def expect(self) -> Manifest:
        """As `newest`, for readers.

        Raises:
            LocalError: BAD_OPTIONS if nothing was ever made here.
        """

    def writing(self) -> AbstractContextManager[None]:
        """Be the only writer while this lasts.

        Raises:
            DiskError: another process writes here, or none can.
        """

    def read(self, manifest: Manifest, table: Table) -> DataFrame:
        """A table as a batch left it."""

    def batch(self, found: Manifest, stamp: str) -> TableBatch:
        """The writing of the next batch. Only for the writer.

        Args:
            found: the manifest that is newest.
            stamp: a name that no other batch has.
        """

    def sweep(self) -> None:
        """Remove what no reader needs any more, and what broken batches left. Only for the
        writer."""

    def prune(self) -> None:
        """Remove at once what the newest batch does not need, whoever still reads it. Only for
        the writer."""
